"""Slimmed models as files: what was external data stays it, and so does what was moved of it."""

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
"""Bytes of a new constant from which on it goes where the others are."""

ALIGNED = 4096
"""Where tensors begin in a file, so that it can be mapped."""


def write(model: ModelProto, slimmed: Slimmed, target: Path, folder: Folder) -> None:
    """Write a slimmed model.

    Args:
        model: the model as it was.
        slimmed: what became of it.
        target: the file. New constants of a model with external data are written beside it, to ``NAME.onnx.data``.
        folder: where the model's external data lies.

    Raises:
        ModelError: it cannot be written, or lies outside of the folder of the external data.
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
    """The model with what is new and large in a file of its own, which is written."""
    old = {tensor.name for tensor in model.graph.initializer}
    copy = ModelProto()
    copy.CopyFrom(result)
    data = bytearray()
    for tensor in copy.graph.initializer:
        if tensor.name in old or len(tensor.raw_data) < LARGE:
            continue
        data += bytes(-len(data) % ALIGNED)
        numbers = {"location": f"{target.name}.data", "offset": str(len(data)), "length": str(len(tensor.raw_data))}
        data += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.extend(StringStringEntryProto(key=key, value=value) for key, value in numbers.items())
    if data:
        place = target.with_name(f"{target.name}.data")
        if any(_location(tensor) == place.name for tensor in external_tensors(model)):
            raise ModelError(f"{place.name} holds the model's own data; write to a file of another name")
        write_whole(place, lambda file: file.write(data), JsonPath(str(place)))
    return copy


def _location(tensor: TensorProto) -> str:
    return next((entry.value for entry in tensor.external_data if entry.key == "location"), "")
