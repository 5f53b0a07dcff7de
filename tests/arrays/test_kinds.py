"""Every function on the arrays of every library: the values of NumPy's, in the caller's kind, dtype and device."""

from functools import partial

import numpy as np
import pytest
from array_libraries import GUEST_DTYPES, GUESTS, numpy_dtype, open_library

import anydml as dml

INDICES = np.array([[0, -1, 99], [-99, 2, 2]], np.int32)
CLAMPED = partial(dml.gather, out_of_range="clamp")
CALLS = {
    "split": lambda x, h, out: dml.split(x, [1, 0, 5], 1, out=out),
    "equal parts": lambda x, h, out: dml.split(x, 3, -1, out=out),
    "split_training": lambda x, h, out: dml.split_training(x, h.make(np.array([4, 2], np.int32)), 1, out=out),
    "split_training by a list": lambda x, h, out: dml.split_training(x, [4, 2], 1, out=out),
    "join": lambda x, h, out: [dml.join([x, x], 1, out=out and out[0])],
    "concat_training": lambda x, h, out: [dml.concat_training([x, x], out=out and out[0])[0]],
    "slice": lambda x, h, out: [dml.slice(x, (1, 0), (2, 3), (1, 2), out=out and out[0])],
    "slice1": lambda x, h, out: [dml.slice1(x, (0, 1), (3, 5), (2, -2), out=out and out[0])],
    "an empty slice": lambda x, h, out: [dml.slice1(x, (0, 1), (0, 5), (1, -1), out=out and out[0])],
    "gather": lambda x, h, out: [CLAMPED(x, h.make(INDICES), 1, out=out and out[0])],
    "gather by a list": lambda x, h, out: [CLAMPED(x, INDICES.tolist(), out=out and out[0])],
    "gather by NumPy's": lambda x, h, out: [CLAMPED(x, INDICES.astype(np.uint8), 1, out=out and out[0])],
    "gather by a number": lambda x, h, out: [dml.gather(x, -1, 1, out=out and out[0])],
}


@pytest.fixture(params=GUESTS)
def library(request):
    return open_library(request.param)


def elements(name, shape=(3, 6)):
    raw = np.random.default_rng(3).integers(
        0, 2 if name == "bool" else 256, (*shape, numpy_dtype(name).itemsize), np.uint8
    )
    return raw.reshape(-1).view(numpy_dtype(name)).reshape(shape)


def numpy_library():
    return open_library("numpy")


def same(library, results, expected):
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        assert library.is_own(result)
        seen = library.read(result)
        assert (seen.dtype, seen.shape) == (wanted.dtype, wanted.shape)
        assert seen.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("library, name", GUEST_DTYPES, indirect=["library"])
def test_values_kinds_and_dtypes(library, call, name):
    x = elements(name)
    expected = call(x, numpy_library(), None)
    argument = library.make(x)
    same(library, call(argument, library, None), expected)
    assert library.read(argument).tobytes() == x.tobytes(), "an input was changed"
    if library.can_write:
        outs = [library.zeros(wanted) for wanted in expected]
        results = call(argument, library, outs)
        assert all(result is out for result, out in zip(results, outs, strict=True))
        same(library, outs, expected)


def test_lengths_are_of_the_callers_kind(library):
    x = library.make(elements("float32"))
    joined, lengths = dml.concat_training([x, x], 1)
    assert library.is_own(lengths)
    assert library.read(lengths).dtype == np.int64
    assert library.read(lengths).tolist() == [6, 6]
    same(library, dml.split_training(joined, lengths, 1), [elements("float32")] * 2)


@pytest.mark.parametrize("call", [call for name, call in CALLS.items() if "slice" not in name])
def test_arrays_without_elements(library, call):
    x = np.zeros((3, 6, 0), np.float32)
    same(library, call(library.make(x), library, None), call(x, numpy_library(), None))


def test_a_scalar_by_slice(library):
    x = np.array(3.5, np.float32)
    same(library, [dml.slice(library.make(x), (), ())], [x])


def test_bad_indices_are_errors_if_asked_for(library):
    x = library.make(elements("float32"))
    with pytest.raises(IndexError, match="gather: index 6 in indices is out of range for an axis of size 6"):
        dml.gather(x, library.make(np.array([0, 6], np.int32)), 1)


def test_rules_are_the_same(library):
    x = library.make(elements("float32"))
    for call, message in (
        (lambda: dml.split(x, [1, 2], 1), "the sizes .* add up to 3"),
        (lambda: dml.join([x, library.make(elements("uint8"))]), r"arrays\[1\] is"),
        (lambda: dml.gather(x, x), "indices are float32"),
        (lambda: dml.split_training(x, x), "split is float32"),
        (lambda: dml.slice1(x, (0, 0), (3, 6), (1, 0)), r"window_strides\[1\] is 0"),
    ):
        with pytest.raises(dml.DescError, match=message):
            call()


def test_out_is_checked(library):
    x = library.make(elements("float32"))
    if not library.can_write:
        with pytest.raises(dml.BindingError, match=library.why_not):
            dml.join([x], out=x)
        return
    wrong_shape, wrong_dtype = (library.make(np.zeros(s, d)) for s, d in (((3, 5), "f4"), ((3, 6), "u1")))
    for out, message in (
        (wrong_shape, "out is float32"),
        (wrong_dtype, "out is .*uint8"),
        (x, r"out overlaps arrays\[0\]"),
        (np.zeros((3, 6), np.float32), "out is a NumPy array or list, but x is"),
        ([0.0], "out is a list"),
    ):
        before = library.read(x).tobytes()
        with pytest.raises(dml.BindingError, match=message):
            dml.join([x], out=out)
        assert library.read(x).tobytes() == before


def test_two_libraries_in_one_call(library):
    x, mine = elements("float32"), library.make(elements("float32"))
    for call, message in (
        (lambda: dml.join([mine, x]), r"join: arrays\[1\] is a NumPy array or list, but arrays\[0\] is a"),
        (lambda: dml.join([x, mine]), r"join: arrays\[1\] is a.*, but arrays\[0\] is a NumPy array or list"),
        (lambda: dml.concat_training([mine, x.tolist()]), r"concat_training: arrays\[1\] is a NumPy array or list"),
        (lambda: dml.gather(x, library.make(INDICES)), "gather: indices is a.*, but x is a NumPy array or list"),
        (lambda: dml.split(x, 1, out=[mine]), r"split: out\[0\] is a.*, but x is a NumPy array or list"),
    ):
        with pytest.raises(dml.BindingError, match=message) as caught:
            call()
        assert caught.value.rule == "all arrays of a call must be of one library and on one device"
        assert "\n" not in str(caught.value)
