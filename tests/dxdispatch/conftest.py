"""Models that are written, loaded and run by one call."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from anydml import dxdispatch

Edit = Callable[[dict[str, Any]], object]

_SLICE = {
    "resources": {
        "A": {"initialValuesDataType": "FLOAT32", "initialValues": [1, 2, 3, 4, 5, 6]},
        "B": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 6, "value": 0}},
    },
    "dispatchables": {
        "every other": {
            "type": "DML_OPERATOR_SLICE",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [6]},
                "OutputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
                "DimensionCount": 1,
                "Offsets": [0],
                "Sizes": [3],
                "Strides": [2],
            },
        }
    },
    "commands": [
        {"type": "dispatch", "dispatchable": "every other", "bindings": {"InputTensor": "A", "OutputTensor": "B"}},
        {"type": "print", "resource": "B"},
    ],
}


def plain(line: str) -> str:
    """A printed line without the dtype and shape behind the resource's name, which tests of their own look at."""
    return re.sub(r"(?<=') \(\w+ \[[\d, ]*\]\)(?=:)", "", line)


class Folder:
    """A folder with a model file in it, which takes every other element of A."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "model.json"

    def write(self, text: str | bytes) -> Path:
        """Write the model file as it is."""
        self.file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return self.file

    def edit(self, edit: Edit) -> Path:
        """Write the model file, changed."""
        model = copy.deepcopy(_SLICE)
        edit(model)
        return self.write(json.dumps(model))

    def run(self, edit: Edit = lambda model: None, **options: Any) -> list[str]:
        """Run the changed model; the lines that it printed, but for the device's and the timings."""
        lines: list[str] = []
        allow = options.pop("allow_outside", False)
        dxdispatch.run(dxdispatch.load(self.edit(edit), allow_outside=allow), log=lines.append, **options)
        return [plain(line) for line in lines if line.startswith("Resource")]

    def resource(self, **fields: Any) -> str:
        """What is printed of a resource with these fields, after the word "Resource 'C': "."""

        def add(model: dict[str, Any]) -> None:
            model["resources"]["C"] = fields
            model["commands"] = [{"type": "print", "resource": "C"}]

        (line,) = self.run(add)
        return line.removeprefix("Resource 'C': ")

    def error(self, edit: Edit, **options: Any) -> str:
        """The error of the changed model, without the file's name."""
        return self.error_of(self.edit(edit), **options)

    def error_of(self, file: Path, **options: Any) -> str:
        """The error of a model file, without its name and line."""
        lines: list[str] = []
        from anydml.errors import ModelError

        with pytest.raises(ModelError) as caught:
            dxdispatch.run(dxdispatch.load(file), log=lines.append, warn=lambda line: None, **options)
        message = str(caught.value)
        assert message.startswith(f"{file}: ")
        assert "\n" not in message
        assert not any(line.startswith(("Dispatch", "Resource")) for line in lines), "something had run"
        message = message.removeprefix(f"{file}: ")
        if caught.value.line is not None:
            assert message.startswith(f"line {caught.value.line}: ")
            message = message.partition(": ")[2]
        assert caught.value.field == message.partition(": ")[0] or caught.value.field is None
        return message


@pytest.fixture(name="plain")
def _plain() -> Callable[[str], str]:
    return plain


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder for a model of its own, with space around it."""
    inside = tmp_path / "model"
    inside.mkdir()
    return Folder(inside)
