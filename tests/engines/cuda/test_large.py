"""Addresses more than 2³¹ elements apart, in memory of which only a few pages are ever touched."""

import numpy as np
import pytest
from cuda_calls import gather, slice_
from cuda_memory import ON_GPU

FAR = 2**32

if ON_GPU:
    pytest.skip("test_on_gpu.py does this with real memory", allow_module_level=True)


@pytest.fixture(scope="module")
def memory():
    try:
        return np.zeros(FAR + 4096, np.uint8)
    except MemoryError:
        pytest.skip("4 GiB of address space cannot be reserved")


def fill(memory, spots):
    values = np.random.default_rng(3).integers(1, 256, len(spots), np.uint8)
    memory[spots] = values
    return values


@pytest.mark.parametrize("step", [2**30, -(2**30), 2**31 + 7])
def test_strides_beyond_32_bits(memory, step):
    count = 4 if abs(step) == 2**30 else 2
    start = (count - 1) * -step if step < 0 else 5
    spots = start + step * np.arange(count)
    values = fill(memory, spots)
    result = slice_(memory, (start,), (count,), (step,), None)
    np.testing.assert_array_equal(result, values)
    rows = np.ndarray((count, 3), np.uint8, memory, start, (step, 1))
    fill(memory, spots + 1)
    np.testing.assert_array_equal(slice_(rows, (0, 0), (count, 3), (1, 1), None), rows)
    out = np.ndarray((count, 3), np.uint8, memory, start + 100, (step, 1))
    slice_(rows, (0, 0), (count, 3), (1, 1), out)
    np.testing.assert_array_equal(out, rows)


def test_parts_far_into_the_source(memory):
    spots = FAR - 1000 + np.arange(2000)
    values = fill(memory, spots)
    result = slice_(memory, (FAR - 1000,), (2000,), (1,), None)
    np.testing.assert_array_equal(result, values)


@pytest.mark.parametrize("dtype", ["uint32", "int64", "uint64", "int32"])
def test_indices_beyond_31_bits(memory, dtype):
    indices = np.array([0, 7, 2**31 - 1, 2**32 - 1, 2**31, 2**31 + 9], np.int64)
    if dtype == "int32":
        indices = np.array([0, 7, 2**31 - 1, -1, -(2**31), -5], np.int64)
    spots = np.where(indices < 0, indices + len(memory), indices)
    values = fill(memory, spots)
    result = gather(memory, indices.astype(dtype), 0, None)
    np.testing.assert_array_equal(result, values)


def test_clamping_beyond_31_bits(memory):
    memory[[0, -1]] = 11, 22
    wild = np.array([np.iinfo(np.int64).min, np.iinfo(np.int64).max, len(memory)])
    np.testing.assert_array_equal(gather(memory, wild, 0, None), [11, 22, 22])
