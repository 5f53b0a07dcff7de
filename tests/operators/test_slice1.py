"""DML_SLICE1: each rule at its boundary and just past it."""

import numpy as np
import pytest
from refused import f32, refused

import anydml as dml
from anydml.operators.slice1 import first_copied
from anydml.text import count_noun

UINT = "it must be 0 to 4294967295 (UINT)"
INSIDE = "the window must lie inside InputTensor"
MOST = "1 <= OutputSizes[i] <= 1 + (InputWindowSize[i] − 1) / |InputWindowStrides[i]|"
STRIDE = "a stride must be an INT and never 0"


def slice1(offset, size, stride, taken, whole=10):
    return dml.Slice1OperatorDesc(f32(2, whole), f32(2, taken), [0, offset], [2, size], [1, stride])


@pytest.mark.parametrize("offset, size", [(0, 10), (9, 1), (3, 7), (0, 1)])
def test_the_window_may_reach_the_end(offset, size):
    slice1(offset, size, 1, size).check()


@pytest.mark.parametrize("offset, size", [(0, 11), (10, 1), (3, 8), (2**32 - 1, 1)])
def test_the_window_lies_inside(offset, size):
    message = f"InputWindowOffsets[1] + InputWindowSizes[1] is {offset + size}, but InputTensor.Sizes[1] is 10"
    refused(slice1(offset, size, 1, 1), "InputWindowSizes[1]", INSIDE, message)


def test_the_window_is_not_empty():
    refused(slice1(3, 0, 1, 1), "InputWindowSizes[1]", "the window must not be empty", "InputWindowSizes[1] is 0")


@pytest.mark.parametrize(
    "size, stride, most", [(1, 1, 1), (7, 1, 7), (7, 2, 4), (8, 2, 4), (7, 3, 3), (7, 6, 2), (7, 7, 1)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_output_takes_at_most_what_the_window_gives(size, stride, most, sign):
    for taken in range(1, most + 1):
        slice1(2, size, sign * stride, taken).check()
    message = f"OutputTensor.Sizes[1] is {most + 1}, but a window of {size} with stride {sign * stride} gives at most"
    refused(slice1(2, size, sign * stride, most + 1), "OutputTensor.Sizes[1]", MOST, message)


@pytest.mark.parametrize("stride", [-(2**31), 2**31 - 1])
def test_strides_of_any_INT(stride):
    slice1(4, 6, stride, 1).check()
    refused(slice1(4, 6, stride, 2), "OutputTensor.Sizes[1]", MOST, "gives at most 1")


@pytest.mark.parametrize("stride", [0, -(2**31) - 1, 2**31])
def test_no_other_strides(stride):
    message = f"InputWindowStrides[1] is {stride}"
    refused(slice1(4, 6, stride, 1), "InputWindowStrides[1]", STRIDE, message)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("stride, expected", [(-(2**31), 9), (2**31 - 1, 4)])
def test_extreme_strides_read_one_element(device, stride, expected):
    y = np.zeros((2, 1), np.float32)
    x = np.arange(20, dtype=np.float32).reshape(2, 10)
    dml.Device(device).compile_operator(slice1(4, 6, stride, 1)).bind([x], [y]).dispatch()
    np.testing.assert_array_equal(y, [[expected], [10 + expected]])


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_negative_stride_starts_at_the_end_of_its_own_dimension(device):
    # Window sizes that all differ, so that the end of another dimension would be seen.
    x = np.arange(5 * 6 * 7, dtype=np.float32).reshape(5, 6, 7)
    desc = dml.Slice1OperatorDesc(f32(5, 6, 7), f32(1, 2, 2), [1, 0, 2], [2, 6, 4], [-1, -3, -2])
    y = np.zeros((1, 2, 2), np.float32)
    dml.Device(device).compile_operator(desc).bind([x], [y]).dispatch()
    np.testing.assert_array_equal(y, [[[x[2, 5, 5], x[2, 5, 3]], [x[2, 2, 5], x[2, 2, 3]]]])


@pytest.mark.parametrize("value", [-1, 2**32])
def test_offsets_and_sizes_are_unsigned(value):
    refused(slice1(value, 1, 1, 1), "InputWindowOffsets[1]", UINT, f"InputWindowOffsets[1] is {value}")
    refused(slice1(0, value, 1, 1), "InputWindowSizes[1]", UINT, f"InputWindowSizes[1] is {value}")


@pytest.mark.parametrize("field", ["InputWindowOffsets", "InputWindowSizes", "InputWindowStrides"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_there_is_one_value_a_dimension(field, count):
    values = {"InputWindowOffsets": [0, 0], "InputWindowSizes": [2, 10], "InputWindowStrides": [1, 1]}
    values[field] = [1] * count
    desc = dml.Slice1OperatorDesc(f32(2, 10), f32(1, 1), *values.values())
    message = f"{field} has {count_noun(count, 'entry')}, but InputTensor has 2 dimensions"
    refused(desc, field, "one entry per dimension (DimensionCount)", message)


def test_tensors_are_alike():
    half = dml.TensorDesc("FLOAT16", [4])
    refused(
        dml.Slice1OperatorDesc(f32(4), half, [0], [4], [1]),
        "OutputTensor.DataType",
        "InputTensor and OutputTensor must have the same DataType",
        "OutputTensor.DataType is FLOAT16, but InputTensor.DataType is FLOAT32",
    )
    refused(
        dml.Slice1OperatorDesc(f32(4), f32(4, 1), [0], [4], [1]),
        "OutputTensor.Sizes",
        "InputTensor and OutputTensor must have the same DimensionCount",
        "OutputTensor has 2 dimensions, but InputTensor has 1",
    )


@pytest.mark.parametrize("stride, start", [(-(2**31), 6), (-1, 6), (0, 2), (1, 2), (2**31 - 1, 2)])
def test_copy_start_is_the_documents(stride, start):
    """`if (InputWindowStrides[i] < 0)`: also for a stride of 0, which no desc that is run has."""
    assert (first_copied(1, 2, 1), first_copied(2, 5, stride)) == (1, start)
    first, *_ = slice1(2, 5, stride, 1).elements(None)
    assert first == (1, (0, 0), 0, (0, start))
