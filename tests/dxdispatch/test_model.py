from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anydml import dxdispatch
from anydml.errors import ModelError
from anydml.feature_level import FeatureLevel

PRINTED = ["Resource 'B': 1, 3, 5, 0, 0, 0"]


def dispatch(**bindings):
    return lambda model: model["commands"][0]["bindings"].update(bindings)


def operator(model):
    return model["dispatchables"]["every other"]


def test_a_model(folder):
    assert folder.run() == PRINTED


def move_inline(model):
    desc = operator(model).pop("desc")
    operator(model).update(desc)


def rename(old, new):
    return lambda model: operator(model).update({new: operator(model).pop(old)})


@pytest.mark.parametrize(
    "edit",
    [
        rename("desc", "Desc"),
        rename("type", "Type"),
        move_inline,
        lambda m: operator(m).update(type="SLICE"),
        lambda m: operator(m).update(dmlCompileType="DmlCompileGraph", executionFlags="DISABLE_META_COMMANDS"),
        lambda m: operator(m).update(executionFlags=["NONE", "DML_EXECUTION_FLAG_DESCRIPTORS_VOLATILE"]),
        lambda m: m["commands"][0].update(type="Dispatch", threadGroupCount=[1, 2, 3]),
        lambda m: m["commands"][1].update(type="PRINT"),
        lambda m: m.update({"$schema": "./_schema.json"}),
        dispatch(InputTensor=["A"]),
        dispatch(InputTensor={"name": "A"}),
        dispatch(InputTensor=[{"name": "A", "format": "R32_FLOAT", "elementCount": 6, "elementSizeInBytes": 4}]),
        dispatch(InputTensor={"name": "A", "elementCount": 1, "shape": [9], "counter": "B"}),
    ],
)
def test_other_ways_to_say_the_same(folder, edit):
    assert folder.run(edit) == PRINTED


def test_the_same_with_comments(folder, plain):
    text = json.dumps(json.loads(folder.edit(lambda m: None).read_text()), indent=1)
    folder.write(
        "// a model\n" + text.replace("[\n", "[ // values\n").replace("\n  }", ",\n  } /* end */") + "\n// the end"
    )
    lines: list[str] = []
    dxdispatch.run(dxdispatch.load(folder.file), log=lines.append)
    assert plain(lines[-1]) == PRINTED[0]


@pytest.mark.parametrize("offset", [{"elementOffset": 2}, {"elementOffset": 1, "elementSizeInBytes": 8}])
def test_offsets_are_in_elements(folder, offset):
    def edit(model):
        operator(model)["desc"]["InputTensor"]["Sizes"] = [4]
        operator(model)["desc"].update(Sizes=[2])
        operator(model)["desc"]["OutputTensor"]["Sizes"] = [2]
        dispatch(InputTensor={"name": "A", **offset}, OutputTensor={"name": "B", **offset})(model)

    assert folder.run(edit) == ["Resource 'B': 0, 0, 3, 5, 0, 0"]


def test_ranges_of_one_resource_may_be_bound_together(folder):
    """Neither range reaches further than its tensor, so they do not overlap."""
    large = {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 12, "valueStart": 1, "valueDelta": 1}}

    def edit(model):
        model["resources"]["B"] = large
        dispatch(InputTensor={"name": "B", "elementOffset": 0}, OutputTensor={"name": "B", "elementOffset": 8})(model)

    assert folder.run(edit) == ["Resource 'B': 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 5, 12"]


ERRORS = [
    (lambda m: m.__delitem__("resources"), "resources: is required"),
    (lambda m: m.clear(), "has none of the fields resources, dispatchables and commands"),
    (lambda m: m.update(dispatchables=[]), "dispatchables: must be an object, not an array of 0"),
    (lambda m: m.update(commands={}), "commands: must be an array, not an object"),
    (lambda m: m["resources"].update(A=3), "resources.A: must be an object, not 3"),
    (lambda m: operator(m).pop("type"), 'dispatchables["every other"].type: is required'),
    (
        lambda m: operator(m).update(type="PLUS"),
        'dispatchables["every other"].type: "PLUS" is not supported; `anydml ops`',
    ),
    (lambda m: operator(m).update(type="hlsl"), 'dispatchables["every other"].type: dispatchables of type "hlsl"'),
    (lambda m: operator(m).update(desc=1), 'dispatchables["every other"].desc: must be an object'),
    (lambda m: operator(m)["desc"].pop("Strides"), 'dispatchables["every other"].desc.Strides: is required'),
    (lambda m: operator(m).update(dmlCompileType="X"), 'dispatchables["every other"].dmlCompileType: must be'),
    (lambda m: operator(m).update(executionFlags=["X"]), 'dispatchables["every other"].executionFlags[0]: must be'),
    (
        lambda m: operator(m).update(bindings={"InputTensor": "Z"}),
        'dispatchables["every other"].bindings.InputTensor: ',
    ),
    (lambda m: m["commands"].append(3), "commands[2]: must be an object"),
    (lambda m: m["commands"].append({}), "commands[2].type: is required"),
    (lambda m: m["commands"].append({"type": "x"}), 'commands[2].type: there is no command "x"; there are "dispatch"'),
    (lambda m: m["commands"].append({"type": "print"}), "commands[2].resource: is required"),
    (lambda m: m["commands"][1].update(resource="Z"), 'commands[1].resource: there is no resource "Z"; the model has'),
    (lambda m: m["commands"][1].update(verbose=1), "commands[1].verbose: must be true or false, not 1"),
    (lambda m: m["commands"][0].update(dispatchable="Z"), 'commands[0].dispatchable: there is no dispatchable "Z"'),
    (lambda m: m["commands"][0].pop("bindings"), "commands[0].bindings: is required"),
    (lambda m: m["commands"][0].update(threadGroupCount=[1]), "commands[0].threadGroupCount: must have at least 3"),
    (dispatch(InputTensor="Z"), 'commands[0].bindings.InputTensor: there is no resource "Z"; the model has "A", "B"'),
    (dispatch(InputTensor=["A", {"name": "Z"}]), "commands[0].bindings.InputTensor[1].name: there is no resource"),
    (dispatch(InputTensor=None), "commands[0].bindings.InputTensor: must be the name of a resource"),
    (dispatch(InputTensor={}), "commands[0].bindings.InputTensor.name: is required"),
    (dispatch(InputTensor={"name": "A", "counter": "Z"}), "commands[0].bindings.InputTensor.counter: there is no"),
    (dispatch(InputTensor={"name": "A", "elementOffset": -1}), "commands[0].bindings.InputTensor.elementOffset: must"),
    (
        dispatch(InputTensor={"name": "A", "elementOffset": 1}),
        'commands[0].bindings.InputTensor: "A" has 20 bytes from byte 4 on, but InputTensor needs 24',
    ),
    (
        dispatch(InputTensor=["A", "A"]),
        'commands[0].bindings.InputTensor: 2 resources bound to InputTensor, but it has 1 tensor in "every other"',
    ),
    (
        dispatch(InputTensor=[]),
        'commands[0].bindings.InputTensor: 0 resources bound to InputTensor, but it has 1 tensor in "every other"',
    ),
    (dispatch(OutputTensor="A"), "commands[0].bindings.OutputTensor: DML_SLICE: OutputTensor overlaps InputTensor"),
    (
        lambda m: m["commands"][0].update(bindings={"InputTensr": "A", "OutputTensor": "B"}),
        'commands[0].bindings.InputTensor: has no resource, and "every other" needs one; there is no "InputTensr"',
    ),
    (
        lambda m: operator(m)["desc"].update(Strides=[3]),
        'dispatchables["every other"].desc.Sizes[0]: DML_SLICE: ',
    ),
]


@pytest.mark.parametrize(("edit", "message"), ERRORS)
def test_errors_say_where_before_anything_runs(folder, edit, message):
    assert folder.error(edit).startswith(message)


def test_an_error_in_the_last_command_stops_the_first(folder):
    """`error` itself insists that no command has run."""
    folder.error(
        lambda m: m["commands"].append({**m["commands"][0], "bindings": {"InputTensor": "A", "OutputTensor": "A"}})
    )


@pytest.mark.parametrize("text", [b"\xff\xfe", b"[]", b"null", b"3", b'"x"', b"{}", b"{", b""])
def test_files_that_are_no_models(folder, text):
    folder.error_of(folder.write(text))


def test_no_file(folder):
    assert folder.error_of(folder.path / "none.json") == "there is no such file or folder"
    assert folder.error_of(folder.path) == "is a folder, not a model file"


def test_a_byte_order_mark_is_no_text(folder):
    folder.write(b"\xef\xbb\xbf" + folder.edit(lambda m: None).read_bytes())
    dxdispatch.load(folder.file)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


def places(value, path=()):
    yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(item, (*path, key))


@settings(max_examples=300)
@given(data=st.data())
def test_junk_anywhere_in_a_model_is_a_model_error_or_changes_nothing_else(data, tmp_path_factory):
    """No value in any place of a model raises anything but a `ModelError`."""
    model = json.loads((Path(__file__).parents[2] / "examples" / "gather_2.json").read_text().partition("\n")[2])
    *parents, last = data.draw(st.sampled_from([path for path in places(model) if path]))
    container = model
    for key in parents:
        container = container[key]
    container[last] = data.draw(JUNK)
    file = tmp_path_factory.mktemp("junk") / "model.json"
    file.write_text(json.dumps(model))
    message = f"{file}: "
    try:
        dxdispatch.run(dxdispatch.load(file), log=lambda line: None, warn=lambda line: None)
    except ModelError as error:
        message = str(error)
    assert message.startswith(f"{file}: ")
    assert "\n" not in message


def test_problems_have_their_place_and_level(folder):
    model = dxdispatch.load(folder.edit(lambda m: None))
    assert not list(model.problems())
    (first, problem), *_ = model.problems("2_1")
    assert str(first) == f'{folder.file}: dispatchables["every other"].desc.InputTensor.Sizes'
    assert problem.needs == FeatureLevel.LEVEL_3_0
