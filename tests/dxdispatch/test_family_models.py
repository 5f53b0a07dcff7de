"""Models of the family as DxDispatch's own samples have them: what moves runs, what computes is refused."""

import json

import pytest

FLAGS = {"dmlCompileType": "DmlCompileGraph", "executionFlags": "DML_EXECUTION_FLAG_ALLOW_HALF_PRECISION_COMPUTATION"}


def model(operator, desc, inputs=(), count=16, **more):
    """A model of one operator, whose output Out is printed; inputs are named by their bind points."""
    resources = {
        point: {
            "initialValuesDataType": "FLOAT32",
            "initialValues": {"valueCount": n, "valueStart": 1, "valueDelta": 1},
        }
        for point, n in inputs
    }
    out = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": count, "value": 0}}
    bindings = {point: point for point, _ in inputs} | {"OutputTensor": "Out"}
    return {
        "$schema": "./_schema.json",
        "resources": {**resources, "Out": out},
        "dispatchables": {"it": {"type": f"DML_OPERATOR_{operator}", "desc": desc, **more}},
        "commands": [
            {"type": "dispatch", "dispatchable": "it", "bindings": bindings},
            {"type": "print", "resource": "Out"},
        ],
    }


def floats(*sizes):
    return {"DataType": "FLOAT32", "Sizes": [*sizes]}


PAIR = {"InputTensor": floats(1, 1, 2, 2), "OutputTensor": floats(1, 1, 4, 4)}
SIZE = {"ScaleSize": {"Width": 2, "Height": 2}}
FOUR = [("InputTensor", 4)]
ROWS = "1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4"
SCALES = {"Scales": [1, 1, 2, 2], "InterpolationMode": "NEAREST_NEIGHBOR"}
OFFSETS = {"DimensionCount": 4, "InputPixelOffsets": [0.5] * 4, "OutputPixelOffsets": [-0.5] * 4}
RUNS = {
    "fill_value_sequence": model(
        "FILL_VALUE_SEQUENCE",
        {"ValueDataType": "FLOAT32", "ValueStart": 3.2, "ValueDelta": 1.5, "OutputTensor": floats(1, 1, 1, 5)},
        count=5,
    ),
    "identity": model(
        "ELEMENT_WISE_IDENTITY", {"InputTensor": floats(3), "OutputTensor": floats(3)}, [("InputTensor", 3)], 3, **FLAGS
    ),
    "upsample": model("UPSAMPLE_2D", {**PAIR, **SIZE, "InterpolationMode": "NEAREST_NEIGHBOR"}, FOUR),
    "resample": model("RESAMPLE", {**PAIR, **SCALES, "ScaleCount": 4}, FOUR),
    "resample1": model("RESAMPLE1", {**PAIR, **SCALES, **OFFSETS}, FOUR),
    "resample2": model(
        "RESAMPLE2",
        {**PAIR, **SCALES, **OFFSETS, "RoundingDirection": "DECREASING", "InputPixelOffsets": [0, 0, 0, 0]},
        FOUR,
        **FLAGS,
    ),
}
PRINTED = {"fill_value_sequence": "3.2, 4.7, 6.2, 7.7, 9.2", "identity": "1, 2, 3"}


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("name", RUNS)
def test_models_run(folder, plain, name, device):
    lines = []
    from anydml import dxdispatch

    dxdispatch.run(dxdispatch.load(folder.write(json.dumps(RUNS[name]))), device=device, log=lines.append)
    assert plain(lines[-1]) == f"Resource 'Out': {PRINTED.get(name, ROWS)}"


@pytest.mark.parametrize(
    "text, message",
    [
        (
            model(
                "ELEMENT_WISE_IDENTITY",
                {"InputTensor": floats(3), "OutputTensor": floats(3), "ScaleBias": {"Scale": 2, "Bias": 10}},
                [("InputTensor", 3)],
            ),
            "dispatchables.it.desc.ScaleBias: DML_ELEMENT_WISE_IDENTITY: ScaleBias is [2.0, 10.0], but anydml moves",
        ),
        (
            model("UPSAMPLE_2D", {**PAIR, **SIZE, "InterpolationMode": "DML_INTERPOLATION_MODE_LINEAR"}, FOUR),
            "dispatchables.it.desc.InterpolationMode: DML_UPSAMPLE_2D: InterpolationMode is LINEAR, but anydml moves",
        ),
        (
            model("FOLD", {**PAIR}, FOUR),
            'dispatchables.it.type: "DML_OPERATOR_FOLD" adds windows that overlap, and anydml moves data',
        ),
    ],
)
def test_what_computes_is_refused(folder, text, message):
    assert folder.error_of(folder.write(json.dumps(text))).startswith(message)


def test_a_condition_is_bound(folder, plain):
    desc = {f"{name}Tensor": floats(4) for name in ("A", "B", "Output")}
    desc["ConditionTensor"] = {"DataType": "UINT8", "Sizes": [4]}
    text = model("ELEMENT_WISE_IF", desc, [("ATensor", 4), ("BTensor", 4)], 4, **FLAGS)
    text["resources"]["B"] = {"initialValuesDataType": "FLOAT32", "initialValues": [9, 8, 7, 6]}
    text["resources"]["C"] = {"initialValuesDataType": "UINT8", "initialValues": [1, 0, 1, 1]}
    text["commands"][0]["bindings"] |= {"ConditionTensor": "C", "BTensor": "B"}
    lines = []
    from anydml import dxdispatch

    dxdispatch.run(dxdispatch.load(folder.write(json.dumps(text))), log=lines.append)
    assert plain(lines[-1]) == "Resource 'Out': 1, 8, 3, 4"
