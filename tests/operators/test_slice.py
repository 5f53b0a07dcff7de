"""DML_SLICE: each rule at its boundary and just past it."""

import pytest
from refused import f32, refused

import anydml as dml
from anydml.text import count_noun

UINT = "it must be 0 to 4294967295 (UINT)"
INSIDE = "the last element taken must lie inside the input"


def slice_(offsets, sizes, strides, whole=(4, 10), taken=None):
    return dml.SliceOperatorDesc(f32(*whole), f32(*(taken or sizes)), offsets, sizes, strides)


@pytest.mark.parametrize(
    "offset, size, stride",
    [(0, 10, 1), (9, 1, 1), (9, 1, 2**32 - 1), (0, 2, 9), (1, 5, 2), (0, 4, 3), (1, 4, 2), (8, 2, 1)],
)
def test_the_last_element_may_be_the_inputs_last(offset, size, stride):
    slice_([0, offset], [4, size], [1, stride]).check()


@pytest.mark.parametrize(
    "offset, size, stride, last",
    [(0, 11, 1, 10), (10, 1, 1, 10), (0, 2, 10, 10), (2, 5, 2, 10), (1, 4, 3, 10), (9, 2, 2**32 - 1, 4294967304)],
)
def test_nothing_is_read_outside(offset, size, stride, last):
    refused(
        slice_([0, offset], [4, size], [1, stride]),
        "Sizes[1]",
        INSIDE,
        f"Offsets[1] + (Sizes[1] − 1)·Strides[1] is {last}, but InputTensor.Sizes[1] is 10",
    )


def test_sizes_are_the_outputs():
    refused(
        slice_([0, 0], [4, 5], [1, 1], taken=[4, 4]),
        "Sizes",
        "Sizes must equal OutputTensor.Sizes",
        "Sizes is [4, 5], but OutputTensor.Sizes is [4, 4]",
    )


def test_strides_are_at_least_1():
    refused(slice_([0, 0], [4, 2], [1, 0]), "Strides[1]", "each stride must be at least 1", "Strides[1] is 0")


@pytest.mark.parametrize("value", [-1, 2**32])
def test_values_are_unsigned(value):
    refused(slice_([value, 0], [4, 2], [1, 1]), "Offsets[0]", UINT, f"Offsets[0] is {value}")
    refused(slice_([0, 0], [4, value], [1, 1], taken=[4, 1]), "Sizes[1]", UINT, f"Sizes[1] is {value}")
    refused(slice_([0, 0], [4, 1], [1, value]), "Strides[1]", UINT, f"Strides[1] is {value}")


@pytest.mark.parametrize("field", ["Offsets", "Sizes", "Strides"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_there_is_one_value_a_dimension(field, count):
    values = {"Offsets": [0, 0], "Sizes": [4, 10], "Strides": [1, 1]} | {field: [1] * count}
    desc = dml.SliceOperatorDesc(f32(4, 10), f32(4, 10), values["Offsets"], values["Sizes"], values["Strides"])
    message = f"{field} has {count_noun(count, 'entry')}, but InputTensor has 2 dimensions"
    refused(desc, field, "one entry per dimension (DimensionCount)", message)


def test_tensors_are_alike():
    half, flat = dml.TensorDesc("FLOAT16", [4]), f32(1, 4)
    refused(
        dml.SliceOperatorDesc(f32(4), half, [0], [4], [1]),
        "OutputTensor.DataType",
        "InputTensor and OutputTensor must have the same DataType",
        "OutputTensor.DataType is FLOAT16, but InputTensor.DataType is FLOAT32",
    )
    refused(
        dml.SliceOperatorDesc(f32(4), flat, [0], [4], [1]),
        "OutputTensor.Sizes",
        "InputTensor and OutputTensor must have the same DimensionCount",
    )
