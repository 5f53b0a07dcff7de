"""External data (ONNX, docs/ExternalData.md): tensors stored in separate files next to the model."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto, TensorProto

from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.files.location import Location, show
from anydml.onnx.directml.index_descs import INDEXED, MAX_INDICES
from anydml.onnx.walk import tensors
from anydml.text import escape_controls

MAX_BYTES = 8 * MAX_INDICES
"""Maximum size in bytes of constant indices that are read."""


@dataclass(frozen=True)
class FileRange:
    """The byte range of a file that stores a tensor, checked against the file's size."""

    tensor: TensorProto
    path: Path
    offset: int
    length: int
    location: Location

    def read(self) -> bytes:
        """Read the bytes.

        Raises:
            ModelError: the file cannot be read, or was truncated.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read(self.length)
        except OSError as error:
            raise self.location.error(f"{escape_controls(str(self.path))} cannot be read: {error.strerror}") from None
        if len(data) != self.length:
            raise self.location.error(f"{escape_controls(str(self.path))} changed while it was read")
        return data

    def load(self) -> None:
        """Read the bytes into the tensor.

        Raises:
            ModelError: the file cannot be read, or was truncated.
        """
        self.tensor.raw_data = self.read()
        self.tensor.data_location = TensorProto.DEFAULT
        del self.tensor.external_data[:]


def external_tensors(model: ModelProto) -> list[TensorProto]:
    """Return the tensors of a model with external data, including those in subgraphs and functions."""
    return [tensor for tensor in tensors(model) if tensor.data_location == TensorProto.EXTERNAL]


def external_files(model: ModelProto, root: Path) -> set[Path]:
    """Return the files that a model's external data is stored in, relative to the folder `root`."""
    entries = (entry for tensor in external_tensors(model) for entry in tensor.external_data)
    return {root / entry.value for entry in entries if entry.key == "location"}


def load_indices(model: ModelProto, path: Path, folder: Path) -> None:
    """Read external data of the main graph that are constant indices, as far as they can be read.

    Args:
        model: a model that was loaded without its external data.
        path: the path of the model's file.
        folder: the folder that paths of external data start from.
    """
    names = {proto.input[1] for proto in model.graph.node if proto.op_type in INDEXED and len(proto.input) > 1}
    for tensor in model.graph.initializer:
        if tensor.name in names and tensor.data_location == TensorProto.EXTERNAL:
            with contextlib.suppress(ModelError):
                data = find_external(tensor, Folder(folder), Location(str(path)))
                if data.length <= MAX_BYTES:
                    data.load()


def find_external(tensor: TensorProto, folder: Folder, location: Location) -> FileRange:
    """Locate a tensor's external data without reading it.

    Raises:
        ModelError: an entry is invalid, or the file is missing, outside the folder, or too short.
    """
    at = Location(location.file, f"tensor {show(tensor.name)}")
    entries = {entry.key: entry.value for entry in tensor.external_data}
    file_name = entries.get("location")
    if not file_name:
        raise at.error("its external data has no location")
    path = folder.source(file_name, at)
    try:
        size = path.stat().st_size
    except OSError as error:
        raise at.error(f"{escape_controls(str(path))} cannot be read: {error.strerror}") from None
    start = _number(entries, "offset", at) or 0
    length = _number(entries, "length", at)
    count = max(0, size - start) if length is None else length
    if start + count > size:
        raise at.error(f"its data is {count} bytes from byte {start} on, but {show(file_name)} has {size} bytes")
    return FileRange(tensor, path, start, count, at)


def _number(entries: Mapping[str, str], key: str, location: Location) -> int | None:
    text = entries.get(key)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise location.error(f"its external data has {key} {show(text)}, which is not a number of bytes")
    return int(text)
