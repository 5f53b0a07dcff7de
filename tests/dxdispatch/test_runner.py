from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from models import copy_of, dispatch, model, show, values

from anydml import dxdispatch
from anydml.dxdispatch.model import Resource
from anydml.dxdispatch.schedule import check_overlap, schedule
from anydml.dxdispatch.steps import Range
from anydml.errors import ModelError
from anydml.files.location import Location


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_lines(folder, device):
    lines: list[str] = []
    dxdispatch.run(dxdispatch.load(folder.edit(lambda m: None)), device=device, log=lines.append)
    assert lines[0] == f"Running on '{device}'"
    assert re.fullmatch(r"Dispatch 'every other': 1 iteration, \d+\.\d{4} ms \(CPU\)", lines[1])
    assert lines[2:] == ["Resource 'B' (float32 [6]): 1, 3, 5, 0, 0, 0"]


def test_verbose_lines(folder):
    lines: list[str] = []
    loaded = dxdispatch.load(folder.edit(lambda m: m["commands"][1].update(verbose=True)))
    dxdispatch.run(loaded, timing=dxdispatch.Timing(iterations=2, verbosity=1), explain=True, log=lines.append)
    assert re.fullmatch(r"Initialize 'every other': \d+\.\d{4} ms", lines[1])
    assert lines[2].startswith("every other: DML_SLICE")
    assert lines[3] == "Dispatch 'every other': 2 iterations"
    assert lines[-1].startswith("Resource 'B' (float32 [6]):\n[0] 1 (0x3F800000)\n[1] 3 (0x40400000)\n")


@pytest.mark.parametrize("sizes, strides, room, shown", [
    ([1, 2, 2], None, 4, "[1, 2, 2]"), ([2, 2], None, 4, "[2, 2]"), ([2, 2], [1, 2], 4, "[4]"), ([2], None, 4, "[4]"),
])  # fmt: skip
def test_resources_are_printed_with_the_shape_of_the_tensor_that_fills_them(folder, sizes, strides, room, shown):
    tensor = {"DataType": "INT16", "Sizes": sizes} | ({"Strides": strides} if strides else {})
    desc = {"InputTensor": tensor, "OutputTensor": tensor}
    resources = {"A": values(*range(room), kind="INT16"), "B": values(*[0] * room, kind="INT16")}
    commands = [dispatch("d", InputTensor="A", OutputTensor="B"), show("A"), show("B")]
    lines = []
    file = folder.edit(model(resources, {"d": {"type": "ELEMENT_WISE_IDENTITY", "desc": desc}}, *commands))
    dxdispatch.run(dxdispatch.load(file), log=lines.append)
    head = [line.partition(":")[0] for line in lines if line.startswith("Resource")]
    assert head == ["Resource 'A' (int16 [4])", f"Resource 'B' (int16 {shown})"]


def test_contents_are_returned(folder):
    half = values(1, 2, 3, kind="FLOAT16")
    mixed = {"initialValuesDataType": "UNKNOWN", "initialValues": [{"type": "UINT16", "value": 258}], "sizeInBytes": 8}
    unused = {"initialValues": "deferred"}
    file = folder.edit(lambda m: m["resources"].update(H=half, M=mixed, D=unused))
    contents = dxdispatch.run(dxdispatch.load(file), log=lambda line: None)
    assert {name: (array.dtype.name, array.tolist()) for name, array in contents.items()} == {
        "A": ("float32", [1, 2, 3, 4, 5, 6]),
        "B": ("float32", [1, 3, 5, 0, 0, 0]),
        "H": ("float16", [1, 2, 3]),
        "M": ("uint8", [2, 1]),
    }


def test_commands_run_in_order_and_leave_their_effects(folder):
    lines = folder.run(
        model(
            {"A": values(1, 2), "B": values(3, 4), "C": values(0, 0)},
            {"copy": copy_of(2)},
            show("C"),
            dispatch("copy", InputTensors="A", OutputTensor="C"),
            show("C"),
            dispatch("copy", InputTensors="B", OutputTensor="A"),
            dispatch("copy", InputTensors="A", OutputTensor="C"),
            show("C"),
        )
    )
    assert lines == ["Resource 'C': 0, 0", "Resource 'C': 1, 2", "Resource 'C': 3, 4"]


OWNED = {"Flags": "OWNED_BY_DML"}


@pytest.mark.parametrize("tensor", [OWNED, {}])
def test_what_is_bound_at_initialisation_is_read_as_it_was_then(folder, tensor):
    lines = folder.run(
        model(
            {"A": values(1, 2), "B": values(3, 4), "C": values(0, 0)},
            {"copy": copy_of(2), "owner": {**copy_of(2, **tensor), "bindings": {"InputTensors": ["A"]}}},
            dispatch("copy", InputTensors="B", OutputTensor="A"),
            dispatch("owner", OutputTensor="C"),
            show("A"),
            show("C"),
        )
    )
    assert lines == ["Resource 'A': 3, 4", "Resource 'C': 1, 2"]


def test_an_owned_tensor_is_bound_once(folder):
    resources = {"A": values(1, 2), "C": values(0, 0)}
    owner = {**copy_of(2, **OWNED), "bindings": {"InputTensors": "A"}}
    twice = model(resources, {"owner": owner}, dispatch("owner", InputTensors="A", OutputTensor="C"))
    assert folder.error(twice).startswith("commands[0].bindings.InputTensors: is OWNED_BY_DML and already bound")
    late = model(resources, {"owner": copy_of(2, **OWNED)}, dispatch("owner", InputTensors="A", OutputTensor="C"))
    assert folder.run(late) == []


def joined(*sizes):
    """A JOIN of parts of these sizes."""
    parts = [{"DataType": "FLOAT32", "Sizes": [size]} for size in sizes]
    whole = {"DataType": "FLOAT32", "Sizes": [sum(sizes)]}
    return {"type": "JOIN", "desc": {"InputTensors": parts, "OutputTensor": whole, "Axis": 0}}


def halves(size):
    floats, part = ({"DataType": "FLOAT32", "Sizes": [n]} for n in (2 * size, size))
    return {"type": "SPLIT", "desc": {"InputTensor": floats, "OutputTensors": [part, part], "Axis": 0}}


def at(name, offset):
    return {"name": name, "elementOffset": offset}


@pytest.mark.parametrize(
    ("dispatchable", "bindings", "path", "text"),
    [
        (copy_of(2), {"InputTensors": "A", "OutputTensor": "A"}, "OutputTensor",
         'DML_JOIN: OutputTensor overlaps InputTensors: both are bound to byte 0 of "A"'),
        (copy_of(2), {"InputTensors": at("A", 3), "OutputTensor": at("A", 2)}, "OutputTensor", "byte 12 of"),
        (copy_of(2), {"InputTensors": at("A", 2), "OutputTensor": at("A", 3)}, "OutputTensor", "byte 12 of"),
        (joined(1, 1), {"InputTensors": [at("A", 5), at("A", 1)], "OutputTensor": "A"}, "OutputTensor",
         "OutputTensor overlaps InputTensors[1]: both are bound to byte 4"),
        (halves(2), {"InputTensor": "B", "OutputTensors": ["A", at("A", 1)]}, "OutputTensors[1]",
         "OutputTensors[1] overlaps OutputTensors[0]: both are bound to byte 4"),
        (halves(1), {"InputTensor": "D", "OutputTensors": [at("A", 1), "D"]}, "OutputTensors[1]",
         "OutputTensors[1] overlaps InputTensor: both are bound to byte 0"),
    ],
)  # fmt: skip
def test_an_output_lies_apart(folder, dispatchable, bindings, path, text):
    resources = {"A": values(*range(6)), "B": values(*range(6)), "D": DEFERRED}
    fill = dispatch("fill", InputTensors="B", OutputTensor="D")
    commands = (fill, dispatch("it", **bindings))
    edit = model(resources, {"fill": copy_of(2), "it": dispatchable}, *commands)
    error = folder.error(edit)
    assert error.startswith(f"commands[1].bindings.{path}: ")
    assert text in error
    with pytest.raises(ModelError) as caught:
        schedule(dxdispatch.load(folder.file))
    assert (caught.value.operator, caught.value.rule) == (
        error.split(": ")[1], "an output must overlap no input and no other output")  # fmt: skip


def test_neighbours_and_inputs_may_lie_anywhere(folder):
    resources = {"A": values(1, 2, 3, 4, 5, 6)}
    both = dispatch("join", InputTensors=["A", at("A", 1)], OutputTensor=at("A", 3))
    last = dispatch("halves", InputTensor=at("A", 2), OutputTensors=[at("A", 1), "A"])
    dispatchables = {"join": joined(2, 1), "halves": halves(1)}
    assert folder.run(model(resources, dispatchables, both, last, show("A"))) == ["Resource 'A': 1, 3, 3, 1, 2, 2"]


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 3)), min_size=2, max_size=6), st.integers(1, 4))
def test_scheduling_refuses_what_binding_would(pieces, inputs):
    """Ranges of one resource, the first of which are read, against every pair of their bytes."""
    inputs = min(inputs, len(pieces) - 1)
    apart = all(
        {*range(a, a + n)}.isdisjoint(range(b, b + m))
        for i, (a, n) in enumerate(pieces)
        for b, m in pieces[max(i + 1, inputs) :]
    )
    resource = Resource(Location("m.json"), "A", None, None, 64)
    ranges = [Range(Location("m.json", str(i)), str(i), resource, a, a + n) for i, (a, n) in enumerate(pieces)]
    step = "DML_JOIN", ranges[:inputs], ranges[inputs:]
    if apart:
        check_overlap(*step, frozenset())
        return
    with pytest.raises(ModelError) as caught:
        check_overlap(*step, frozenset())
    second, first = map(int, re.findall(r"(\d+) overlaps (\d+):", str(caught.value))[0])
    byte = int(re.findall(r"byte (\d+) of", str(caught.value))[0])
    assert second >= inputs
    assert all(pieces[k][0] <= byte < sum(pieces[k]) for k in (first, second))


def test_an_output_is_never_a_copy_of_initial_values(folder):
    """What the first dispatch keeps of A is not a place for the second one's output, although both name A."""
    bindings = {"InputTensors": "A", "OutputTensor": "A"}
    commands = (dispatch("it", OutputTensor="B"), dispatch("it", InputTensors="C"), show("A"), show("B"))
    resources = {"A": values(1, 2), "B": values(0, 0), "C": values(5, 6)}
    assert folder.run(model(resources, {"it": {**copy_of(2), "bindings": bindings}}, *commands)) == [
        "Resource 'A': 5, 6",
        "Resource 'B': 1, 2",
    ]


DEFERRED = {"initialValuesDataType": "FLOAT32", "initialValues": "deferred"}


def test_deferred_resources_are_made_by_the_dispatch_that_writes_them(folder):
    commands = (
        dispatch("two", InputTensors="A", OutputTensor="D"),
        show("D"),
        dispatch("three", InputTensors="A", OutputTensor="D"),
        show("D"),
        {"type": "writeFile", "resource": "D", "targetPath": "d.npy"},
        dispatch("three", InputTensors="D", OutputTensor="C"),
        show("C"),
    )
    resources = {"A": values(1, 2, 3), "C": values(0, 0, 0), "D": DEFERRED}
    lines = folder.run(model(resources, {"two": copy_of(2), "three": copy_of(3)}, *commands))
    assert lines[:2] == ["Resource 'D': 1, 2", "Resource 'D': 1, 2, 3"]
    assert lines[-1] == "Resource 'C': 1, 2, 3"
    assert np.load(folder.path / "d.npy").tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (show("D"), "commands[0].resource: "),
        ({"type": "writeFile", "resource": "D", "targetPath": "d.npy"}, "commands[0].resource: "),
        (dispatch("copy", InputTensors="D", OutputTensor="A"), "commands[0].bindings.InputTensors: "),
        (dispatch("copy", InputTensors="A", OutputTensor={"name": "D", "elementOffset": 1}), "commands[0].bindings."),
    ],
)
def test_deferred_resources_cannot_be_used_before(folder, command, path):
    error = folder.error(model({"A": values(1), "D": DEFERRED}, {"copy": copy_of(1)}, command))
    assert error.startswith(path)


def test_a_list_has_no_type_to_print(folder):
    mixed = {"initialValuesDataType": "UNKNOWN", "initialValues": [{"type": "UINT8", "value": 1}]}
    assert folder.error(model({"M": mixed}, {}, show("M"))).startswith(
        'commands[0].resource: "M" has values of several'
    )
    npy = {"type": "writeFile", "resource": "M", "targetPath": "m.npy"}
    assert folder.error(model({"M": mixed}, {}, npy)).startswith('commands[0].resource: "M" has values of several')


def int64(*sizes):
    return {"DataType": "INT64", "Sizes": list(sizes)}


def test_values_that_a_command_makes_are_checked_in_their_turn(folder):
    """The sizes of SplitTraining come from a dispatch before it: 0, 0 as loaded, and 1, 2 when it runs."""
    copy = {"type": "JOIN", "desc": {"InputTensors": [int64(2)], "OutputTensor": int64(2), "Axis": 0}}
    split = {
        "type": "ORT_OPERATOR_SPLIT_TRAINING",
        "desc": {"InputTensor": int64(3), "SplitTensor": int64(2), "OutputTensors": [int64(1), int64(2)], "Axis": 0},
    }
    resources = {
        "sizes": values(1, 2, kind="INT64"),
        "split": values(0, 0, kind="INT64"),
        "A": values(7, 8, 9, kind="INT64"),
        "X": values(0, kind="INT64"),
        "Y": values(0, 0, kind="INT64"),
    }
    last = dispatch("split", InputTensor="A", SplitTensor="split", OutputTensors=["X", "Y"])
    first = dispatch("copy", InputTensors="sizes", OutputTensor="split")
    dispatchables = {"copy": copy, "split": split}
    assert folder.run(model(resources, dispatchables, first, last, show("X"), show("Y"))) == [
        "Resource 'X': 7",
        "Resource 'Y': 8, 9",
    ]
    assert folder.error(model(resources, dispatchables, last)).startswith("commands[0].bindings: SplitTraining: ")
    resources["sizes"] = values(2, 1, kind="INT64")
    with pytest.raises(ModelError, match=r"commands\[1\].bindings: SplitTraining: "):
        folder.run(model(resources, dispatchables, first, last))


def test_the_feature_level_is_the_devices(folder):
    error = folder.error(lambda m: None, feature_level="2_1")
    assert error.startswith('dispatchables["every other"].desc.InputTensor.Sizes: DML_SLICE: ')
    assert "DML_FEATURE_LEVEL_3_0" in error


def test_unknown_devices_and_levels(folder):
    loaded = dxdispatch.load(folder.edit(lambda m: None))
    with pytest.raises(ValueError, match="gpu"):
        dxdispatch.run(loaded, device="gpu")
    with pytest.raises(ValueError, match="9_9"):
        dxdispatch.run(loaded, feature_level="9_9")


def test_a_model_runs_as_often_as_one_likes(folder):
    loaded = dxdispatch.load(folder.edit(lambda m: m["commands"][0]["bindings"].update(OutputTensor="B")))
    first = dxdispatch.run(loaded, log=lambda line: None)
    first["A"][:] = 9
    second = dxdispatch.run(loaded, log=lambda line: None)
    assert second["B"].tolist() == [1, 3, 5, 0, 0, 0]


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize(("sizes", "strides"), [([4], [0]), ([1, 4], [4, 0]), ([4], [1]), ([2], [3])])
@pytest.mark.parametrize("kind", ["UINT8", "INT8"])
def test_resources_are_read_by_the_descs_strides_whatever_their_length(folder, kind, sizes, strides, device):
    zeros, ones = [0] * len(sizes), [1] * len(sizes)
    desc = {
        "InputTensor": {"DataType": kind, "Sizes": sizes, "Strides": strides},
        "OutputTensor": {"DataType": kind, "Sizes": sizes},
        "InputWindowOffsets": zeros,
        "InputWindowSizes": sizes,
        "InputWindowStrides": ones,
    }
    resources = {
        "A": {"initialValuesDataType": kind, "initialValues": [9, 8, 7, 6]},
        "B": {"initialValues": "deferred"},
    }
    commands = [dispatch("d", InputTensor="A", OutputTensor="B"), {"type": "print", "resource": "B"}]
    lines = folder.run(model(resources, {"d": {"type": "SLICE1", "desc": desc}}, *commands), device=device)
    wanted = [[9, 8, 7, 6][i * strides[-1]] for i in range(sizes[-1])]
    assert lines == [f"Resource 'B': {', '.join(map(str, wanted))}"]
