"""Calls are ordinary functions': they keep no reference, threads and forks share them, and profilers see them."""

import cProfile
import gc
import os
import subprocess
import sys
import threading
import types

import numpy as np
import pytest
from call_ways import FUNCTIONS
from drawn_calls import call_of, spoiled, target
from function_cases import called

import anydml as dml
from anydml.core import native

X = np.arange(60.0).reshape(4, 15)


def calls_of(name, count):
    """Calls, right and wrong ones, each of which may be made again and again."""
    rng = np.random.default_rng([7, *name.encode()])
    for number in range(count):
        given, expected = call_of(rng, name)
        out = target(rng, expected, given) if number % 2 else None
        yield (given if number % 4 < 2 else spoiled(rng, given)), out


def done(name, given, out):
    try:
        called(FUNCTIONS[name], given, out=out)
    except Exception:
        return


def held_by(given, out):
    """What a call may keep a reference of."""
    arrays = [*arrays_of(given), *arrays_of(out)]
    return [*arrays, *(each.dtype for each in arrays if hasattr(each, "dtype"))]


def arrays_of(value):
    if isinstance(value, (list, tuple)):
        return [value, *(one for each in value for one in arrays_of(each))]
    return [value] if isinstance(value, np.ndarray) else []


def test_no_reference_is_lost_or_kept():
    calls = [(name, given, out, held_by(given, out)) for name in FUNCTIONS for given, out in calls_of(name, 12)]

    def counts(times):
        for name, given, out, _ in calls:
            for _ in range(times):
                done(name, given, out)
        gc.collect()
        return [[sys.getrefcount(each) for each in held] for *_, held in calls]

    counts(1)
    # NumPy's own dtypes belong to others, too.
    for call, before, after in zip(calls, counts(1), counts(50), strict=True):
        assert all(abs(new - old) < 20 for old, new in zip(before, after, strict=True)), call[:3]


@pytest.mark.parametrize(
    "call",
    [
        lambda: dml.split(X, [4, 11], 1),
        lambda: dml.join([X, X], 1),
        lambda: dml.gather(X, [1, 2]),
        lambda: dml.pad(X, [1, 0, 0, 2], "reflect"),
        lambda: dml.fill(X, 3.5),
        lambda: dml.join([X, X], out=X),
        lambda: dml.split(X, 7, 1),
    ],
)
def test_ten_thousand_calls_leave_nothing_behind(call):
    def often(times):
        for _ in range(times):
            try:
                call()
            except (dml.DescError, dml.BindingError):
                continue

    often(10)
    gc.collect()
    before, blocks = sys.getrefcount(X), sys.getallocatedblocks()
    often(10_000)
    gc.collect()
    assert sys.getrefcount(X) == before
    assert sys.getallocatedblocks() - blocks < 2000


def test_threads_call_all_functions_at_once():
    wanted = {name: [*calls_of(name, 4)] for name in FUNCTIONS}
    expected = {}
    wrong = []

    def each(check):
        for name, calls in wanted.items():
            for number, (given, _) in enumerate(calls):
                try:
                    found = called(FUNCTIONS[name], given)
                except Exception as error:
                    found = [repr(error)]
                told = [each.tobytes() if isinstance(each, np.ndarray) else each for each in arrays_of(found)[-1:]]
                check((name, number), told)

    each(expected.__setitem__)

    def compare(key, told):
        if expected[key] != told:
            wrong.append(key)

    threads = [threading.Thread(target=lambda: [each(compare) for _ in range(5)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


CHILD = """
import os, sys
sys.path[:0] = {path!r}
import numpy as np
import anydml as dml
from anydml.core import native
from call_ways import FUNCTIONS
from drawn_calls import call_of
from function_cases import called

def every():
    for name in FUNCTIONS:
        rng = np.random.default_rng([9, *name.encode()])
        for _ in range(10):
            given, expected = call_of(rng, name)
            found = called(FUNCTIONS[name], given)
            for one, other in zip(*(each if isinstance(each, (list, tuple)) else [each] for each in (found, expected))):
                assert one.shape == np.shape(other), name

every()
{more}
print("done")
"""
FORK = """
large = np.arange(1 << 20).reshape(1 << 10, 1 << 10)
dml.copy(large.T)
child = os.fork()
every()
assert np.array_equal(dml.copy(large.T), large.T)
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.parametrize(
    "more", ["", pytest.param(FORK, marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="-"))]
)
def test_in_a_process_whose_memory_is_watched(more):
    code = CHILD.format(path=[path for path in sys.path if path], more=more)
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONMALLOC": "debug", "PYTHONWARNINGS": "ignore"},
        timeout=600,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr


def test_a_function_that_was_changed_behaves_so(monkeypatch):
    monkeypatch.setattr(dml.split, "__defaults__", (1,))
    assert [part.shape for part in dml.split(X, 3)] == [(4, 5)] * 3
    monkeypatch.setattr(dml.join, "__kwdefaults__", {"out": np.zeros((8, 15))})
    assert dml.join([X, X]) is dml.join.__kwdefaults__["out"]

    def other(x, axis=None, *, out=None):
        return "another"

    monkeypatch.setattr(dml.flip, "__code__", other.__code__)
    assert dml.flip(X) == "another"
    monkeypatch.undo()
    assert np.array_equal(dml.flip(X), np.flip(X))


def test_who_watches_sees_each_call():
    assert isinstance(dml.split, types.FunctionType)
    seen = []

    def watch(frame, event, _):
        if event == "call":
            seen.append(frame.f_code.co_name)

    for _ in range(30):
        dml.split(X, 3, 1)
    for watcher, off in ((sys.setprofile, sys.getprofile()), (sys.settrace, sys.gettrace())):
        seen.clear()
        watcher(watch)
        try:
            for _ in range(5):
                dml.split(X, 3, 1)
        finally:
            watcher(off)
        assert seen.count("split") == 5
    profile = cProfile.Profile()
    before = sys.getprofile()
    try:
        profile.runcall(dml.split, X, 3, 1)
    finally:
        sys.setprofile(before)
    assert any(entry.code is dml.split.__code__ and entry.callcount == 1 for entry in profile.getstats())


@pytest.mark.parametrize("call", [dml.fill, lambda x, v: dml.pad(x, [0, 0], value=v)])
def test_a_value_that_changes_the_array_meanwhile(call):
    x = np.arange(6.0).reshape(2, 3)

    class Value:
        def __float__(self):
            x.resize(6, refcheck=False)
            return 7.0

    assert call(x, Value()).shape == (6,)


def test_words_of_other_types_are_refused():
    class Word(str):
        __slots__ = ()

        def __eq__(self, other):
            raise AssertionError("nobody compares it")

        __hash__ = str.__hash__

    x = np.arange(6.0)
    assert native("gather")(x, [0], 0, Word("error"), None) is None
    assert native("pad")(x, [1, 1], Word("edge"), 0, None) is None


SMALL_STACK = """
import threading
import numpy as np
import anydml as dml

x = np.arange(1 << 20, dtype=np.float32).reshape(1 << 10, 1 << 10)
indices = np.arange(1000)[::-1].copy()
nested = dml.fuse(lambda x, i, j: np.take(np.take(x, i, 0), j, 0))
large = np.zeros((4096, 4099), np.float32)


def work():
    done = [
        np.array_equal(dml.gather(x, indices), x[indices]),
        np.array_equal(nested(x, indices, indices[:500] % 7), x[indices][indices[:500] % 7]),
        np.array_equal(dml.copy(large.T), large.T),
        np.array_equal(dml.copy(np.zeros((2000, 2000, 3), np.uint8)[..., ::-1]), np.zeros((2000, 2000, 3))),
    ]
    print(done)


nested(x, indices, indices)
threading.stack_size(136 << 10)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems' threads have larger stacks")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="AddressSanitizer needs more of the stack")
def test_threads_with_small_stacks_can_make_calls():
    run = subprocess.run([sys.executable, "-c", SMALL_STACK], capture_output=True, text=True, timeout=120, check=False)
    assert (run.returncode, run.stdout) == (0, f"{[True] * 4}\n"), run.stderr
