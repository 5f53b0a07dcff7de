"""Enumerations, scalars and small structs of descs in model files."""

import math

import pytest

from anydml.dxdispatch.json_descs import parse_desc, parse_operator_type
from anydml.errors import ModelError
from anydml.files.location import Location
from anydml.operators import REGISTRY
from anydml.operators.unsupported import why_refused
from anydml.tensor import DataType

HERE = Location("m.json", "d")
ROW = {"DataType": "FLOAT32", "Sizes": [1, 1, 1, 4]}


def read(operator, **fields):
    return parse_desc(REGISTRY[f"DML_OPERATOR_{operator}"], fields, HERE)


def fill(data_type, value):
    tensor = {"DataType": data_type, "Sizes": [4]}
    return read("FILL_VALUE_CONSTANT", OutputTensor=tensor, ValueDataType=data_type, Value=value).value


def test_scalars_are_numbers_or_members():
    assert fill("FLOAT32", 13.0) == 13.0
    assert fill("FLOAT32", 0.1) == float.fromhex("0x1.99999ap-4")
    assert math.isnan(fill("FLOAT64", "nan"))
    assert fill("UINT64", 2**64 - 1) == 2**64 - 1
    assert fill("INT8", {"Int8": -3}) == -3
    assert fill("UINT16", {"UInt16": 65535}) == 65535
    assert fill("FLOAT32", {"Float32": 1}) == 1.0
    # 0x3C00 is 1 in 16 bits.
    assert fill("FLOAT16", {"UInt16": 0x3C00}) == 1.0


@pytest.mark.parametrize(
    "data_type, value, message",
    [
        ("INT8", 200, "d.Value: 200 does not fit INT8 (-128 to 127)"),
        ("INT8", 1.5, "d.Value: must be an integer for INT8, not 1.5"),
        ("INT8", {"Int16": 1}, "d.Value: must have the one member Int8, of INT8, not"),
        ("FLOAT32", {"Float32": "x"}, "d.Value.Float32: must be a number"),
        ("FLOAT32", True, "d.Value: must be a number"),
        ("UNKNOWN", 1, "d.ValueDataType: a value of type UNKNOWN cannot be read"),
        ("INT4", 1, "d.ValueDataType: unknown data type 'INT4'"),
    ],
)
def test_errors_of_a_scalar(data_type, value, message):
    tensor = {"DataType": "FLOAT32", "Sizes": [4]}
    with pytest.raises(ModelError) as caught:
        read("FILL_VALUE_CONSTANT", OutputTensor=tensor, ValueDataType=data_type, Value=value)
    assert str(caught.value).startswith(f"m.json: {message}")


@pytest.mark.parametrize("mode", ["WRAP", "DML_PADDING_MODE_WRAP"])
def test_enumerations(mode):
    fields = {"InputTensor": ROW, "OutputTensor": ROW, "StartPadding": [0] * 4, "EndPadding": [0] * 4}
    assert read("PADDING", **fields, PaddingMode=mode, PaddingValue=0).padding_mode.name == "WRAP"
    for wrong in ("wrap", "DML_WRAP", 4, None):
        with pytest.raises(
            ModelError, match=r"d\.PaddingMode: .* is not a DML_PADDING_MODE; there are .CONSTANT., .EDGE."
        ):
            read("PADDING", **fields, PaddingMode=wrong, PaddingValue=0)


def test_structs():
    assert read("ELEMENT_WISE_IDENTITY", InputTensor=ROW, OutputTensor=ROW).scale_bias is None
    assert read("ELEMENT_WISE_IDENTITY", InputTensor=ROW, OutputTensor=ROW, ScaleBias=None).scale_bias is None
    with pytest.raises(ModelError, match=r"d\.ScaleBias\.Bias: is required"):
        read("ELEMENT_WISE_IDENTITY", InputTensor=ROW, OutputTensor=ROW, ScaleBias={"Scale": 1})
    image = {"InputTensor": ROW, "OutputTensor": ROW, "InterpolationMode": "NEAREST_NEIGHBOR"}
    assert read("UPSAMPLE_2D", **image, ScaleSize={"Width": 2, "Height": 1}).scale_size == (2, 1)
    with pytest.raises(ModelError, match=r"d\.ScaleSize\.Height: -1 does not fit UINT32"):
        read("UPSAMPLE_2D", **image, ScaleSize={"Width": 2, "Height": -1})
    with pytest.raises(ModelError, match=r"d\.ScaleSize: must be an object, not 2"):
        read("UPSAMPLE_2D", **image, ScaleSize=2)


def test_counts_are_checked():
    fields = {"InputTensor": ROW, "OutputTensor": ROW, "Repeats": [1, 1, 1, 1]}
    assert read("TILE", **fields, RepeatsCount=4).repeats == (1, 1, 1, 1)
    with pytest.raises(ModelError, match=r"d\.RepeatsCount: is 3, but Repeats has 4 entries"):
        read("TILE", **fields, RepeatsCount=3)


def test_a_matrix_may_have_no_input():
    fields = {"OutputTensor": ROW, "ValueDataType": "FLOAT32", "Value": 7, "DiagonalFillBegin": 0}
    desc = read("DIAGONAL_MATRIX1", **fields, DiagonalFillEnd=1)
    assert (desc.input_tensor, desc.value_data_type) == (None, DataType.FLOAT32)


def test_resampling_is_read():
    fields = {
        "InputTensor": ROW,
        "OutputTensor": ROW,
        "InterpolationMode": "NEAREST_NEIGHBOR",
        "Scales": [1, 1, 1, 0.5],
    }
    assert read("RESAMPLE", **fields, ScaleCount=4).scales == (1, 1, 1, 0.5)
    with pytest.raises(ModelError, match=r"d\.ScaleCount: is 3, but Scales has 4 entries"):
        read("RESAMPLE", **fields, ScaleCount=3)
    fields |= {"InputPixelOffsets": [0.5] * 4, "OutputPixelOffsets": [-0.5] * 4, "DimensionCount": 4}
    found = read("RESAMPLE3", **fields, RoundingDirection="DML_AXIS_DIRECTION_DECREASING", Antialiased=True)
    assert (found.rounding_direction.name, found.antialiased) == ("DECREASING", True)
    with pytest.raises(ModelError, match=r"d\.Antialiased: must be true or false, not 1"):
        read("RESAMPLE3", **fields, RoundingDirection="INCREASING", Antialiased=1)


@pytest.mark.parametrize("name", ["DML_OPERATOR_FOLD", "FOLD", "GEMM", "ELEMENT_WISE_ADD"])
def test_what_computes_is_refused_as_such(name):
    with pytest.raises(ModelError) as caught:
        parse_operator_type(name, HERE)
    what = "adds windows that overlap" if "FOLD" in name else "computes"
    assert str(caught.value).startswith(f'm.json: d: "{name}" {what}, and anydml moves data and computes nothing')


def test_what_another_operator_does_is_refused_with_its_name():
    with pytest.raises(ModelError) as caught:
        parse_operator_type("DML_OPERATOR_ACTIVATION_IDENTITY", HERE)
    assert "DML_OPERATOR_ELEMENT_WISE_IDENTITY does the same" in str(caught.value)
    assert "computes" not in str(caught.value)


def test_no_operator_is_said_to_compute_that_anydml_has():
    assert all(why_refused(name) is None for name in REGISTRY)
