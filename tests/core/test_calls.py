"""Random calls of every function: compiled code, Python's long way and NumPy agree, in results and in errors."""

import numpy as np
import pytest
from call_ways import FUNCTIONS, counted, held, in_python, outcome
from drawn_calls import alike, call_of, spoiled, target
from function_cases import called
from odd_arrays import same

import anydml as dml

CALLS = 150


def listed(value):
    return [*value] if isinstance(value, (list, tuple)) else [value]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_numpys(name):
    rng = np.random.default_rng([1, *name.encode()])
    with counted() as done:
        for _ in range(CALLS):
            given, expected = call_of(rng, name)
            found = called(FUNCTIONS[name], given)
            for one, other in zip(listed(found), listed(expected), strict=True):
                same(one, np.asarray(other))
                assert one.flags.c_contiguous
                assert one.flags.writeable
    assert len(done) > CALLS // 4, "Python did most of it"


def drawn(name, number):
    """One call, the same whenever it is asked for: its arguments, and where its result goes."""
    rng = np.random.default_rng([2, number, *name.encode()])
    given, expected = call_of(rng, name)
    out = target(rng, expected, given) if rng.random() < 0.6 else None
    if rng.random() < 0.5:
        given = tuple(alike(rng, each) for each in given)
    if rng.random() < 0.4:
        given = spoiled(rng, given)
    return given, out


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compiled_code_does_and_refuses_what_python_does_and_refuses(name):
    with counted() as done:
        for number in range(CALLS):
            given, out = drawn(name, number)
            found = outcome(FUNCTIONS[name], given, out=out)
            given, out = drawn(name, number)
            with in_python():
                assert found == outcome(FUNCTIONS[name], given, out=out), (number, given, out)
    assert len(done) > CALLS // 10


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_callers_array_is_the_result(name):
    rng = np.random.default_rng([3, *name.encode()])
    for _ in range(CALLS // 5):
        given, expected = call_of(rng, name)
        arrays = listed(expected[0] if name == "concat_training" else expected)
        outs = [np.zeros(each.shape, each.dtype) for each in arrays]
        before = held(given)
        out = outs if isinstance(expected, list) else outs[0]
        found = called(FUNCTIONS[name], given, out=out)
        found = found[0] if name == "concat_training" else found
        assert all(map(lambda one, other: one is other, listed(found), outs))
        for one, other in zip(outs, arrays, strict=True):
            same(one, other)
        assert held(given) == before


def overlapping(given, at, expected):
    """The arguments and an array for the result, whose first byte is among the last of the array `at`."""
    x = given[at]
    start = (x.nbytes - 1) // 16 * 16
    memory = np.zeros(start + 16 + expected.nbytes, np.uint8)
    part = memory[: x.nbytes].view(x.dtype).reshape(x.shape)
    part[...] = x
    out = memory[start : start + expected.nbytes].view(expected.dtype).reshape(expected.shape)
    return (*given[:at], part, *given[at + 1 :]), out


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "split" not in name])
def test_a_result_that_overlaps_an_argument_is_refused_or_right(name):
    """Arguments that are converted first, such as indices in other byte order, may be overwritten."""
    rng = np.random.default_rng([6, *name.encode()])
    for _ in range(CALLS // 3):
        given, expected = call_of(rng, name)
        expected = expected[0] if name == "concat_training" else expected
        for at, x in enumerate(given):
            if not isinstance(x, np.ndarray) or not (x.size and expected.size):
                continue
            if x.dtype.hasobject or expected.dtype.hasobject:
                continue
            arguments, out = overlapping(given, at, expected)
            before = out.tobytes()
            try:
                called(FUNCTIONS[name], arguments, out=out)
            except dml.BindingError:
                assert out.tobytes() == before
            else:
                same(out, expected)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if "split" not in name])
def test_an_empty_result_takes_no_bytes(name):
    rng = np.random.default_rng([7, *name.encode()])
    for _ in range(3 * CALLS):
        given, expected = call_of(rng, name)
        expected = expected[0] if name == "concat_training" else expected
        if expected.size or expected.dtype.hasobject:
            continue
        memory = np.full(1024, 7, np.uint8)
        out = memory[512:512].view(expected.dtype).reshape(expected.shape)
        called(FUNCTIONS[name], given, out=out)
        assert (memory == 7).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_new_and_their_callers_own(name):
    rng = np.random.default_rng([4, *name.encode()])
    for _ in range(10):
        given, _ = call_of(rng, name)
        arrays = [each for value in given for each in listed(value) if isinstance(each, np.ndarray)]
        results = [each for k in range(2) for each in listed(called(FUNCTIONS[name], given))]
        for k, each in enumerate(results):
            assert type(each) is np.ndarray
            assert not any(np.may_share_memory(each, other) for other in (*arrays, *results[:k]))


@pytest.mark.parametrize("name", ["scatter", "scatter_nd"])
def test_updates_are_put_into_the_callers_own_array(name):
    rng = np.random.default_rng([5, *name.encode()])
    done = 0
    for _ in range(CALLS):
        given, expected = call_of(rng, name)
        x = np.array(given[0], order="C")
        if x.dtype != expected.dtype:
            continue
        assert called(FUNCTIONS[name], (x, *given[1:]), out=x) is x
        same(x, expected)
        done += 1
    assert done
