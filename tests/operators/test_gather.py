"""DML_GATHER: each rule at its boundary and just past it, and what becomes of hostile indices."""

import numpy as np
import pytest
from refused import f32, refused

import anydml as dml

SHAPE = "sizes must be InputTensor's before Axis, the index sizes, InputTensor's after Axis, right-aligned"
LEADING = (
    "the dimensions before the last IndexDimensions must be 1; DirectML leaves others undefined, "
    "and its drivers answer differently"
)


def gather(x, indices, y, axis, index_dimensions, index_type="UINT32"):
    return dml.GatherOperatorDesc(f32(*x), dml.TensorDesc(index_type, indices), f32(*y), axis, index_dimensions)


def test_axis_is_in_range():
    for axis, y in ((0, [1, 3]), (1, [2, 1])):
        gather([2, 3], [1, 1], y, axis, 1).check()
    for axis in (-1, 2):
        desc = gather([2, 3], [1, 1], [2, 1], axis, 1)
        refused(desc, "Axis", "Axis must be 0 to InputTensor.DimensionCount − 1", f"Axis is {axis}")


def test_index_dimensions_run_to_the_dimension_count_inclusive():
    for dimensions, y in ((0, [1, 2]), (1, [2, 1]), (2, [2, 1])):
        gather([2, 3], [1, 1], y, 1, dimensions).check()
    for dimensions in (-1, 3):
        desc = gather([2, 3], [1, 1], [2, 1], 1, dimensions)
        message = f"IndexDimensions is {dimensions}, but IndicesTensor has 2 dimensions"
        refused(desc, "IndexDimensions", "IndexDimensions must be 0 to DimensionCount", message)


def test_dimensions_before_the_index_dimensions_are_1():
    # The case that two drivers of one machine answer differently.
    message = "IndicesTensor.Sizes is [3, 2], but with IndexDimensions 1 its first 1 must be 1"
    refused(gather([3, 3], [3, 2], [3, 2], 1, 1), "IndicesTensor.Sizes", LEADING, message)
    refused(gather([3, 3], [1, 2], [1, 3], 1, 0), "IndicesTensor.Sizes", LEADING, "first 2 must be 1")
    gather([3, 3], [1, 2], [3, 2], 1, 1).check()


@pytest.mark.parametrize(
    "x, indices, axis, dimensions, y",
    [
        ([5], [1], 0, 0, [1]),  # a scalar index: the axis disappears, and a leading 1 fills up
        ([4, 5, 6], [1, 1, 1], 1, 0, [1, 4, 6]),
        ([4, 5, 6], [1, 1, 7], 1, 1, [4, 7, 6]),
        ([1, 5, 6], [1, 7, 8], 1, 2, [7, 8, 6]),  # the input's leading 1 goes
        ([1, 1, 6], [7, 8, 9], 2, 3, [7, 8, 9]),  # two go
        ([1, 4, 6], [1, 1, 7], 2, 2, [4, 1, 7]),  # the input's 1 goes before the index's
        ([1, 4, 6], [1, 1, 7], 2, 3, [4, 1, 7]),  # the input's, then one of the index's
        ([3, 2], [1, 2], 1, 2, [3, 2]),  # example 3: no leading 1 in the input, so the index's goes
        ([3, 2], [1, 1], 0, 2, [1, 2]),
    ],
)
def test_output_sizes_are_right_aligned(x, indices, axis, dimensions, y):
    gather(x, indices, y, axis, dimensions).check()
    for d in range(len(y)):
        wrong = [n + (i == d) for i, n in enumerate(y)]
        message = f"OutputTensor.Sizes is {wrong}, but must be {y}"
        refused(gather(x, indices, wrong, axis, dimensions), "OutputTensor.Sizes", SHAPE, message)


@pytest.mark.parametrize(
    "x, indices, axis, dimensions, logical",
    [([3, 2], [2, 2], 1, 2, [3, 2, 2]), ([2, 3, 4], [1, 5, 6], 1, 2, [2, 5, 6, 4]), ([3, 2], [2, 1], 0, 2, [2, 1, 2])],
)
def test_only_ones_are_cropped(x, indices, axis, dimensions, logical):
    message = f"the gathered sizes {logical} do not fit OutputTensor's {len(x)} dimensions"
    desc = gather(x, indices, x, axis, dimensions)
    refused(desc, "OutputTensor.Sizes", "only leading sizes of 1 may be cropped", message)


def test_tensors_are_alike():
    half, indices = dml.TensorDesc("FLOAT16", [4]), dml.TensorDesc("UINT32", [4])
    refused(
        dml.GatherOperatorDesc(f32(4), indices, half, 0, 1),
        "OutputTensor.DataType",
        "InputTensor and OutputTensor must have the same DataType",
        "OutputTensor.DataType is FLOAT16, but InputTensor.DataType is FLOAT32",
    )
    refused(
        gather([4], [4], [1, 4], 0, 1),
        "OutputTensor.Sizes",
        "InputTensor and OutputTensor must have the same DimensionCount",
    )
    refused(
        gather([4], [1, 4], [4], 0, 1),
        "IndicesTensor.Sizes",
        "InputTensor and IndicesTensor must have the same DimensionCount",
    )


@pytest.mark.parametrize("index_type", ["FLOAT32", "FLOAT64", "INT8", "INT16", "UINT8", "UINT16"])
def test_only_four_types_index(index_type):
    rule = "IndicesTensor must be INT64 or INT32 or UINT64 or UINT32"
    message = f"IndicesTensor.DataType is {index_type}"
    refused(gather([4], [4], [4], 0, 1, index_type), "IndicesTensor.DataType", rule, message)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize(
    "index_type, values, expected",
    [
        ("INT32", [-1, -4, -5, 0, 3, 4, -(2**31), 2**31 - 1], [3, 0, 0, 0, 3, 3, 0, 3]),
        ("INT64", [-1, -4, -5, 0, 3, 4, -(2**63), 2**63 - 1], [3, 0, 0, 0, 3, 3, 0, 3]),
        ("UINT32", [0, 1, 3, 4, 2**31, 2**32 - 1, 2**32 - 4, 2], [0, 1, 3, 3, 3, 3, 3, 2]),
        ("UINT64", [0, 1, 3, 4, 2**63, 2**64 - 1, 2**63 + 1, 2], [0, 1, 3, 3, 3, 3, 3, 2]),
    ],
)
@pytest.mark.parametrize("row", [1, 3])
def test_indices_wrap_once_and_clamp(device, index_type, values, expected, row):
    x = np.arange(4 * row, dtype=np.float32).reshape(4, row)
    indices = np.array([values], index_type.lower())
    y = np.full((8, row), -1, np.float32)
    desc = gather(x.shape, indices.shape, y.shape, 0, 1, index_type)
    dml.Device(device).compile_operator(desc).bind([x, indices], [y]).dispatch()
    np.testing.assert_array_equal(y, np.array([x[i] for i in expected]))


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_clamping_never_reads_beyond_the_axis(device):
    # Memory around the axis belongs to somebody else: its value must never appear.
    around = np.full(12, 99, np.float32)
    x = around[4:8]
    x[...] = [1, 2, 3, 4]
    indices = np.array([-9, 9, 2**62, -(2**62)], np.int64)
    y = np.zeros(4, np.float32)
    desc = gather([4], [4], [4], 0, 1, "INT64")
    dml.Device(device).compile_operator(desc).bind([x, indices], [y]).dispatch()
    np.testing.assert_array_equal(y, [1, 4, 4, 1])
