"""Writing slimmed models: what was external data stays external, and so do large constants that are made of it."""

from __future__ import annotations

from pathlib import Path

from onnx import ModelProto, StringStringEntryProto, TensorProto

from anydml.errors import ModelError
from anydml.files.folder import Folder, write_whole
from anydml.files.json_path import JsonPath
from anydml.onnx.checks import check, serialized
from anydml.onnx.external import external_tensors
from anydml.slim.slimming import Slimmed

LARGE = 1024
"""Fewest bytes of a new constant that becomes external data."""

ALIGNMENT = 4096
"""Alignment of tensors in a data file, so that it can be mapped."""


def write(model: ModelProto, slimmed: Slimmed, target: Path, folder: Folder) -> None:
    """Write a slimmed model.

    Args:
        model: the original model.
        slimmed: the result of `slim`.
        target: the file. New constants of a model with external data are written to ``NAME.onnx.data`` beside it.
        folder: folder of the model's external data.

    Raises:
        ModelError: it cannot be written, or its folder is not that of the external data.
    """
    result = slimmed.model
    if external_tensors(model):
        if target.resolve().parent != folder.root:
            raise ModelError(f"the model has external data beside it; write {target.name} into the same folder")
        result = _with_new_data(model, result, target)
    check(result)
    data = serialized(result)
    write_whole(target, lambda file: file.write(data), JsonPath(str(target)))


def _with_new_data(model: ModelProto, result: ModelProto, target: Path) -> ModelProto:
    """Write large new constants to a data file; return the model that refers to it."""
    old = {tensor.name for tensor in model.graph.initializer}
    copy = ModelProto()
    copy.CopyFrom(result)
    data = bytearray()
    path = target.with_name(f"{target.name}.data")
    for tensor in copy.graph.initializer:
        if tensor.name in old or len(tensor.raw_data) < LARGE:
            continue
        data += bytes(-len(data) % ALIGNMENT)
        entries = {"location": path.name, "offset": str(len(data)), "length": str(len(tensor.raw_data))}
        data += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.extend(StringStringEntryProto(key=key, value=value) for key, value in entries.items())
    if data:
        locations = {e.value for each in external_tensors(model) for e in each.external_data if e.key == "location"}
        if path.name in locations:
            raise ModelError(f"{path.name} holds the model's own data; write to a file of another name")
        write_whole(path, lambda file: file.write(data), JsonPath(str(path)))
    return copy
