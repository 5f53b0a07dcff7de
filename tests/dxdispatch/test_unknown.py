"""A misspelt optional field changes what a model does: whoever wrote it is told."""

from __future__ import annotations

import json
import re

import pytest

from anydml import dxdispatch
from anydml.dxdispatch.unknown import MAX_TOLD


def desc(model):
    return model["dispatchables"]["every other"]["desc"]


def add(place, **fields):
    return lambda model: place(model).update(fields)


def tensor_in_desc(**more):
    return {"Type": "BUFFER", "Desc": {"DataType": "FLOAT32", "Sizes": [6], **more}}


def warnings(folder, edit):
    lines = dxdispatch.load(folder.edit(edit)).warnings
    assert all(line.startswith(f"{folder.file}: ") for line in lines)
    return [re.sub(r"^line 1: ", "", line.removeprefix(f"{folder.file}: ")) for line in lines]


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (add(lambda m: m, resource={}), "unknown field resource; did you mean resources?"),
        (
            add(lambda m: m["resources"]["A"], sizeInByte=99),
            "resources.A: unknown field sizeInByte; did you mean sizeInBytes?",
        ),
        (
            add(lambda m: m["resources"]["B"]["initialValues"], valuecount=1),
            "resources.B.initialValues: unknown field valuecount; did you mean valueCount?",
        ),
        (
            add(lambda m: m["resources"], C={"initialValues": [{"type": "INT8", "value": 1, "values": 2}]}),
            "resources.C.initialValues[0]: unknown field values; did you mean value?",
        ),
        (
            add(lambda m: m["dispatchables"]["every other"], executionFlag=["NONE"]),
            'dispatchables["every other"]: unknown field executionFlag; did you mean executionFlags?',
        ),
        (
            add(desc, Stride=[1]),
            'dispatchables["every other"].desc: unknown field Stride; did you mean Strides?',
        ),
        (
            add(lambda m: desc(m)["InputTensor"], Stride=[1]),
            'dispatchables["every other"].desc.InputTensor: unknown field Stride; did you mean Strides?',
        ),
        (
            add(lambda m: desc(m)["InputTensor"], STRIDES=[1]),
            'dispatchables["every other"].desc.InputTensor: unknown field STRIDES; did you mean Strides?',
        ),
        (
            add(desc, InputTensor=tensor_in_desc(Stride=[1])),
            'dispatchables["every other"].desc.InputTensor.Desc: unknown field Stride; did you mean Strides?',
        ),
        (
            add(desc, InputTensor={**tensor_in_desc(), "Sizes": [6]}),
            'dispatchables["every other"].desc.InputTensor: unknown field Sizes; there are "Type", "Desc"',
        ),
        (
            add(lambda m: m["commands"][0], threadGroups=[1, 1, 1]),
            "commands[0]: unknown field threadGroups; did you mean threadGroupCount?",
        ),
        (add(lambda m: m["commands"][1], Verbose=True), "commands[1]: unknown field Verbose; did you mean verbose?"),
        (
            lambda m: m["commands"].append({"type": "WriteFile", "resource": "B", "targetPath": "b", "dims": [6]}),
            "commands[2]: unknown field dims; did you mean dimensions?",
        ),
        (
            add(lambda m: m["commands"][0]["bindings"], Unheard="A"),
            'commands[0].bindings: unknown bind point Unheard; there are "InputTensor", "OutputTensor"',
        ),
        (
            add(lambda m: m["commands"][0]["bindings"], InputTensor={"name": "A", "offset": 1}),
            "commands[0].bindings.InputTensor: unknown field offset; did you mean elementOffset?",
        ),
        (
            add(lambda m: m["commands"][0]["bindings"], InputTensor=[{"name": "A", "elementOfset": 1}]),
            "commands[0].bindings.InputTensor[0]: unknown field elementOfset; did you mean elementOffset?",
        ),
        (add(lambda m: m, **{"\u202e\n": 1}), r'unknown field "\u202e\n"; there are'),
        (add(lambda m: m, **{"x" * 100_000: 1}), "unknown field " + '"' + "x" * 56 + "...; there are"),
    ],
)
def test_unknown_fields_are_told(folder, edit, line):
    (told,) = warnings(folder, edit)
    assert told.startswith(line)


def test_each_operator_knows_its_own_fields(folder):
    tensor = {"DataType": "FLOAT32", "Sizes": [6]}
    fields = {"type": "JOIN", "InputCount": 1, "InputTensors": [tensor], "OutputTensor": tensor, "Axis": 0}
    assert warnings(folder, lambda m: m["dispatchables"].update(x=fields)) == []
    misspelt = {**fields, "InputTensors": [{**tensor, "Flag": []}], "Offsets": []}
    assert warnings(folder, lambda m: m["dispatchables"].update(x=misspelt)) == [
        'dispatchables.x: unknown field Offsets; there are "type", "dmlCompileType", "executionFlags", "bindings", '
        '"Type", "desc", "Desc", "InputTensors", "OutputTensor", "Axis" and 2 more',
        "dispatchables.x.InputTensors[0]: unknown field Flag; did you mean Flags?",
    ]


KNOWN = {
    "$schema": lambda m: m,
    "type": lambda m: m["resources"]["A"],
    "resampleSize": lambda m: m["resources"]["A"],
    "resampleMode": lambda m: m["resources"]["A"],
    "counterOffsetBytes": lambda m: m["commands"][0]["bindings"]["InputTensor"],
    "DimensionCount": lambda m: desc(m)["InputTensor"],
    "TotalTensorSizeInBytes": lambda m: desc(m)["InputTensor"],
    "GuaranteedBaseOffsetAlignment": lambda m: desc(m)["InputTensor"],
}


@pytest.mark.parametrize("name", KNOWN)
def test_what_dxdispatch_reads_is_known(folder, name):
    def edit(model):
        model["commands"][0]["bindings"]["InputTensor"] = {"name": "A"}
        KNOWN[name](model)[name] = 1

    assert warnings(folder, edit) == []


def test_a_model_with_unknown_fields_runs_and_warns(folder):
    with pytest.warns(UserWarning, match="unknown field Stride; did you mean Strides"):
        lines = folder.run(add(lambda m: desc(m)["InputTensor"], Stride=[0]))
    assert lines == ["Resource 'B': 1, 3, 5, 0, 0, 0"]


def test_thousands_are_counted(folder):
    lines = warnings(folder, lambda m: m.update({f"x{i}": i for i in range(5000)}))
    assert len(lines) == MAX_TOLD + 1
    assert lines[-1] == f"and {5000 - MAX_TOLD} more unknown fields"


def test_the_command_line_warns_and_check_finds(folder, capsys):
    from anydml.cli import main

    file = folder.edit(add(lambda m: desc(m)["InputTensor"], Stride=[0]))
    told = f'{file}: line 1: dispatchables["every other"].desc.InputTensor: unknown field Stride; did you mean Strides?'
    for command, code in (("run", None), ("check", 1)):
        with pytest.raises(SystemExit) as ended:
            main([command, str(file)])
        assert (ended.value.code or None) == code
        out, err = capsys.readouterr()
        assert told in (err if command == "run" else out)
        assert "no problems" not in out
    assert json.loads(file.read_text())
