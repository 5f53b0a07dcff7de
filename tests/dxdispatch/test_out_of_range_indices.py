"""Indices outside their axes in a model file: DirectML clamps or skips them, and `check` and `run` say so."""

from __future__ import annotations

import json

import numpy as np
import pytest

from anydml import dxdispatch
from anydml.cli import main

CASES = {
    "DML_OPERATOR_GATHER": ([4], [3], [3], {"Axis": 0, "IndexDimensions": 1}, "clamps it to the nearest end"),
    "DML_OPERATOR_GATHER_ELEMENTS": ([4], [3], [3], {"Axis": 0}, "clamps it to the nearest end"),
    "DML_OPERATOR_GATHER_ND1": (
        [1, 4], [3, 1], [1, 3],
        {"InputDimensionCount": 1, "IndicesDimensionCount": 2, "BatchDimensionCount": 0},
        "clamps it to the nearest end",
    ),
    "DML_OPERATOR_SCATTER": ([4], [3], [4], {"Axis": 0}, "skips it"),
}  # fmt: skip


def values(kind, array):
    return {"initialValuesDataType": kind, "initialValues": array}


def model(operator, indices, kind="INT32", order=("input", "indices", "output"), values_of=None):
    source, shape, made, fields, _ = CASES[operator]
    tensors = {
        "InputTensor": ("FLOAT32", source, "input"), "IndicesTensor": (kind, shape, "indices"),
        "OutputTensor": ("FLOAT32", made, "output"),
    }  # fmt: skip
    resources = {
        "input": values("FLOAT32", [*range(int(np.prod(source)))]),
        "indices": values_of or values(kind, indices),
        "output": values("FLOAT32", {"valueCount": int(np.prod(made)), "value": 0}),
    }
    if "SCATTER" in operator:
        tensors["UpdatesTensor"] = ("FLOAT32", shape, "updates")
        resources["updates"] = values("FLOAT32", [7] * 3)
    desc = {name: {"DataType": dtype, "Sizes": sizes} for name, (dtype, sizes, _) in tensors.items()}
    bindings = {name: resource for name, (_, _, resource) in tensors.items()}
    command = {"type": "dispatch", "dispatchable": "d", "bindings": bindings}
    return {
        "resources": resources,
        "dispatchables": {"d": {"type": operator, "desc": {**desc, **fields}}},
        "commands": [command],
    }


def told(made, tmp_path):
    """What `run` warns of, and the code and the lines of `check`."""
    path = tmp_path / "m.json"
    path.write_text(json.dumps(made))
    warned = []
    dxdispatch.run(dxdispatch.load(path), log=lambda _: None, warn=warned.append)
    return warned, path


@pytest.mark.parametrize("operator", CASES)
@pytest.mark.parametrize(
    ("kind", "indices", "wrong"),
    [
        ("INT32", [0, 3, 1], None),
        ("INT32", [0, 9, 1], 9),
        ("INT32", [-4, 2, 1], None),
        ("INT64", [0, 1, -5], -5),
        ("UINT32", [0, 4294967295, 1], 4294967295),
        ("UINT64", [4, 5, 6], 4),
    ],
)
def test_an_index_outside_is_said(operator, kind, indices, wrong, tmp_path, capsys):
    warned, path = told(model(operator, indices, kind), tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["check", str(path)])
    lines = capsys.readouterr().out.splitlines()
    if wrong is None:
        assert (warned, ended.value.code) == ([], 0)
        return
    expected = f"IndicesTensor has {wrong}, but the axis has 4: DirectML {CASES[operator][-1]}"
    assert len(warned) == len(lines) == ended.value.code == 1
    assert warned[0].endswith(f"commands[0].bindings.IndicesTensor: {operator.replace('OPERATOR_', '')}: {expected}")
    assert lines[0].endswith(f": {expected}")


def test_a_sequence_and_a_file_are_known_too(tmp_path):
    np.save(tmp_path / "i.npy", np.array([0, 1, 7], np.int32))
    for given, wrong in (
        ({"valueCount": 3, "valueStart": 2, "valueDelta": 1}, 4),
        ({"valueCount": 3, "value": 5}, 5),
        ({"sourcePath": "i.npy"}, 7),
    ):
        warned, _ = told(model("DML_OPERATOR_GATHER", None, values_of=values("INT32", given)), tmp_path)
        assert [f"has {wrong}, " in line for line in warned] == [True]


def test_indices_that_a_dispatch_writes_are_not_known(tmp_path):
    document = model("DML_OPERATOR_GATHER", [0, 9, 1])
    tensor = {"DataType": "INT32", "Sizes": [3]}
    document["dispatchables"]["copy"] = {
        "type": "DML_OPERATOR_ELEMENT_WISE_IDENTITY",
        "desc": {"InputTensor": tensor, "OutputTensor": tensor},
    }
    document["resources"]["right"] = values("INT32", [0, 1, 2])
    bindings = {"InputTensor": "right", "OutputTensor": "indices"}
    document["commands"].insert(0, {"type": "dispatch", "dispatchable": "copy", "bindings": bindings})
    assert told(document, tmp_path)[0] == []
    document["commands"].reverse()
    assert len(told(document, tmp_path)[0]) == 1


def test_indices_that_are_too_many_to_look_at_are_counted(monkeypatch, tmp_path):
    monkeypatch.setattr("anydml.dxdispatch.out_of_range_indices.MAX_LOOKED_AT", 2)
    warned, _ = told(model("DML_OPERATOR_GATHER", [0, 3, 1]), tmp_path)
    assert len(warned) == 1
    assert "IndicesTensor has 3 indices, more than the 2 that are looked at" in warned[0]
