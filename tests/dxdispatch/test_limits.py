"""What a model may take: memory of its resources, of its file, and of what the file says."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
from models import bytes_of, copy_of, dispatch, model, values

from anydml import dxdispatch
from anydml.cli import main
from anydml.cli.json_checking import MAX_PROBLEMS
from anydml.dxdispatch import model_text, schedule
from anydml.errors import ModelError
from anydml.memory import limits


@pytest.fixture
def small(monkeypatch):
    """A machine with 1000 bytes."""
    monkeypatch.setattr(limits, "available_memory", lambda: 1000)


def test_all_resources_share_the_memory(folder, small):
    folder.run(model({"A": bytes_of(600), "B": bytes_of(400)}, {}))
    error = folder.error(model({"A": bytes_of(400), "B": bytes_of(604)}, {}))
    assert error.startswith("resources.B: the model's resources need 1004 B, but 1000 B are available")


def test_copies_of_initial_contents_count_too(folder, small):
    resources = {"A": bytes_of(400), "B": bytes_of(400)}
    commands = [dispatch("copy", InputTensors="B", OutputTensor="A"), dispatch("owner", OutputTensor="B")]
    dispatchables = {"copy": copy_of(100), "owner": {**copy_of(100), "bindings": {"InputTensors": "A"}}}
    assert "need 1200 B" in folder.error(model(resources, dispatchables, *commands))
    folder.run(model(resources, dispatchables, commands[1]))


@pytest.mark.parametrize("size", [2**50, 2**63, 2**64 - 1])
def test_sizes_that_no_machine_has(folder, size, monkeypatch):
    huge = {**values(1), "sizeInBytes": size}
    assert folder.error(model({"A": huge}, {})).startswith("resources.A: the model's resources need ")
    monkeypatch.setattr(limits, "available_memory", lambda: None)
    assert folder.error(model({"A": {**huge, "sizeInBytes": 2**63}}, {})).endswith("cannot be allocated")


def test_a_copy_of_initial_contents_is_of_the_whole_resource(folder, small):
    resources = {"A": bytes_of(600), "B": bytes_of(8)}
    commands = [dispatch("copy", InputTensors="B", OutputTensor="A"), dispatch("owner", OutputTensor="B")]
    dispatchables = {"copy": copy_of(2), "owner": {**copy_of(2), "bindings": {"InputTensors": "A"}}}
    assert "need 1208 B" in folder.error(model(resources, dispatchables, *commands))


def test_short_commands_cannot_bind_millions_of_tensors(folder, monkeypatch):
    monkeypatch.setattr(schedule, "MAX_BOUND", 4000)
    count = 99
    tensors = [{"DataType": "INT8", "Sizes": [1]}] * count
    join = {"type": "JOIN", "InputTensors": tensors, "OutputTensor": {"DataType": "INT8", "Sizes": [count]}, "Axis": 0}
    resources = {"A": {"initialValues": "deferred"}, "B": bytes_of(8)}
    dispatchables = {"d": {**join, "bindings": {"InputTensors": ["B"] * count, "OutputTensor": "A"}}}
    error = folder.error(model(resources, dispatchables, *[dispatch("d")] * 41))
    assert error.startswith("commands[40]: with this one the commands bind more than 4000 tensors")


def many(unit, size):
    """A JSON list of about so many bytes."""
    return f"[{','.join([unit] * (size // (len(unit) + 1)))}]"


TENSOR = '{"DataType":"INT8","Sizes":[1]}'
VALUE = '{"type":"INT8","value":1}'
FIELD = '{"":1}'
NAME = '"a"'
SIZE = 100_000
KEY = "k" * (SIZE // 2)
RESOURCES = ",".join(f'"{i:x}":{{"initialValues":"deferred"}}' for i in range(SIZE // 34))
JOIN = f'"type":"JOIN","OutputTensor":{TENSOR},"Axis":0,"InputTensors":[{TENSOR}]'
PARTS = {
    "objects": (f'"$schema":{many("{}", SIZE)},', "", ""),
    "arrays": (f'"$schema":{many("[]", SIZE)},', "", ""),
    "fields": (f'"$schema":{many(FIELD, SIZE)},', "", ""),
    "comments": (f"/*\U0001f600*/{'/**/' * (SIZE // 4)}", "", ""),
    "repeated": (f'"{KEY}":{many("1", SIZE // 2)},', '"a":{"x":1,"x":2}', ""),
    "sizes": ("", "", f'"{KEY}":{{"type":"SLICE","InputTensor":{{"DataType":"INT8","Sizes":{many("1", SIZE // 2)}}}}}'),
    "values": ("", f'"{KEY}":{{"initialValues":{many(VALUE, SIZE // 2)}}}', ""),
    "bindings": ("", f'{NAME}:{{"initialValues":"deferred"}}', f'"d":{{{JOIN},"bindings":{{"x":{many(NAME, SIZE)}}}}}'),
    "resources": ("", RESOURCES, ""),
}
"""What stands before the resources, among them, and among the dispatchables."""


@pytest.mark.parametrize("kind", PARTS)
def test_no_byte_of_a_file_takes_more_than_is_said(kind, folder):
    first, resources, dispatchables = PARTS[kind]
    text = f'{{{first}"resources":{{{resources}}},"dispatchables":{{{dispatchables}}},"commands":[]}}'
    file = folder.write(text)
    tracemalloc.start()
    try:
        with contextlib.suppress(ModelError):
            dxdispatch.load(file)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < model_text.BYTES_PER_BYTE * len(text.encode())


def test_files_that_are_too_large_are_not_read(folder, monkeypatch):
    folder.write(" " * 2_000_000)
    monkeypatch.setattr(limits, "available_memory", lambda: 100 << 20)
    message = "reading it may take 128.00 MB, but 104.86 MB of memory are available; put its values into .npy files"
    assert folder.error_of(folder.file) == message
    with folder.file.open("r+b") as file:
        file.truncate(model_text.MAX_BYTES + 1)
    monkeypatch.setattr(limits, "available_memory", lambda: None)
    assert folder.error_of(folder.file).startswith("has 268.44 MB, but a model file has at most 268.44 MB")


def test_of_many_problems_the_first_are_shown(folder, capsys):
    def edit(m):
        m["dispatchables"]["k" * 10_000] = copy_of(1)
        m["dispatchables"]["k" * 10_000]["desc"]["InputTensors"][0]["Sizes"] = [0] * 5000

    with pytest.raises(SystemExit) as ended:
        main(["check", "-v", str(folder.edit(edit))])
    out, err = capsys.readouterr()
    assert (ended.value.code, err) == (1, "")
    assert len(out.splitlines()) == 3 * MAX_PROBLEMS + 1
    assert out.endswith(f"and more; only the first {MAX_PROBLEMS} problems are shown\n")
    assert len(out) < 400 * MAX_PROBLEMS
