"""What a function reads besides its arguments is noticed when it changes: results are those of the function itself."""

import collections
import contextvars
import functools
import itertools
import os
import queue
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings

import numpy as np
import pytest

import anydml as dml

torch = pytest.importorskip("torch")

X = np.arange(64)
CALLS = 12
NUMBER, FLAG, WORDS, TABLE = 0, True, {"k": 0}, np.arange(3)
VARIABLE = contextvars.ContextVar("VARIABLE", default=0)

CASES = {}


def case(make):
    """Register a function that returns a function to be fused, and one that changes something before each call."""
    CASES[make.__name__] = make
    return make


def nothing(k):
    pass


ITERATORS = {
    "count": itertools.count,
    "cycle": lambda: itertools.cycle([3, 1, 2]),
    "list": lambda: iter([*range(30)]),
    "enumerate": lambda: map(sum, enumerate(range(30))),
    "generator": lambda: (k for k in range(30)),
    "array": lambda: map(int, np.arange(30)),
    "callable": lambda: iter(collections.deque(range(30)).popleft, 99),
}


@pytest.mark.parametrize("name", ITERATORS)
@pytest.mark.parametrize("way", ["a variable", "a default", "a method", "a partial"])
def test_iterators_advance_in_every_call(name, way):
    def make():
        each = ITERATORS[name]()
        following = each.__next__
        return {
            "a variable": lambda x: x[next(each) :],
            "a default": lambda x, each=each: x[next(each) :],
            "a method": lambda x: x[following() :],
            "a partial": functools.partial(lambda each, x: x[next(each) :], each),
        }[way], nothing

    check(make)


@case
def an_iterator_of_many():
    many = [itertools.count() for _ in range(300)]
    return lambda x: x[next(many[7]) :], nothing


@case
def a_global_number():
    def change(k):
        global NUMBER  # noqa: PLW0603
        NUMBER = k

    return lambda x: x[NUMBER:], change


@case
def a_global_flag():
    def change(k):
        global FLAG  # noqa: PLW0603
        FLAG = k % 3 == 0

    return lambda x: x[::-1] if FLAG else x, change


@case
def a_global_behind_a_functions_name():
    read, change = a_global_number()
    return functools.wraps(dml.flip)(read), change


@case
def a_global_array():
    def change(k):
        global TABLE  # noqa: PLW0603
        TABLE = np.arange(3) + k

    return lambda x: x[TABLE], change


@case
def a_global_dict():
    def change(k):
        WORDS["k"] = k

    return lambda x: x[WORDS["k"] :], change


@case
def a_number_of_a_helper():
    number = 0

    def helper():
        return number

    def change(k):
        nonlocal number
        number = k

    return lambda x: x[helper() :], change


@case
def a_counter():
    number = 0

    def counting(x):
        nonlocal number
        number += 1
        return x[number:]

    return counting, nothing


@case
def a_schedule():
    def every_fourth(x):
        every_fourth.count += 1
        return x[::-1] if every_fourth.count % 4 == 0 else x

    every_fourth.count = 0
    return every_fourth, nothing


@case
def a_default_list():
    def longer(x, seen=[]):  # noqa: B006
        seen.append(1)
        return x[len(seen) :]

    return longer, nothing


@case
def an_array_that_is_counted_in():
    counts = np.zeros(2, int)

    def counting(x):
        counts[0] += 1
        return x[int(counts[0]) :]

    return counting, nothing


@case
def a_tensor_that_is_counted_in():
    counts = torch.zeros(2, dtype=torch.int64)

    def counting(x):
        counts[0] += 1
        return x[int(counts[0]) :]

    return counting, nothing


@case
def a_queue():
    numbers = queue.Queue()
    for k in range(30):
        numbers.put(k)
    return lambda x: x[numbers.get() :], nothing


@case
def a_deque_that_rotates():
    steps = collections.deque([3, 1, 2])

    def rotating(x):
        steps.rotate(1)
        return x[steps[0] :]

    return rotating, nothing


@case
def a_context_variable():
    return lambda x: x[VARIABLE.get() :], VARIABLE.set


@case
def an_environment_variable():
    def change(k):
        os.environ["ANYDML_TEST"] = str(k)

    return lambda x: x[int(os.environ["ANYDML_TEST"]) :], change


@case
def an_environment_variable_by_getenv():
    def change(k):
        os.environ["ANYDML_TEST"] = str(k)

    return lambda x: x[int(os.getenv("ANYDML_TEST")) :], change


@case
def an_environment_variable_in_a_text():
    def change(k):
        os.environ["ANYDML_TEST"] = str(k)

    return lambda x: x[int(os.path.expandvars("$ANYDML_TEST")) :], change


@case
def an_environment_variable_as_bytes():
    def change(k):
        os.environ["ANYDML_TEST"] = str(k)

    return lambda x: x[int(os.environb[b"ANYDML_TEST"]) :], change


@case
def the_output_of_a_command():
    def change(k):
        os.environ["ANYDML_TEST"] = str(k)

    command = [sys.executable, "-c", "import os; print(os.environ['ANYDML_TEST'])"]
    return lambda x: x[int(subprocess.check_output(command)) :], change


@case
def a_default_that_is_replaced():
    def start(x, *, k=0):
        return x[k:]

    return start, lambda k: setattr(start, "__kwdefaults__", {"k": k})


@case
def a_field_of_a_record():
    record = np.zeros(1, [("start", "i4"), ("stop", "i4")])[0]
    return lambda x: x[record["start"] :], lambda k: record.__setitem__("start", k)


class Shift:
    number = 0
    shared = 0

    def __init__(self):
        self.deep = types.SimpleNamespace(sizes=[0, 0])

    def __call__(self, x):
        return x[self.number :]

    def of_class(self, x):
        return x[self.shared :]

    def of_a_list(self, x):
        return x[self.deep.sizes[1] :]

    def by_text(self, x):
        return x[getattr(self, "number") :]  # noqa: B009

    @property
    def following(self):
        self.number += 1
        return self.number

    def of_a_property(self, x):
        return x[self.following :]

    @classmethod
    def counting(cls, x):
        cls.shared += 1
        return x[cls.shared :]


class Slots:
    __slots__ = ("number",)

    def __init__(self):
        self.number = 0

    def __call__(self, x):
        return x[self.number :]


@case
def an_attribute():
    shift = Shift()
    return shift, lambda k: setattr(shift, "number", k)


@case
def an_attribute_of_a_captured_object():
    shift = Shift()
    return lambda x: x[shift.number :], lambda k: setattr(shift, "number", k)


@case
def an_attribute_by_its_name():
    shift = Shift()
    return shift.by_text, lambda k: setattr(shift, "number", k)


@case
def an_attribute_in_a_pattern():
    each = types.SimpleNamespace(start=0)

    def start(x):
        match each:
            case types.SimpleNamespace(start=start):
                return x[start:]

    return start, lambda k: setattr(each, "start", k)


@case
def an_attribute_of_a_class():
    return Shift().of_class, lambda k: setattr(Shift, "shared", k)


@case
def an_attribute_that_hides_its_classes():
    shift = Shift()
    return shift, lambda k: setattr(shift, "number", k) if k > 3 else None


@case
def an_item_of_a_list_of_an_object():
    shift = Shift()

    def change(k):
        shift.deep.sizes[1] = k

    return shift.of_a_list, change


@case
def a_property_that_counts():
    return Shift().of_a_property, nothing


@case
def a_class_method_that_counts():
    Shift.shared = 0
    return Shift.counting, nothing


@case
def a_slot():
    slots = Slots()
    return slots, lambda k: setattr(slots, "number", k)


@case
def a_submodule_of_pytorchs():
    class Inner(torch.nn.Module):
        def forward(self, x):
            return x[::-1] if self.training else x

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner.forward(x)

    module = Outer()
    return module.forward, lambda k: module.train(k % 2 == 0)


@case
def the_seed_of_pytorch():
    return lambda x: x[torch.initial_seed() :], torch.manual_seed


@case
def a_file():
    path = os.path.join(tempfile.mkdtemp(), "number")

    def change(k):
        with open(path, "w") as file:
            file.write(str(k))

    def read(x):
        with open(path) as file:
            return x[int(file.read()) :]

    return read, change


def check(make):
    """Compare calls of the fused function with those of the function."""
    found = []
    for decorate in (lambda function: function, dml.fuse):
        function, change = make()
        function = decorate(function)
        found.append([])
        for k in range(CALLS):
            change(k)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                found[-1].append(np.asarray(function(X)).tolist())
    assert found[1] == found[0]
    assert any(each != found[0][0] for each in found[0]), "nothing changes"
    return function


@pytest.mark.parametrize("name", CASES)
def test_changes_are_noticed(name):
    check(CASES[name])


def test_two_states_have_a_trace_each():
    shift = Shift()
    fused = dml.fuse(shift)
    for k in range(20):
        shift.number = k % 2
        assert fused(X)[0] == k % 2
    assert fused.counts.traces == 2
    shift.number = True
    assert "self.number has changed" in fused.explain(X)


def test_equal_values_share_a_trace():
    shift = Shift()
    fused = dml.fuse(lambda x: x[shift.size[0] : int(shift.scale)])
    for _ in range(5):
        shift.size, shift.scale = (len("abc"), 2), float("9.0")
        assert fused(X).tolist() == [*range(3, 9)]
    assert fused.counts.traces == 1


def test_what_is_only_written_is_no_matter():
    calls, shapes, tally = 0, [], types.SimpleNamespace(axes=0)

    def counting(x):
        nonlocal calls
        calls += 1
        tally.axes += x.ndim
        tally.last = x.shape
        shapes.append(tuple(size for size in x.shape))
        WORDS["calls"] = 1
        return x[1:]

    fused = dml.fuse(counting)
    for size in range(2, 20):
        fused(X[:size])
    assert (calls, len(shapes), fused.counts.traces) == (1, 1, 1)


def test_a_warning_names_what_changes():
    steps = itertools.cycle([1, -1])
    fused = dml.fuse(lambda x: x[:: next(steps)])
    with warnings.catch_warnings(record=True) as noticed:
        warnings.simplefilter("always")
        for _ in range(20):
            fused(X)
    (only,) = noticed
    assert re.search("<lambda> is not fused, since it reads steps, .* as an argument", str(only.message))
    assert only.filename == __file__
    assert "no trace is cached, since the function reads steps" in fused.explain(X)


@pytest.mark.parametrize(
    "read",
    [
        lambda: time.localtime().tm_sec,
        lambda: np.random.default_rng().integers(9),
        lambda: random.Random().randrange(9),
        lambda: len(os.listdir(".")),
        lambda: int(np.datetime64("now").astype(int)) % 9,
    ],
)
def test_what_may_differ_each_time_is_not_cached(read):
    fused = dml.fuse(lambda x: x[read() % 3 :])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for _ in range(3):
            assert fused(X).size >= 62
    assert not fused._cached._traces


def test_seeded_generators_inside_are_no_matter():
    fused = dml.fuse(lambda x: x[np.random.default_rng(3).permutation(8)])
    expected = X[np.random.default_rng(3).permutation(8)].tolist()
    assert [fused(X).tolist() for _ in range(3)] == [expected] * 3
    assert fused.counts.traces == 1


@pytest.mark.filterwarnings("ignore:.* is not fused")
@pytest.mark.parametrize(
    "start",
    [
        lambda x, seed: np.random.default_rng(seed).integers(9),
        lambda x, seed: np.random.default_rng([seed, len(x)]).integers(9),
        lambda x, seed: np.random.RandomState(seed).randint(9),
        lambda x, seed: np.random.Generator(np.random.PCG64(len(x))).integers(9),
        lambda x, seed: random.Random(seed).randrange(9),
    ],
)
def test_seeds_may_be_arguments_and_sizes(start):
    fused = dml.fuse(lambda x, seed: x[start(x, seed) :])
    for seed in (*range(12), 3):
        assert fused(X[seed:], seed).tolist() == X[seed:][start(X[seed:], seed) :].tolist()


def test_a_function_that_changes_something_and_fails_ran_once():
    steps = itertools.count()

    def failing(x):
        next(steps)
        raise KeyError("no such thing")

    fused = dml.fuse(failing)
    for _ in range(3):
        with pytest.raises(KeyError):
            fused(X)
    assert next(steps) == 3


def test_threads_see_their_own_values():
    own = threading.local()
    fused = dml.fuse(lambda x: x[own.number :])
    found = {}

    def run(number):
        own.number = number
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found[number] = [int(fused(X)[0]) for _ in range(5)]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
        thread.join()
    assert found == {number: [number] * 5 for number in range(4)}
