"""Calls that compiled code answers before Python looks at a function: nobody sees a difference but the time."""

import copy
import gc
import inspect
import pickle
import subprocess
import sys
import threading
import types
from functools import partial

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import answering
from anydml.engines.cpu.loader import LOADER
from anydml.functions.steps import PLANS

pytestmark = [
    pytest.mark.usefixtures("own_plans"),
    pytest.mark.skipif(answering.writer() is None, reason="this Python lets nobody else answer calls"),
]

X, ORDER, OUT = np.arange(24.0).reshape(4, 6), np.array([2, 0, 1]), np.zeros((6, 4))
PARTS = [np.zeros((4, 3)), np.zeros((4, 3))]
CALLS = {
    "copy": (dml.copy, {"x": X.T}, lambda: X.T),
    "copy out": (dml.copy, {"x": X.T, "out": OUT}, lambda: X.T),
    "slice1": (
        dml.slice1,
        {"x": X, "window_offsets": (0, 1), "window_sizes": (2, 4), "window_strides": (1, 2)},
        lambda: X[:2, 1:5:2],
    ),
    "split": (dml.split, {"x": X, "sizes_or_sections": 2, "axis": 1}, lambda: np.split(X, 2, 1)),
    "split out": (dml.split, {"x": X, "sizes_or_sections": 2, "axis": 1, "out": PARTS}, lambda: np.split(X, 2, 1)),
    "join": (dml.join, {"arrays": [X, X], "axis": 1}, lambda: np.concatenate([X, X], 1)),
    "gather": (dml.gather, {"x": X, "indices": ORDER, "axis": 1}, lambda: X[:, ORDER]),
}


def warm(call):
    """Call until compiled code does it."""
    for _ in range(40):
        call()
    assert LOADER.settle(120)
    for _ in range(4):
        call()


def is_answered(function, call):
    """Whether no step of Python's own code of a function is taken."""
    taken = []
    sys.setprofile(lambda frame, event, _: taken.append(event) if frame.f_code is function.__code__ else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return not taken


def ways(function, given):
    """Calls with as many arguments by their places as may be, one less by each."""
    positional = inspect.signature(function).parameters.values()
    names = [each.name for each in positional if each.kind is each.POSITIONAL_OR_KEYWORD and each.name in given]
    for count in range(len(names) + 1):
        plain = [given[name] for name in names[:count]]
        yield partial(function, *plain, **{name: given[name] for name in [*given][::-1] if name not in names[:count]})


@pytest.mark.parametrize("name", CALLS)
def test_every_way_to_give_arguments_is_answered(name):
    function, given, expected = CALLS[name]
    for call in ways(function, given):
        warm(call)
        for array in (OUT, *PARTS):
            array[...] = -1
        assert is_answered(function, call)
        assert np.array_equal(call(), expected())


def of_python(function):
    """The same function, whose calls nobody else answers."""
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def said(call):
    try:
        found = call()
    except Exception as error:
        return type(error), str(error)
    return [*map(np.ndarray.tolist, found)] if isinstance(found, list) else found.tolist()


@pytest.mark.parametrize("name", CALLS)
def test_what_is_not_answered_is_said_by_python(name):
    function, given, _ = CALLS[name]
    warm(partial(function, **given))
    other, first = of_python(function), next(iter(given))
    odd = [((), {}), ((given[first],) * 9, {}), ((given[first],), {**given}), ((), {**given, "no": 1})]
    odd += [
        ((), {**given, each: wrong}) for each in given for wrong in (None, "no", 7.5, [], object, X, (1, 2), np.int8)
    ]
    odd += [((), {each: value for each, value in given.items() if each != left}) for left in given]
    odd += [((), {"".join([*each]): value for each, value in given.items()})]
    if function is dml.gather:
        odd += [
            ((), {**given, "out_of_range": word}) for word in ("clamp", "".join(["cl", "amp"]), "skip", "refuse", 1)
        ]
    for arguments, named in odd:
        assert said(partial(function, *arguments, **named)) == said(partial(other, *arguments, **named))


def test_subclasses_are_not_answered():
    warm(partial(dml.copy, X.T))
    masked = np.ma.masked_array(X, X > 3)
    assert said(partial(dml.copy, masked.T)) == said(partial(of_python(dml.copy), masked.T))
    matrix = X.T.view(np.matrix)
    assert np.array_equal(dml.copy(matrix), matrix)
    assert not is_answered(dml.copy, partial(dml.copy, matrix))


def test_nothing_is_lost_or_kept():
    calls = [call for function, given, _ in CALLS.values() for call in ways(function, given)]
    for call in calls:
        warm(call)
    names = [name for function, _, _ in CALLS.values() for name in function.__code__.co_varnames]
    held = [X, ORDER, OUT, *PARTS, PARTS, X.dtype, *names, *[function for function, _, _ in CALLS.values()]]

    def counts():
        gc.collect()
        return [sys.getrefcount(each) for each in held]

    def is_as_before():
        before = counts()
        for _ in range(500):
            for call in calls:
                call()
            with pytest.raises(TypeError):
                partial(dml.copy)(X, no=1)
        return counts() == before

    # What calls lose or keep, they do each time; names and dtypes are other threads' in this process, too.
    assert any(is_as_before() for _ in range(3))


def test_functions_are_still_those_of_python():
    warm(partial(dml.copy, X.T))
    assert pickle.loads(pickle.dumps(dml.copy)) is dml.copy
    assert copy.deepcopy(dml.copy) is dml.copy
    assert [*inspect.signature(dml.copy).parameters] == ["x", "out"]
    assert inspect.isfunction(dml.copy)
    assert dml.copy.__doc__


def test_plans_that_are_gone_are_not_used():
    call = partial(dml.copy, X.T)
    warm(call)
    PLANS.clear()
    assert not is_answered(dml.copy, call)
    assert np.array_equal(call(), X.T)
    warm(call)
    assert is_answered(dml.copy, call)


def test_threads_are_answered_at_the_same_time():
    wrong = []

    def work(seed):
        x = np.random.default_rng(seed).random((300, 200))
        wrong.extend(seed for _ in range(200) if not np.array_equal(partial(dml.copy, x.T)(), x.T))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_words_of_another_function_are_not_used():
    call, other = partial(dml.copy, X.T), partial(dml.gather, X, ORDER, 1)
    warm(call)
    warm(other)
    at, place = answering._slot(id(dml.copy)), answering._slot(id(dml.gather))
    kept = answering._TABLE.copy()
    answering._TABLE[at + 1] = answering._TABLE[place + 1]
    try:
        assert np.array_equal(call(), X.T)
        assert not is_answered(dml.copy, call)
    finally:
        answering._TABLE[:] = kept
    assert is_answered(dml.copy, call)


def test_threads_may_make_what_answers_twice():
    call = partial(dml.copy, X.T)
    warm(call)
    answering._code.cache_clear()
    answering.answer.answer.cache_clear()
    answering.writer()(dml.copy, answering._code())
    assert is_answered(dml.copy, call)
    assert np.array_equal(call(), X.T)


LATE = """
import atexit
from functools import partial
import numpy as np
import anydml as dml

class Late:
    def __init__(self):
        self.call = partial(dml.copy, np.arange(6.0).reshape(2, 3).T)
    def __del__(self):
        print(self.call().tolist())

late = Late()
from anydml.engines.cpu.loader import LOADER
from anydml.engines.cpu.compiler import import_kernels
import_kernels()
for _ in range(3):
    for _ in range(60):
        late.call()
    assert LOADER.settle(120)
from anydml.engines.cpu import answering
assert answering._answered
atexit.register(lambda: print(late.call().tolist()))
kept = [late]
kept.append(kept)
"""


def test_calls_at_the_end_of_the_process():
    ran = subprocess.run([sys.executable, "-c", LATE], check=False, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert lines
    assert set(lines) == {"[[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]"}
