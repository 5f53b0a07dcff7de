"""Random numbers and times that a traced function takes are refused, as later calls would use the same ones."""

import collections
import datetime
import functools
import operator
import os
import random
import secrets
import subprocess
import sys
import threading
import time
import types
import uuid
from datetime import datetime as moment
from random import randint
from time import perf_counter

import numpy as np
import pytest
from numpy.random import SeedSequence
from numpy.random import randint as numpys_randint

import anydml as dml

torch = pytest.importorskip("torch")

X = np.arange(64)
GENERATOR = np.random.default_rng(0)
STATE = np.random.RandomState(1)
PYTHONS = random.Random(2)
TORCHS = torch.Generator()
SYSTEMS = random.SystemRandom()
SETTINGS = types.SimpleNamespace(deep={"generators": [GENERATOR]})


def drawn_by_a_helper():
    return GENERATOR.integers(30)


def from_(draw):
    """Return a function that begins a slice at a drawn number."""

    def sliced(x):
        start = int(draw()) % 30
        return x[start : start + 4]

    return sliced


class Crop:
    """A transform that holds its generator."""

    def __init__(self):
        self.generator = np.random.default_rng(1)

    def __call__(self, x):
        return x[int(self.generator.integers(30)) :]

    def crop(self, x):
        return self(x)


DRAWS = {
    "random": from_(lambda: random.randint(0, 30)),
    "random's own name": from_(lambda: randint(0, 30)),
    "random, a cached gauss": from_(lambda: random.gauss(0, 9)),
    "random, a shuffle": from_(lambda: random.shuffle([1, 2, 3]) or 3),
    "numpy.random": from_(lambda: np.random.randint(30)),
    "numpy.random's own name": from_(lambda: numpys_randint(30)),
    "numpy.random, a cached gauss": from_(lambda: np.random.randn() * 9),
    "numpy.random, a permutation": from_(lambda: np.random.permutation(30)[0]),
    "torch": from_(lambda: torch.randint(30, ())),
    "Generator": from_(lambda: GENERATOR.integers(30)),
    "RandomState": from_(lambda: STATE.randint(30)),
    "BitGenerator": from_(lambda: GENERATOR.bit_generator.random_raw() % 30),
    "Random": from_(lambda: PYTHONS.randint(0, 30)),
    "torch.Generator": from_(lambda: torch.randint(30, (), generator=TORCHS)),
    "a helper": from_(drawn_by_a_helper),
    "an attribute": from_(lambda: SETTINGS.deep["generators"][0].integers(30)),
    "a default": lambda x, by=GENERATOR: x[by.integers(30) :],
    "a keyword's default": lambda x, *, by=GENERATOR: x[by.integers(30) :],
    "a callable object": Crop(),
    "a method": Crop().crop,
    "a partial": functools.partial(lambda by, x: x[by.integers(30) :], GENERATOR),
    "a fused function": dml.fuse(from_(drawn_by_a_helper)),
    "a vectorized function": from_(functools.partial(np.vectorize(lambda _: GENERATOR.integers(30)), 0)),
    "an array of objects": from_(functools.partial(lambda by: by[1].integers(30), np.array([None, GENERATOR]))),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("library", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_draws_are_refused_and_every_time(name, library):
    fused = dml.fuse(DRAWS[name])
    for _ in range(2):
        with pytest.raises(dml.FuseError, match=r"drew random numbers from .*: pass them as arguments"):
            fused(library(X))


@pytest.mark.parametrize(
    ("module", "draw"),
    [
        ("random", lambda x: x[random.randrange(3)]),
        ("numpy.random", lambda x: x[np.random.randint(3)]),
        ("torch", lambda x: x[int(torch.randint(3, ()))]),
    ],
    ids=["random", "numpy", "torch"],
)
def test_draws_from_a_modules_own_generator_name_the_module(module, draw):
    with pytest.raises(dml.FuseError, match=rf"drew random numbers from {module} while"):
        dml.fuse(draw)(X)


@pytest.mark.parametrize("is_alone", [True, False])
def test_draws_from_a_generator_that_the_function_loads_are_refused(is_alone):
    # NumPy loads its own when it is first asked for it.
    program = f"""
import sys, threading
import numpy as np
import anydml as dml
assert "numpy.random" not in sys.modules
if not {is_alone}:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
try:
    dml.fuse(lambda x: x[int(np.random.random() * 7) :])(np.arange(100))
except dml.FuseError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert "drew random numbers from" in done.stdout, done


HIDDEN = {
    "bits": lambda x: sys.modules["".join(("ran", "dom"))].getrandbits(1),
    "a cached gauss": lambda x: sys.modules["".join(("ran", "dom"))].gauss(0, 9),
    "no bits": lambda x: sys.modules["".join(("ran", "dom"))].choice([1]),
    "a cached gauss of NumPy": lambda x: sys.modules["".join(("numpy.ran", "dom"))].randn(),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_draws_from_a_generator_that_no_name_leads_to_are_refused(name, monkeypatch):
    # Where there are others, it may be theirs.
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    draw = HIDDEN[name]
    np.random.seed(3)
    for k in range(4):
        if k == 2:
            # NumPy makes two normal numbers at once, and keeps the second.
            np.random.randn()
        with pytest.raises(
            dml.FuseError, match=r"drew random numbers from (numpy\.)?random .*: pass them as arguments"
        ):
            dml.fuse(lambda x: (draw(x), x[1:])[1])(X)


@pytest.mark.parametrize("name", ["random.random", "numpy.random.random", "numpy.random.get_state", "random.getstate"])
def test_functions_that_draw_may_be_replaced(name, monkeypatch):
    monkeypatch.setattr(name, lambda: 0.5)
    assert np.array_equal(dml.fuse(lambda x: x[1:])(X), X[1:])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[: int(len(x) * 0.5)],
        lambda x: np.zeros(len(x), x.dtype),
        lambda x: x[bool(x.size) :] if isinstance(x, np.ndarray) else x,
        lambda x: np.full(len(x), 2.0, dtype=float),
    ],
)
def test_generators_are_not_compared_for_functions_that_cannot_draw(function, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(random, "getstate", lambda: pytest.fail("the state was read"))
        assert np.array_equal(dml.fuse(function)(X), function(X))


class Holder:
    """An object whose methods and attributes no name in a function says."""

    def __init__(self):
        self.draw = random.random

    def pick(self):
        return random.random()


class Integers(np.ndarray):
    """An array with a method."""

    def pick(self):
        return random.random()


@functools.singledispatch
def dispatched(x):
    return random.random()


def matched(x):
    match HOLDER:
        case Holder(draw=draw):
            return draw()


def decorated(function):
    @functools.wraps(function)
    def call(x):
        return function(x)

    return call


HOLDER, ROW = Holder(), np.zeros(3).view(Integers)
PICK, DRAW = operator.methodcaller("pick"), operator.attrgetter("draw")
UNIVERSAL, VECTORIZED = np.frompyfunc(lambda _: random.random(), 1, 1), np.vectorize(lambda _: random.random())
MISSING = collections.defaultdict(random.random)
CALLS = np.array([random.random])
MANY = [random.random] * 1000
MANY_GENERATORS = [np.random.default_rng(k) for k in range(300)]
MANY_METHODS = np.array([generator.random for generator in MANY_GENERATORS])
MANY_PARTIALS = {k: functools.partial(float, PYTHONS.random) for k in range(300)} | {
    0: functools.partial(PYTHONS.uniform, 0, 9)
}
MANY_HOLDERS = [types.SimpleNamespace(by=[generator]) for generator in MANY_GENERATORS]
MANY_FUNCTIONS = [lambda *, by=generator: by.random() for generator in MANY_GENERATORS]
MANY_LISTS = [[np.random.default_rng(k) for k in range(200)] for _ in range(20)]

BEHIND = {
    "functions by class": lambda x: dispatched(1),
    "a missing item": lambda x: (MISSING.clear(), MISSING[1])[1],
    "a method's name": lambda x: PICK(HOLDER),
    "an attribute's name": lambda x: DRAW(HOLDER)(),
    "a pattern": matched,
    "a decorated function": decorated(lambda x: HOLDER.draw()),
    "a universal function": lambda x: UNIVERSAL(1),
    "a vectorized function": lambda x: VECTORIZED(1),
    "an array's method": lambda x: ROW.pick(),
    "an array of functions": lambda x: CALLS[0](),
    "a long list": lambda x: MANY[-1](),
    "a long list of generators": lambda x: MANY_GENERATORS[-1].random(),
    "a long array": lambda x: MANY_METHODS[-1](),
    "a long dict": lambda x: MANY_PARTIALS[0](),
    "a long list of objects": lambda x: MANY_HOLDERS[-1].by[0].random(),
    "a long list of functions": lambda x: MANY_FUNCTIONS[-1](),
    "more objects than are visited": lambda x: MANY_LISTS[-1][-1].random(),
    "a text": lambda x: eval("MANY[-1]()"),
}


@pytest.mark.parametrize("name", BEHIND)
def test_draws_behind_objects_of_libraries_are_refused(name, monkeypatch):
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    draw = BEHIND[name]
    for _ in range(2):
        with pytest.raises(dml.FuseError, match=r"drew random numbers from .*: pass them as arguments"):
            dml.fuse(lambda x: (draw(x), x[1:])[1])(X)


@pytest.mark.parametrize("call", [VECTORIZED, UNIVERSAL], ids=["vectorized", "universal"])
def test_draws_of_functions_among_the_arguments_are_refused(call, monkeypatch):
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    for _ in range(2):
        with pytest.raises(dml.FuseError, match=r"drew random numbers from .*: pass them as arguments"):
            dml.fuse(lambda x, call: (call(1), x[1:])[1])(X, call)


ROWS = [(0, 4), (3, 7)]


def joined(x, y):
    return np.concatenate([part[a:b].T for part in (x, y) for a, b in ROWS if len(part) > max(a, 1)])


MOVING = {
    "indices": lambda x: x[1:].T,
    "functions": lambda x: np.flip(np.pad(x, (0, 3)), 0),
    "a helper": lambda x: joined(x, x),
    "anydml's": lambda x: dml.split(x, 2)[1],
}


@pytest.mark.parametrize("name", MOVING)
@pytest.mark.parametrize("library", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_generators_are_not_compared_for_functions_that_only_move(name, library, monkeypatch):
    compared = []
    monkeypatch.setattr("anydml.tracing.random_draws._global_generators", lambda visited: compared.append(1) or ())
    dml.fuse(MOVING[name])(library(X))
    assert not compared
    dml.fuse(lambda x: (GENERATOR, MOVING[name](x))[1])(library(X))
    assert compared


class Loaded(int):
    """A number whose sums are drawn."""

    def __add__(self, other):
        return random.randrange(6)


class Announced:
    """A class that draws when it is derived from."""

    def __init_subclass__(cls):
        cls.start = random.randrange(6)


class Shown:
    """An array of another library, whose elements are drawn."""

    @property
    def __array_interface__(self):
        self.elements = np.full(1, random.randrange(6))
        return self.elements.__array_interface__


def derived(x):
    class Derived(Announced):
        pass

    return x[Derived.start :]


LOADED, SHOWN = Loaded(1), Shown()
UNNAMED = {
    **{name: lambda x, draw=draw: x[int(abs(draw(x)) * 6) :] for name, draw in BEHIND.items()},
    "a sum": lambda x: x[LOADED + 1 :],
    "a class that is derived from": derived,
    "an interface": lambda x: x[int(np.asarray(SHOWN)[0]) :],
    "a module by its text": lambda x: x[sys.modules["".join(("ran", "dom"))].randrange(6) :],
}


@pytest.mark.filterwarnings("ignore:.* is not fused")
@pytest.mark.parametrize("name", UNNAMED)
def test_draws_that_no_name_leads_to_are_not_frozen_where_other_threads_run(name):
    is_over = threading.Event()
    thread = threading.Thread(target=is_over.wait)
    thread.start()
    try:
        function = dml.fuse(UNNAMED[name])
        results = set()
        for _ in range(60):
            try:
                results.add(len(function(X)))
            except dml.FuseError:
                return
    finally:
        is_over.set()
        thread.join()
    assert len(results) > 1


def test_a_function_is_traced_again_where_another_thread_may_have_drawn(monkeypatch):
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    drawn = []

    class Other:
        """Draws at first, as another thread may."""

        @property
        def __array_interface__(self):
            if len(drawn) < 5:
                drawn.append(random.random())
            return X.__array_interface__

    other = Other()
    function = dml.fuse(lambda x: np.concatenate([x[1:], np.asarray(other)]))
    for _ in range(20):
        assert function(X).tolist() == [*X[1:], *X]
    assert function.counts.fused >= 14


class Seeded(random.Random):
    """A generator of another class."""


make_numpys, make_pythons, make_bits, make_seeds = np.random.default_rng, random.Random, np.random.PCG64, SeedSequence
MAKERS, PARTIAL = {"pythons": random.Random}, functools.partial(random.Random)
NUMBERS, SEEDED = types.SimpleNamespace(seed=2), Seeded(3)


class Evaluated:
    def eval(self):
        return True


EVALUATED = Evaluated()


def called(make, _):
    return make()


def local_maker(x):
    make = random.Random
    return x[make().randrange(30) :]


def inner_maker(x):
    def by_name(name):
        return getattr(random, name)

    return x[by_name("Random")().randrange(30) :]


def imported_maker(x):
    from random import Random as Make

    return x[Make().randrange(30) :]


def optional_seed(x, seed=None):
    return x[np.random.default_rng(seed).integers(30) :]


MAKER = "Random"

MADE = {
    "by a text": lambda x: x[getattr(random, "Random")().randrange(30) :],  # noqa: B009
    "by a text of a variable": lambda x: x[getattr(random, MAKER)().randrange(30) :],
    "NumPy's by a text": lambda x: x[getattr(np.random, "default_rng")().integers(30) :],  # noqa: B009
    "of a module's variables": lambda x: x[vars(random)[MAKER]().randrange(30) :],
    "by an inner function": inner_maker,
    "of an attribute getter": lambda x: x[operator.attrgetter("Random")(random)().randrange(30) :],
    "of a module's getter": lambda x: x[random.__getattribute__("Random")().randrange(30) :],
    "of code in a text": lambda x: x[eval("random.Random()").randrange(30) :],
    "by a name": lambda x: x[make_pythons().randrange(30) :],
    "NumPy's by a name": lambda x: x[make_numpys().integers(30) :],
    "bits by a name": lambda x: x[np.random.Generator(make_bits()).integers(30) :],
    "a seed by a name": lambda x: x[make_seeds().entropy % 30 :],
    "of a derived class": lambda x: x[Seeded().randrange(30) :],
    "of a table": lambda x: x[MAKERS["pythons"]().randrange(30) :],
    "of a list before a number": lambda x: x[[random.Random, 3][0]().randrange(30) :],
    "beside a number": lambda x: x[called(random.Random, 3).randrange(30) :],
    "of a partial": lambda x: x[PARTIAL().randrange(30) :],
    "of another's class": lambda x: x[type(PYTHONS)().randrange(30) :],
    "of no seed": lambda x: x[random.Random(None).randrange(30) :],
    "of a seed that is not given": optional_seed,
    "of a variable": local_maker,
    "of an import": imported_maker,
}


@pytest.mark.filterwarnings("ignore:.* is not fused")
@pytest.mark.parametrize("name", MADE)
def test_what_generators_draw_that_are_made_without_a_seed_is_not_frozen(name):
    function = dml.fuse(MADE[name])
    assert len({len(function(X)) for _ in range(40)}) > 1


def named_like_a_maker(x):
    np.random.default_rng(3)
    return (x[1:], "Random")[0] if len(x) else "Random"


STEADY = {
    "a method named eval": lambda x: x[2 if EVALUATED.eval() else 1 :],
    "an attribute by a text": lambda x: x[getattr(NUMBERS, "seed") :],  # noqa: B009
    "a text like a maker's name": named_like_a_maker,
    "a seeded generator": lambda x: x[random.Random(3).randrange(30) :],
    "NumPy's, seeded": lambda x: x[np.random.default_rng(5).integers(30) :],
    "NumPy's, seeded by a keyword": lambda x: x[np.random.default_rng(seed=5).integers(30) :],
    "an attribute named seed": lambda x: x[NUMBERS.seed :],
    "a check of a class": lambda x: x[1:] if isinstance(x, random.Random) else x[2:],
    "a generator of a derived class": lambda x: x[2:] if SEEDED is not None else x,
}


@pytest.mark.parametrize("name", STEADY)
def test_what_is_not_drawn_from_chance_is_traced_once(name):
    function = dml.fuse(STEADY[name])
    results = [function(X).tolist() for _ in range(5)]
    assert results == results[:1] * 5
    assert function.counts.traces == 1


@pytest.mark.parametrize("generator", [GENERATOR, STATE, PYTHONS], ids=["Generator", "RandomState", "Random"])
@pytest.mark.parametrize("given", [lambda each: each, lambda each: {"by": (each,)}], ids=["itself", "in a structure"])
def test_draws_from_an_argument_are_refused(generator, given):
    def crop(x, by):
        by = by if by is generator else by["by"][0]
        return x[int(by.normal() if hasattr(by, "normal") else by.random()) % 30 :]

    with pytest.raises(dml.FuseError, match="pass them as arguments"):
        dml.fuse(crop)(X, given(generator))


CLOCKS = {
    "time.time": lambda: time.time() * 1e6,
    "time.perf_counter": lambda: perf_counter() * 1e6,
    "time.monotonic_ns": lambda: time.monotonic_ns() // 8,
    "the time of day": lambda: moment.now().second,
    "the time of day ": lambda: datetime.datetime.now().second,
    "the date": lambda: datetime.date.today().day,
    "os.urandom": lambda: os.urandom(1)[0],
    "secrets.randbelow": lambda: secrets.randbelow(30),
    "uuid.uuid4": lambda: uuid.uuid4().int,
    "random.SystemRandom.randrange": lambda: SYSTEMS.randrange(30),
}


@pytest.mark.parametrize("name", CLOCKS)
def test_clocks_are_refused(name):
    with pytest.raises(dml.FuseError, match=f"{name.strip()} was read .*: pass them as arguments"):
        dml.fuse(from_(CLOCKS[name]))(X)


def test_modules_with_clocks_have_their_other_functions():
    def named(x):
        return x[datetime.timedelta(days=2).days : len(os.path.join("a", "b"))]

    assert dml.fuse(named)(X).tolist() == named(X).tolist()


def test_draws_of_a_universal_function_are_not_frozen():
    """numpy.frompyfunc hides its function, so that nothing says what it draws from."""
    universal = np.frompyfunc(lambda _: GENERATOR.integers(1 << 40), 1, 1)
    fused = dml.fuse(lambda x: (x[1:], np.full(2, universal(0), "i8")))
    assert len({int(fused(X)[1][0]) for _ in range(4)}) == 4


def test_draws_outside_the_function_are_no_matter():
    crop = dml.fuse(lambda x, start: x[start : start + 4])
    starts = [random.randint(1, 30) for _ in range(5)] + [int(GENERATOR.integers(1, 30)) for _ in range(5)]
    assert [int(crop(X, start)[0]) for start in starts] == starts


def test_generators_that_are_reached_but_not_used_are_no_matter():
    assert dml.fuse(lambda x, by=GENERATOR: x[1:] if by is GENERATOR else x)(X).tolist() == X[1:].tolist()


def test_draws_of_another_thread_are_no_matter():
    is_over = threading.Event()

    def draw():
        while not is_over.is_set():
            random.random()
            np.random.rand()
            time.sleep(0)

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        for rank in range(1, 20):
            x = X.reshape((1,) * rank + (-1,))
            assert dml.fuse(lambda x: x[..., 1:])(x).shape == (*(1,) * rank, 63)
    finally:
        is_over.set()
        thread.join()
