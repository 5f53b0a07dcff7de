"""What descs cannot say, on device arrays: odd element sizes, empty parts, hundreds of parts, hostile indices."""

import itertools

import cuda_calls
import numpy as np
import pytest
from cuda_memory import ON_GPU, get, put

import anydml as dml
from anydml.engines.cuda import plan
from anydml.functions.call_plans import PLANS
from anydml.memory.device_array import as_array

# PyTorch has no elements of other sizes.
ELEMENT_SIZES = (1, 2, 4, 8, 16) if ON_GPU else (1, 2, 3, 4, 6, 8, 12, 16, 24, 40)
COUNTS = (3, 300)
INDEX_TYPES = ("int32", "int64", "uint32", "uint64")


@pytest.fixture(params=[False, True], ids=["32-bit", "64-bit"])
def offsets(request, monkeypatch):
    """Every test that asks for this runs with offsets and row numbers of both widths."""
    if request.param:
        monkeypatch.setattr(plan, "LIMIT", 0)
    PLANS.clear()
    yield
    PLANS.clear()


def elements(shape, size):
    """Random elements of `size` bytes, as a dtype that NumPy only copies."""
    dtype = {1: "u1", 2: "u2", 4: "u4", 8: "u8", 16: "c16"}.get(size) or (np.void, size)
    raw = np.random.default_rng(size).integers(0, 256, (*shape, size), np.uint8)
    return np.ndarray(shape, dtype, raw.tobytes())


def split(x, sizes, axis, out=None):
    return cuda_calls.split(as_array(x), sizes, axis, out)


def same(result, expected):
    assert get(result).shape == expected.shape
    assert get(result).tobytes() == expected.tobytes()


def unequal(count, total):
    """`count` sizes, some of them 0, no two neighbours alike, that add up to `total`."""
    rng = np.random.default_rng(count)
    cuts = np.sort(rng.integers(0, total + 1, count - 1))
    return np.diff([0, *cuts, total]).tolist()


@pytest.mark.parametrize(
    ("size", "axis"),
    [(size, axis) for k, size in enumerate(ELEMENT_SIZES) for axis in range(3) if axis == k % 3 or size == 4],
)
def test_split_and_join_of_every_element_size(size, axis, offsets):
    x = elements((5, 7, 9), size)
    for sizes in ([x.shape[axis]], [2, 0, 1, x.shape[axis] - 3], [1] * x.shape[axis]):
        expected = np.split(x, list(itertools.accumulate(sizes))[:-1], axis)
        for result, part in zip(split(put(x), sizes, axis), expected, strict=True):
            same(result, part)
        out = [put(np.zeros_like(part)) for part in expected]
        assert all(a is b for a, b in zip(split(put(x), sizes, axis, out), out, strict=True))
        for result, part in zip(out, expected, strict=True):
            same(result, part)
        parts = [as_array(put(part)) for part in expected]
        same(cuda_calls.join(parts, axis), x)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("is_equal", [True, False], ids=["equal", "unequal"])
@pytest.mark.parametrize("is_block", [True, False], ids=["block", "out"])
def test_any_number_of_parts(count, is_equal, is_block, offsets):
    """The counts at which kernels change are `test_agreement`'s."""
    if plan.LIMIT == 0:
        # With wide offsets as many as make another kernel.
        count = min(count, 65)
    sizes = [3] * count if is_equal else unequal(count, 4 * count)
    x = elements((3, sum(sizes), 2), 4)
    expected = np.split(x, list(itertools.accumulate(sizes))[:-1], 1)
    out = None if is_block else [put(np.zeros_like(part)) for part in expected]
    for result, part in zip(split(put(x), sizes, 1, out), expected, strict=True):
        same(result, part)
    same(cuda_calls.join([as_array(put(part)) for part in expected], 1), x)


@pytest.mark.parametrize("size", (1, 2, 4, 8, 16))
@pytest.mark.parametrize("length", (1, 31, 1023, 4097, 70001))
def test_odd_lengths(size, length):
    x = elements((length,), size)
    first = length // 3
    for result, part in zip(split(put(x), [first, length - first], 0), (x[:first], x[first:]), strict=True):
        same(result, part)
    same(cuda_calls.slice_(as_array(put(x)), (length - 1,), (length,), (-1,), None), x[::-1])


@pytest.mark.parametrize("size", ELEMENT_SIZES)
def test_slices_of_every_element_size(size, offsets):
    x = elements((6, 11, 5), size)
    for starts, shape, steps in (
        ((0, 0, 0), (6, 11, 5), (1, 1, 1)),
        ((5, 10, 4), (6, 11, 5), (-1, -1, -1)),
        ((1, 2, 0), (2, 3, 5), (3, 4, 1)),
        ((4, 9, 3), (3, 5, 2), (-2, -2, -3)),
        ((3, 3, 3), (1, 1, 1), (-(2**31), 7, 1)),
    ):
        spots = np.ix_(*[[o + s * c for c in range(n)] for o, n, s in zip(starts, shape, steps, strict=True)])
        same(cuda_calls.slice_(as_array(put(x)), starts, shape, steps, None), x[spots])


@pytest.mark.parametrize("dtype", INDEX_TYPES)
@pytest.mark.parametrize("size", ELEMENT_SIZES)
def test_gather_by_hostile_indices(dtype, size, offsets):
    info = np.iinfo(dtype)
    x = elements((3, 7, 5), size)
    hostile = [0, 6, 7, 8, info.max, info.max - 1, info.min, info.min // 2, 3]
    hostile += [-1, -7, -8, -(2**31)] if info.min else [2**31, 2**31 - 1, 2**32 - 1, 1]
    indices = np.array([*hostile, 2], dtype).reshape(2, 7)
    for axis in range(3):
        length = x.shape[axis]
        picked = [min(max(i + length if i < 0 else i, 0), length - 1) for i in map(int, indices.flat)]
        expected = np.take(x, picked, axis).reshape((*x.shape[:axis], 2, 7, *x.shape[axis + 1 :]))
        same(cuda_calls.gather(as_array(put(x)), as_array(put(indices)), axis, None), expected)


@pytest.mark.parametrize("dtype", INDEX_TYPES)
def test_gather_by_indices_of_any_strides(dtype):
    x, indices = elements((50,), 4), np.arange(96).reshape(4, 4, 6).astype(dtype) % 50
    for view in (indices[::2, :, ::3], indices.transpose(2, 0, 1), np.broadcast_to(indices[0, 0], (3, 6))):
        operand = put(indices)
        start = view.__array_interface__["data"][0] - indices.__array_interface__["data"][0]
        strides = view.strides
        device_view = strided(operand, start, view.shape, strides, indices.dtype)
        same(cuda_calls.gather(as_array(put(x)), as_array(device_view), 0, None), x[view.astype(np.int64)])


def strided(array, offset, shape, strides, dtype):
    """A window of an array on the device, at byte offset and strides."""
    if isinstance(array, np.ndarray):
        return np.ndarray(shape, dtype, array, offset, strides)
    item = np.dtype(dtype).itemsize
    return array.as_strided(shape, [s // item for s in strides], offset // item)


def test_empty_arrays_need_no_launch():
    x = put(np.zeros((4, 0, 3), np.float32))
    assert [get(part).shape for part in split(x, [1, 0, 3], 0)] == [(1, 0, 3), (0, 0, 3), (3, 0, 3)]
    assert get(cuda_calls.slice_(as_array(x), (0, 0, 0), (2, 0, 1), (1, 1, 1), None)).shape == (2, 0, 1)
    none = put(np.zeros((0,), np.int64))
    assert get(cuda_calls.gather(as_array(put(np.zeros((3, 2), np.float32))), as_array(none), 0, None)).shape == (0, 2)
    assert get(cuda_calls.join([as_array(x), as_array(x)], 1)).shape == (4, 0, 3)


def test_scalars_and_many_dimensions():
    x = np.arange(2**9, dtype=np.int16).reshape((2,) * 9)
    same(cuda_calls.slice_(as_array(put(x)), (1,) * 9, (2,) * 9, (-1,) * 9, None), x[(np.s_[::-1],) * 9])
    same(cuda_calls.gather(as_array(put(x)), as_array(put(np.array(-1))), 4, None), x.take(-1, 4))


def test_out_that_does_not_fit():
    x = as_array(put(np.zeros((4, 3), np.float32)))
    for out, message in (
        ([np.zeros((2, 3), np.float32)], "out has 1 array for 2 parts"),
        ([np.zeros((2, 3), np.float32), np.zeros((2, 2), np.float32)], r"out\[1\] is float32 \(2, 2\)"),
        ([np.zeros((2, 3), np.float32), np.zeros((2, 3), np.int32)], r"out\[1\] is int32"),
    ):
        with pytest.raises(dml.BindingError, match=message):
            split(x, [2, 2], 0, [put(array) for array in out])
    shared = put(np.zeros((2, 3), np.float32))
    with pytest.raises(dml.BindingError, match=r"out\[1\] overlaps out\[0\]"):
        split(x, [2, 2], 0, [shared, shared])
