from __future__ import annotations

import dataclasses

import pytest

from anydml.dxdispatch.json_descs import parse_desc, parse_operator_type, parse_tensor
from anydml.errors import ModelError
from anydml.files.location import Location
from anydml.operators import REGISTRY, SliceOperatorDesc, SplitOperatorDesc, SplitTrainingOperatorDesc
from anydml.operators.enums import AxisDirection, DepthSpaceOrder, InterpolationMode, PaddingMode, ScaleBias, Size2D
from anydml.operators.problem import camel
from anydml.tensor import DataType, TensorDesc, TensorFlags

HERE = Location("m.json", "d")
F32 = {"DataType": "FLOAT32", "Sizes": [6]}
T6 = TensorDesc(DataType.FLOAT32, [6])
T3 = TensorDesc(DataType.FLOAT32, [3])
J3 = {"DataType": "FLOAT32", "Sizes": [3]}
SPLIT = {"InputTensor": F32, "OutputCount": 2, "OutputTensors": [J3, J3], "Axis": 0}


@pytest.mark.parametrize("name", REGISTRY)
def test_types_are_full_or_abbreviated(name):
    assert parse_operator_type(name, HERE) is REGISTRY[name]
    assert parse_operator_type(name.partition("OPERATOR_")[2], HERE) is REGISTRY[name]


@pytest.mark.parametrize(
    "name", ["DML_OPERATOR_GEMM", "split", "", "DML_OPERATOR_", "hlsl", "ONNX", "dmlSerializedGraph"]
)
def test_other_types_say_where_those_supported_are_listed(name):
    with pytest.raises(ModelError) as caught:
        parse_operator_type(name, HERE)
    assert str(caught.value).startswith("m.json: d: ")
    assert "`anydml ops` lists the operators" in str(caught.value)


ONE = {
    "bool": (True, True),
    "int": (1, 1),
    "float": (10.5, 10.5),
    "Scalar": (3, 3),
    "DataType": ("DML_TENSOR_DATA_TYPE_INT8", DataType.INT8),
    "PaddingMode": ("DML_PADDING_MODE_EDGE", PaddingMode.EDGE),
    "DepthSpaceOrder": ("COLUMN_ROW_DEPTH", DepthSpaceOrder.COLUMN_ROW_DEPTH),
    "AxisDirection": ("DML_AXIS_DIRECTION_DECREASING", AxisDirection.DECREASING),
    "InterpolationMode": ("LINEAR", InterpolationMode.LINEAR),
    "ScaleBias | None": ({"Scale": 2, "Bias": 10}, ScaleBias(2, 10)),
    "Size2D": ({"Width": 2, "Height": 3}, Size2D(2, 3)),
}
"""A value of each kind in a file, and in a desc."""


@pytest.mark.parametrize("kind", REGISTRY.values())
def test_every_operator_can_be_written_down_and_read(kind):
    """Adding an operator to the registry is enough, whatever its fields."""
    written, expected = {}, {}
    for field in dataclasses.fields(kind):
        name = "".join(part.capitalize() for part in field.name.split("_"))
        if "TensorDesc, ..." in str(field.type):
            written[name], expected[field.name] = [F32, J3], (T6, T3)
            written[name.removesuffix("Tensors") + "Count"] = 2
        elif "TensorDesc" in str(field.type):
            written[name], expected[field.name] = J3, T3
        elif "tuple" in str(field.type):
            written[name], expected[field.name] = [1, -2, 3], (1, -2, 3)
            written["DimensionCount"] = 3
        else:
            written[name], expected[field.name] = ONE[str(field.type)]
    assert parse_desc(kind, written, HERE) == kind(**expected)
    for name in written:
        without = {key: value for key, value in written.items() if key != name}
        is_count = name.endswith("Count") and name not in map(camel, (f.name for f in dataclasses.fields(kind)))
        optional = is_count or name in ("SplitTensor", "PerInputLengthTensor", "ScaleBias")
        kinds = {field.name: str(field.type) for field in dataclasses.fields(kind)}
        optional |= name == "InputTensor" and "None" in kinds["input_tensor"]
        if optional or (name == "Axis" and kind.OPERATOR.endswith("Training")):
            parse_desc(kind, without, HERE)
        else:
            with pytest.raises(ModelError, match=rf"^m.json: d.{name}: is required"):
                parse_desc(kind, without, HERE)


def test_a_split():
    assert parse_desc(SplitOperatorDesc, SPLIT, HERE) == SplitOperatorDesc(T6, [T3, T3], 0)


def test_optional_tensors_may_be_missing_or_null():
    expected = SplitTrainingOperatorDesc(T6, None, [T3, T3])
    assert parse_desc(SplitTrainingOperatorDesc, {**SPLIT, "SplitTensor": None}, HERE) == expected
    assert parse_desc(SplitTrainingOperatorDesc, SPLIT, HERE) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"OutputCount": 3}, "d.OutputCount: is 3, but OutputTensors has 2 entries"),
        ({"Axis": "0"}, 'd.Axis: must be an integer, not "0"'),
        ({"Axis": 0.0}, "d.Axis: must be an integer, not 0.0"),
        ({"Axis": True}, "d.Axis: must be an integer, not true"),
        ({"Axis": 10**50}, "d.Axis: an integer of more than 40 digits does not fit 64 bits"),
        ({"InputTensor": None}, "d.InputTensor: must be an object, not null"),
        ({"OutputTensors": F32}, "d.OutputTensors: must be an array, not an object"),
        ({"OutputTensors": [F32, 3]}, "d.OutputTensors[1]: must be an object, not 3"),
        ({"OutputTensors": [F32, {"Sizes": [1]}]}, "d.OutputTensors[1].DataType: is required"),
        (
            {"InputTensor": {"DataType": "FLOAT32", "sizes": [1]}},
            "d.InputTensor.Sizes: is required, but missing; this object has",
        ),
    ],
)
def test_errors_of_a_desc(change, message):
    with pytest.raises(ModelError) as caught:
        parse_desc(SplitOperatorDesc, {**SPLIT, **change}, HERE)
    assert str(caught.value).startswith(f"m.json: {message}")


def test_dimension_count_is_checked():
    desc = {"InputTensor": F32, "OutputTensor": J3, "DimensionCount": 2, "Offsets": [0], "Sizes": [3], "Strides": [1]}
    with pytest.raises(ModelError, match=r"d\.DimensionCount: is 2, but Offsets has 1 entry"):
        parse_desc(SliceOperatorDesc, desc, HERE)
    assert parse_desc(SliceOperatorDesc, {**desc, "DimensionCount": 1}, HERE).sizes == (3,)


FULL = {
    "Type": "DML_TENSOR_TYPE_BUFFER",
    "Desc": {
        "DataType": "DML_TENSOR_DATA_TYPE_FLOAT32",
        "Flags": "DML_TENSOR_FLAG_NONE",
        "DimensionCount": 4,
        "Sizes": [1, 1, 2, 3],
        "Strides": [6, 6, 3, 1],
        "TotalTensorSizeInBytes": 24,
        "GuaranteedBaseOffsetAlignment": 16,
    },
}


def test_a_tensor_in_full():
    expected = TensorDesc("FLOAT32", [1, 1, 2, 3], [6, 6, 3, 1], TensorFlags.NONE, 24, 16)
    assert parse_tensor(FULL, HERE) == expected
    assert parse_tensor({"Type": "BUFFER", **FULL["Desc"]}, HERE) == expected
    assert parse_tensor(FULL["Desc"], HERE) == expected


@pytest.mark.parametrize("flags", ["OWNED_BY_DML", "DML_TENSOR_FLAG_OWNED_BY_DML", ["NONE", "OWNED_BY_DML"]])
def test_flags(flags):
    assert parse_tensor({**F32, "Flags": flags}, HERE).flags == TensorFlags.OWNED_BY_DML
    assert parse_tensor({**F32, "Flags": []}, HERE).flags == TensorFlags.NONE


@pytest.mark.parametrize("nothing", [{"Strides": []}, {"Strides": None}, {"TotalTensorSizeInBytes": 0}])
def test_fields_that_say_nothing(nothing):
    assert parse_tensor({**F32, **nothing}, HERE) == T6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Type": "TEXTURE"}, 'd.Type: "TEXTURE" is not supported'),
        ({"Desc": 3}, "d.Desc: must be an object"),
        ({"DimensionCount": 2}, "d.DimensionCount: is 2, but Sizes has 1 entry"),
        ({"Sizes": [1, "2"]}, "d.Sizes[1]: must be an integer"),
        ({"DataType": "UNKNOWN"}, "d.DataType: a tensor of type UNKNOWN"),
        ({"DataType": "INT4"}, "d.DataType: unknown data type 'INT4'"),
        ({"DataType": 1}, "d.DataType: must be a string"),
        ({"Flags": ["NONE", "X"]}, 'd.Flags[1]: "X" is not a tensor flag'),
        ({"Flags": "X"}, 'd.Flags: "X" is not a tensor flag'),
    ],
)
def test_errors_of_a_tensor(change, message):
    with pytest.raises(ModelError) as caught:
        parse_tensor({**F32, **change}, HERE)
    assert str(caught.value).startswith(f"m.json: {message}")


def test_a_missing_field_is_told_with_the_near_name_that_is_there_unless_that_is_another_field():
    misspelt = {("ImputTensor" if name == "InputTensor" else name): value for name, value in SPLIT.items()}
    with pytest.raises(
        ModelError, match=r'd\.InputTensor: is required, but missing; this object has "ImputTensor": is that meant\?'
    ):
        parse_desc(SplitOperatorDesc, misspelt, HERE)
    without = {name: value for name, value in SPLIT.items() if name != "InputTensor"}
    with pytest.raises(ModelError, match=r"d\.InputTensor: is required, but missing$"):
        parse_desc(SplitOperatorDesc, without, HERE)
