"""Each rule of the family's operators at its boundary and just past it."""

import dataclasses

import numpy as np
import pytest
from refused import f32, refused

import anydml as dml


def ints(*sizes, data_type="INT32"):
    return dml.TensorDesc(data_type, sizes)


def changed(desc, **fields):
    return dataclasses.replace(desc, **fields)


TILE = dml.TileOperatorDesc(f32(2, 3), f32(2, 6), [1, 2])
PADDING = dml.PaddingOperatorDesc(f32(2, 3), f32(3, 5), "EDGE", 0, [1, 0], [0, 2])
PADDING1 = dml.Padding1OperatorDesc(ints(3), ints(5), "CONSTANT", "INT32", 7, [0], [2])
ELEMENTS = dml.GatherElementsOperatorDesc(f32(2, 3), ints(2, 5), f32(2, 5), 1)
ND = dml.GatherNdOperatorDesc(f32(1, 2, 3), ints(1, 4, 2), f32(1, 1, 4), 2, 2)
ND1 = dml.GatherNd1OperatorDesc(f32(2, 3), ints(2, 1), f32(1, 2), 2, 2, 1)
SCATTER = dml.ScatterOperatorDesc(f32(2, 3), ints(2, 5), f32(2, 5), f32(2, 3), 1)
SCATTER_ND = dml.ScatterNdOperatorDesc(f32(2, 3), ints(4, 2), f32(1, 4), f32(2, 3), 2, 2)
GRAD = dml.SliceGradOperatorDesc(f32(2), f32(5), [0], [4], [2])
SPACE = dml.SpaceToDepthOperatorDesc(f32(1, 2, 4, 6), f32(1, 8, 2, 3), 2)
DEPTH = dml.DepthToSpaceOperatorDesc(f32(1, 8, 2, 3), f32(1, 2, 4, 6), 2)
DIAGONAL = dml.DiagonalMatrixOperatorDesc(f32(3, 3), 0, 1)
DIAGONAL1 = dml.DiagonalMatrix1OperatorDesc(f32(3, 4), f32(3, 4), "FLOAT32", 1, 0, 1)
CONSTANT = dml.FillValueConstantOperatorDesc(ints(3, data_type="UINT8"), "UINT8", 255)
HALF = dml.FillValueConstantOperatorDesc(ints(3, data_type="FLOAT16"), "FLOAT16", 65504.0)
SEQUENCE = dml.FillValueSequenceOperatorDesc(ints(3, data_type="UINT8"), "UINT8", 10, -2)
IDENTITY = dml.ElementWiseIdentityOperatorDesc(f32(2, 3), f32(2, 3))
REVERSE = dml.ReverseSubsequencesOperatorDesc(f32(2, 3), ints(2, 1, data_type="UINT32"), f32(2, 3), 1)
ONE_HOT = dml.OneHotOperatorDesc(ints(2, 1), f32(1, 2), f32(2, 7), 1)
IF = dml.ElementWiseIfOperatorDesc(ints(2, 3, data_type="UINT8"), f32(2, 3), f32(2, 3), f32(2, 3))
NONZERO = dml.NonzeroCoordinatesOperatorDesc(f32(1, 2, 3), ints(1, data_type="UINT32"), ints(6, 2, data_type="UINT32"))
UPSAMPLE = dml.Upsample2dOperatorDesc(f32(1, 1, 2, 2), f32(1, 1, 6, 4), (2, 3), "NEAREST_NEIGHBOR")
RESAMPLE = dml.ResampleOperatorDesc(f32(2, 2), f32(4, 2), "NEAREST_NEIGHBOR", [2, 1])
RESAMPLE1 = dml.Resample1OperatorDesc(f32(2, 2), f32(4, 2), "NEAREST_NEIGHBOR", [2, 1], [0, 0], [0, 0])
RESAMPLE2 = dml.Resample2OperatorDesc(f32(2), f32(4), "NEAREST_NEIGHBOR", "INCREASING", [2], [0], [0])
RESAMPLE3 = dml.Resample3OperatorDesc(f32(2), f32(4), "NEAREST_NEIGHBOR", "INCREASING", [2], [0], [0], True)
UNFOLD = dml.UnfoldOperatorDesc(f32(1, 2, 5), f32(1, 6, 2), [3], [2], [1], [0], [0])
VALID = [
    *(TILE, PADDING, PADDING1, ELEMENTS, ND, ND1, SCATTER, SCATTER_ND, GRAD, SPACE, DEPTH, DIAGONAL, DIAGONAL1),
    *(CONSTANT, SEQUENCE, IDENTITY, REVERSE, ONE_HOT, IF, UPSAMPLE, UNFOLD, RESAMPLE, RESAMPLE1),
    *(RESAMPLE2, RESAMPLE3, NONZERO),
]


@pytest.mark.parametrize("desc", VALID, ids=lambda desc: desc.OPERATOR)
def test_valid(desc):
    desc.check()


LIKE = "sizes must be InputTensor's, except along Axis"
INDICES = "IndicesTensor must be INT64 or INT32 or UINT64 or UINT32"
UINT = "it must be 0 to 4294967295 (UINT)"
INT = "it must be −2147483648 to 2147483647 (INT)"
PICKED = "sizes must be IndicesTensor's but the last, then InputTensor's that are not indexed, right-aligned"


@pytest.mark.parametrize(
    "desc, fields, field, rule, text",
    [
        (
            NONZERO,
            {"output_count_tensor": ints(1)},
            "OutputCountTensor.DataType",
            "OutputCountTensor must be UINT32",
            "is INT32",
        ),
        (
            NONZERO,
            {"output_count_tensor": ints(1, 2, data_type="UINT32")},
            "OutputCountTensor.Sizes",
            "all sizes must be 1",
            "must be [1, 1]",
        ),
        (
            NONZERO,
            {"output_coordinates_tensor": ints(5, 3, data_type="UINT32")},
            "OutputCoordinatesTensor.Sizes",
            "rows must be InputTensor's elements, and sizes before them 1",
            "must be [6, 3]",
        ),
        (
            NONZERO,
            {"output_coordinates_tensor": ints(6, 1, data_type="UINT32")},
            "OutputCoordinatesTensor.Sizes",
            "there must be 2 to 3: dimensions, with or without leading sizes of 1",
            "has 1 coordinates in a row",
        ),
        (
            NONZERO,
            {"output_coordinates_tensor": ints(6, data_type="UINT32")},
            "OutputCoordinatesTensor.Sizes",
            "there must be at least two dimensions: rows and coordinates",
            "has 1 dimension",
        ),
        (IF, {"condition_tensor": ints(2, 3)}, "ConditionTensor.DataType", "ConditionTensor must be UINT8", "is INT32"),
        (
            IF,
            {"b_tensor": ints(2, 3)},
            "BTensor.DataType",
            "ATensor and BTensor and OutputTensor must have the same DataType",
            "",
        ),
        (IF, {"output_tensor": f32(3, 2)}, "OutputTensor.Sizes", "sizes must be ATensor's", "must be [2, 3]"),
        (
            IF,
            {"condition_tensor": ints(6, data_type="UINT8")},
            "ConditionTensor.Sizes",
            "ATensor and ConditionTensor must have the same DimensionCount",
            "has 1 dimension",
        ),
        (RESAMPLE, {"scales": [2]}, "Scales", "one entry per dimension (DimensionCount)", "has 1 entry"),
        (RESAMPLE, {"scales": [2, 0]}, "Scales[1]", "it must be a number above 0", "is 0"),
        (RESAMPLE, {"scales": [2, float("inf")]}, "Scales[1]", "it must be a number above 0", "is inf"),
        (
            RESAMPLE,
            {"interpolation_mode": "LINEAR"},
            "InterpolationMode",
            "InterpolationMode must be NEAREST_NEIGHBOR",
            "computes nothing",
        ),
        (RESAMPLE1, {"input_pixel_offsets": [0]}, "InputPixelOffsets", "one entry per dimension (DimensionCount)", ""),
        (
            RESAMPLE2,
            {"output_pixel_offsets": [float("nan")]},
            "OutputPixelOffsets[0]",
            "it must be a finite number",
            "nan",
        ),
        (
            RESAMPLE3,
            {"output_tensor": ints(4)},
            "OutputTensor.DataType",
            "InputTensor and OutputTensor must have the same DataType",
            "",
        ),
        (
            TILE,
            {"repeats": [1, 3]},
            "OutputTensor.Sizes",
            "sizes must be InputTensor's times Repeats",
            "must be [2, 9]",
        ),
        (TILE, {"repeats": [2]}, "Repeats", "one entry per dimension (DimensionCount)", "Repeats has 1 entry"),
        (TILE, {"repeats": [1, -2]}, "Repeats[1]", UINT, "Repeats[1] is -2"),
        (
            PADDING,
            {"end_padding": [0, 1]},
            "OutputTensor.Sizes",
            "sizes must be InputTensor's plus StartPadding and EndPadding",
            "is [3, 5], but must be [3, 4]",
        ),
        (PADDING, {"start_padding": [-1, 0]}, "StartPadding[0]", UINT, "StartPadding[0] is -1"),
        (
            PADDING1,
            {"padding_value_data_type": "INT8"},
            "PaddingValueDataType",
            "PaddingValueDataType must be OutputTensor.DataType",
            "is INT8, but OutputTensor.DataType is INT32",
        ),
        (
            PADDING1,
            {"padding_value": 1.5},
            "PaddingValue",
            "PaddingValue must be an INT32",
            "1.5, which is not an integer",
        ),
        (ELEMENTS, {"axis": 2}, "Axis", "Axis must be 0 to InputTensor.DimensionCount − 1", "Axis is 2"),
        (ELEMENTS, {"axis": 0}, "IndicesTensor.Sizes", LIKE, "is [2, 5], but must be [2, 3]"),
        (ELEMENTS, {"indices_tensor": f32(2, 5)}, "IndicesTensor.DataType", INDICES, "is FLOAT32"),
        (
            ELEMENTS,
            {"output_tensor": f32(2, 4)},
            "OutputTensor.Sizes",
            "sizes must be IndicesTensor's",
            "must be [2, 5]",
        ),
        (
            ND,
            {"input_dimension_count": 4},
            "InputDimensionCount",
            "InputDimensionCount must be 1 to DimensionCount",
            "is 4, but the tensors have 3 dimensions",
        ),
        (
            ND,
            {"indices_dimension_count": 0},
            "IndicesDimensionCount",
            "IndicesDimensionCount must be 1 to DimensionCount",
            "IndicesDimensionCount is 0",
        ),
        (
            ND,
            {"input_dimension_count": 1},
            "InputTensor.Sizes",
            "dimensions before the last InputDimensionCount must be 1",
            "is [1, 2, 3], but its first 2 must be 1",
        ),
        (
            ND,
            {"indices_tensor": ints(1, 4, 3), "input_dimension_count": 2},
            "IndicesTensor.Sizes",
            "an index must have at most one coordinate per dimension of InputTensor after the batch",
            "IndicesTensor.Sizes[2] is 3, for 2 dimensions",
        ),
        (ND, {"output_tensor": f32(1, 4, 1)}, "OutputTensor.Sizes", PICKED, "must be [1, 1, 4]"),
        (
            ND1,
            {"batch_dimension_count": 2},
            "BatchDimensionCount",
            "BatchDimensionCount must be less than InputDimensionCount and IndicesDimensionCount",
            "BatchDimensionCount is 2",
        ),
        (
            ND1,
            {"indices_tensor": ints(3, 1)},
            "IndicesTensor.Sizes",
            "the first BatchDimensionCount sizes must agree",
            "has the batch [3], but InputTensor.Sizes has [2]",
        ),
        (
            SCATTER,
            {"updates_tensor": f32(2, 4)},
            "UpdatesTensor.Sizes",
            "sizes must be IndicesTensor's",
            "must be [2, 5]",
        ),
        (SCATTER, {"output_tensor": f32(2, 4)}, "OutputTensor.Sizes", "sizes must be InputTensor's", "must be [2, 3]"),
        (SCATTER_ND, {"updates_tensor": f32(4, 1)}, "UpdatesTensor.Sizes", PICKED, "must be [1, 4]"),
        (
            SCATTER_ND,
            {"output_tensor": f32(2, 4)},
            "OutputTensor.Sizes",
            "sizes must be InputTensor's",
            "must be [2, 3]",
        ),
        (
            GRAD,
            {"input_window_sizes": [6]},
            "InputWindowSizes[0]",
            "the window must lie inside OutputGradientTensor",
            "is 6, but OutputGradientTensor.Sizes[0] is 5",
        ),
        (
            GRAD,
            {"input_gradient_tensor": f32(3)},
            "InputGradientTensor.Sizes[0]",
            "1 <= InputGradientSizes[i] <= 1 + (InputWindowSize[i] − 1) / |InputWindowStrides[i]|",
            "is 3, but a window of 4 with stride 2 gives at most 2",
        ),
        (GRAD, {"input_window_strides": [0]}, "InputWindowStrides[0]", "a stride must be an INT and never 0", "is 0"),
        (SPACE, {"block_size": 0}, "BlockSize", "BlockSize must be at least 1 (UINT)", "BlockSize is 0"),
        (
            SPACE,
            {"block_size": 4},
            "InputTensor.Sizes[3]",
            "BlockSize must divide height and width",
            "InputTensor.Sizes[3] is 6, which 4 does not divide",
        ),
        (
            DEPTH,
            {"block_size": 3},
            "InputTensor.Sizes[1]",
            "BlockSize² must divide the channels",
            "InputTensor.Sizes[1] is 8, which 9 does not divide",
        ),
        (
            DEPTH,
            {"output_tensor": f32(1, 2, 4, 5)},
            "OutputTensor.Sizes",
            "sizes must be N, C / BlockSize², H · BlockSize, W · BlockSize",
            "must be [1, 2, 4, 6]",
        ),
        (DIAGONAL, {"offset": 2**31}, "Offset", INT, "Offset is 2147483648"),
        (DIAGONAL1, {"diagonal_fill_end": -(2**31) - 1}, "DiagonalFillEnd", INT, "DiagonalFillEnd is -2147483649"),
        (
            DIAGONAL1,
            {"output_tensor": f32(3, 3)},
            "OutputTensor.Sizes",
            "sizes must be InputTensor's",
            "must be [3, 4]",
        ),
        (
            DIAGONAL1,
            {"value_data_type": "INT32"},
            "ValueDataType",
            "ValueDataType must be OutputTensor.DataType",
            "is INT32, but OutputTensor.DataType is FLOAT32",
        ),
        (CONSTANT, {"value": 256}, "Value", "Value must be a UINT8", "256, which does not fit (0 to 255)"),
        (HALF, {"value": 65520.0}, "Value", "Value must be a FLOAT16", "65520.0, which does not fit (−65504 to 65504)"),
        (CONSTANT, {"value": -1}, "Value", "Value must be a UINT8", "Value is -1"),
        (SEQUENCE, {"value_delta": -256}, "ValueDelta", "ValueDelta must be a UINT8", "ValueDelta is -256"),
        (SEQUENCE, {"value_start": -1}, "ValueStart", "ValueStart must be a UINT8", "ValueStart is -1"),
        (IDENTITY, {"output_tensor": f32(3, 2)}, "OutputTensor.Sizes", "sizes must be InputTensor's", "must be [2, 3]"),
        (IDENTITY, {"scale_bias": (2, 10)}, "ScaleBias", "ScaleBias must be null", "computes nothing"),
        (
            REVERSE,
            {"sequence_lengths_tensor": ints(2, 1)},
            "SequenceLengthsTensor.DataType",
            "SequenceLengthsTensor must be UINT64 or UINT32",
            "is INT32",
        ),
        (
            REVERSE,
            {"axis": 0},
            "SequenceLengthsTensor.Sizes",
            "sizes must be InputTensor's, but 1 along Axis",
            "must be [1, 3]",
        ),
        (
            ONE_HOT,
            {"indices_tensor": ints(1, 1)},
            "IndicesTensor.Sizes",
            "sizes must be OutputTensor's, but 1 along Axis",
            "must be [2, 1]",
        ),
        (ONE_HOT, {"values_tensor": f32(1, 1)}, "ValuesTensor.Sizes", "there must be at least 2 values", "is [1, 1]"),
        (UPSAMPLE, {"scale_size": (2, 0)}, "ScaleSize.Height", "it must be at least 1 (UINT)", "ScaleSize.Height is 0"),
        (
            UPSAMPLE,
            {"scale_size": (3, 2)},
            "OutputTensor.Sizes",
            "sizes must be InputTensor's, the last two times ScaleSize",
            "must be [1, 1, 4, 6]",
        ),
        (
            UPSAMPLE,
            {"interpolation_mode": "LINEAR"},
            "InterpolationMode",
            "InterpolationMode must be NEAREST_NEIGHBOR",
            "is LINEAR, but anydml moves data and computes nothing",
        ),
        (UNFOLD, {"strides": [0]}, "Strides[0]", "it must be at least 1", "Strides[0] is 0"),
        (UNFOLD, {"dilations": [3]}, "WindowSizes[0]", "the dilated window must fit the padded image", "is 3, which"),
        (
            UNFOLD,
            {"strides": [1]},
            "OutputTensor.Sizes",
            "sizes must be N, C · the window's elements, the window's positions",
            "must be [1, 6, 3]",
        ),
        (
            UNFOLD,
            {"end_padding": []},
            "EndPadding",
            "one entry per dimension after N and C (DimensionCount)",
            "EndPadding has 0 entries, but InputTensor has 1 spatial dimension",
        ),
    ],
)
def test_refused(desc, fields, field, rule, text):
    refused(changed(desc, **fields), field, rule, text)


@pytest.mark.parametrize("mode, needs", [("SYMMETRIC", "3_0"), ("WRAP", "6_4")])
def test_modes_that_a_higher_level_has(mode, needs):
    desc = dml.PaddingOperatorDesc(f32(1, 1, 1, 3), f32(1, 1, 1, 4), mode, 0, [0] * 4, [0, 0, 0, 1])
    desc.check(needs)
    for level in ("1_0", "2_1"):
        with pytest.raises(dml.DescError, match=f"PaddingMode is {mode}.*needs DML_FEATURE_LEVEL_{needs}"):
            desc.check(level)


@pytest.mark.parametrize(
    "make, field, text",
    [
        (lambda: changed(PADDING, padding_mode="WRAPPED"), "PaddingMode", "must be one of CONSTANT, EDGE"),
        (lambda: changed(PADDING, padding_mode=5), "PaddingMode", "must be one of CONSTANT, EDGE"),
        (lambda: changed(PADDING, padding_value="9"), "PaddingValue", "must be a number"),
        (lambda: changed(PADDING1, padding_value_data_type="INT4"), "PaddingValueDataType", "must be one of FLOAT32"),
        (lambda: changed(IDENTITY, scale_bias=3), "ScaleBias", "must be a ScaleBias"),
        (lambda: changed(UPSAMPLE, scale_size=(1.5, 2)), "ScaleSize.Width", "must be an integer"),
        (lambda: changed(RESAMPLE3, antialiased=np.array([0, 1])), "Antialiased", "must be a BOOL"),
        (lambda: changed(RESAMPLE3, antialiased=2), "Antialiased", "must be a BOOL"),
    ],
)
def test_arguments_of_other_types_name_their_field(make, field, text):
    with pytest.raises(dml.DescError) as caught:
        make()
    assert isinstance(caught.value, TypeError)
    assert caught.value.field == field
    assert text in str(caught.value)
