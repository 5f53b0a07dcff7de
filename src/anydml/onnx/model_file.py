"""Read untrusted .onnx files.

A file may have at most 2 GiB − 1 bytes, the limit of protobuf; larger weights must be external data. It may have at
most half the size of the available memory, because parsing holds it twice; the same limit applies to external data.
"""

from __future__ import annotations

import os
from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import IR_VERSION, ModelProto

from anydml.errors import nothing_at
from anydml.files.folder import Folder
from anydml.files.location import Location
from anydml.memory import limits
from anydml.onnx.budget import Budget
from anydml.onnx.external import external_tensors, find_external
from anydml.onnx.walk import names
from anydml.onnx.wire import count_messages
from anydml.paths import path_text
from anydml.text import bytes_text

MAX_BYTES = 2**31 - 1
"""Protobuf's limit for one message."""

MAX_MESSAGES = 1_000_000
"""Largest number of protobuf messages in a file (nodes, attributes, tensors, sizes …), which may have 2 bytes each."""

MESSAGE = 256
"""Overhead of a parsed message in bytes, without its strings and numbers."""


def load(
    path: str | os.PathLike[str],
    *,
    allow_outside: bool = False,
    external_data: bool = True,
    folder: str | os.PathLike[str] | None = None,
) -> ModelProto:
    """Read a model file.

    Args:
        path: the file, in ONNX's binary format.
        allow_outside: whether external data may lie outside `folder`.
        external_data: whether to read external data into the model.
        folder: the folder that paths of external data start from; by default that of the file.

    Raises:
        ModelError: the file does not exist, is too large, is truncated or is not an ONNX model, or its external data is
            missing, too short, or outside the folder.

    Examples:
        >>> from onnx import TensorProto, helper
        >>> import anydml.onnx
        >>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
        >>> graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"], "copy")], "g", [x], [y])
        >>> model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        >>> import onnx
        >>> onnx.save(model, "model.onnx")
        >>> anydml.onnx.load("model.onnx").graph.name
        'g'
    """
    file, location = Path(path_text("load", path)), Location(str(path))
    _check_size(_size(file, location), location)
    try:
        data = file.read_bytes()
    except OSError as error:
        raise location.error(f"cannot be read: {error.strerror}") from None
    _check_messages(data, location)
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        size = bytes_text(len(data))
        raise location.error(f"is not an ONNX model, or is truncated at {size}; copy or export it again") from None
    del data
    _check_model(model, location)
    if external_data:
        root = Folder(file.resolve().parent if folder is None else Path(folder).resolve(), allow_outside)
        external_parts = [find_external(tensor, root, location) for tensor in external_tensors(model)]
        _check_memory(sum(part.length for part in external_parts), location)
        for part in external_parts:
            part.load()
    return model


def _size(file: Path, location: Location) -> int:
    try:
        if not file.is_file():
            reason = "is a folder, not a model file" if file.is_dir() else "is not a file"
            raise location.error(reason if file.exists() else nothing_at(file))
        return file.stat().st_size
    except OSError as error:
        raise location.error(f"cannot be read: {error.strerror}") from None


def _check_size(size: int, location: Location) -> None:
    if not size:
        raise location.error(
            "the file is empty", rule="an ONNX model must be a protobuf message: copy or export it again"
        )
    if size > MAX_BYTES:
        reason = f"has {bytes_text(size)}, but an ONNX file has less than 2 GiB; store its tensors as external data"
        raise location.error(reason, rule="protobuf reads less than 2 GiB")
    _check_memory(size, location)


def _check_memory(size: int, location: Location) -> None:
    available = limits.available_memory()
    if available is not None and 2 * size > available:
        have = bytes_text(available)
        raise location.error(f"loading it takes {bytes_text(2 * size)}, but {have} of memory are available")


def _check_messages(data: bytes, location: Location) -> None:
    count = count_messages(data, ModelProto.DESCRIPTOR, MAX_MESSAGES)
    if count > MAX_MESSAGES:
        reason = f"has more than {MAX_MESSAGES} nodes, attributes, sizes and other parts"
        raise location.error(reason, rule=f"a model must have at most {MAX_MESSAGES} parts")
    Budget().ask(str(location), f"loading its {count} parts", count * MESSAGE)


def _check_model(model: ModelProto, location: Location) -> None:
    """Check fields that every model has, since arbitrary bytes may parse as a protobuf message."""
    if not model.HasField("graph") or model.ir_version < 1:
        raise location.error("is not an ONNX model, or is truncated: it has no graph or no IR version")
    if model.ir_version > IR_VERSION:
        newest = f"the installed onnx reads versions up to {IR_VERSION}"
        raise location.error(f"has IR version {model.ir_version}, but {newest}")
    if not model.opset_import:
        raise location.error("is not an ONNX model, or is truncated: it imports no opset")
    # Protobuf returns strings that are not UTF-8 as bytes.
    if any(isinstance(name, bytes) for name in names(model)):
        raise location.error("is not an ONNX model, or is broken: it has a name that is not UTF-8")
