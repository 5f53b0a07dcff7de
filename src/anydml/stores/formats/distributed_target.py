"""Checkpoints of torch.distributed.checkpoint to be written: ``.distcp`` files of pieces, and ``.metadata``.

Each piece is a file of ``torch.save`` inside a file: a zip file without checksums, which PyTorch does not look at. That
PyTorch is installed is a condition, because ``.metadata`` is a pickle of its classes.
"""

from __future__ import annotations

import io
import math
import pickle
import struct
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.files.json_path import JsonPath
from anydml.stores.formats.safetensors import DTYPES
from anydml.stores.formats.target import NewFile, Target
from anydml.stores.formats.torch_distributed import METADATA
from anydml.stores.formats.torch_save import BY_TORCH
from anydml.tensor import Layout

FOUR_GIB = (1 << 32) - 1
"""What zip files have in place of sizes and offsets that need more than 32 bits."""

ALIGNMENT = 64
"""Elements begin at multiples of this in each piece, as PyTorch writes them."""


class NewPiece(NamedTuple):
    """A piece of a tensor.

    Attributes:
        name: of the tensor.
        whole: shape of the tensor.
        start: first coordinates in the tensor.
        shape: of the piece.
        dtype: of the elements.
    """

    name: str
    whole: tuple[int, ...]
    start: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def new_distributed(folder: Path, files: Sequence[Sequence[NewPiece]]) -> tuple[list[Target], dict[Path, bytes]]:
    """Targets for the pieces of all files, in order, and the content of ``.metadata`` by its path.

    Raises:
        ModelError: PyTorch is not installed, or has no such dtype.
    """
    place = JsonPath(str(folder))
    try:
        import torch
        from torch.distributed.checkpoint import filesystem, metadata
    except ImportError as error:
        raise place.error(f"would be a checkpoint of PyTorch's, which is not installed ({error})") from None
    names = {DTYPES[key]: name for name, key in BY_TORCH.items()}
    around: dict[Any, tuple[bytes, bytes]] = {}
    described: dict[str, Any] = {}
    stored: dict[Any, Any] = {}
    targets = list[Target]()
    for number, pieces in enumerate(files):
        path, parts, own, end = folder / f"__{number}_0.distcp", list[tuple[int, bytes]](), list[Target](), 0
        for name, whole, start, shape, dtype in pieces:
            if dtype not in names:
                raise (place / name).error(f"is {dtype}, which PyTorch does not have")
            if (shape, dtype) not in around:
                around[shape, dtype] = _around(shape, dtype, getattr(torch, names[dtype]))
            head, tail = around[shape, dtype]
            data = math.prod(shape) * dtype.itemsize
            own.append(Target(NewFile(path, b"", 0), name, shape, dtype, end + len(head)))
            parts += [(end, head), (end + len(head) + data, tail)]
            length = len(head) + data + len(tail)
            if name not in described:
                properties = metadata.TensorProperties(dtype=getattr(torch, names[dtype]))
                described[name] = metadata.TensorStorageMetadata(properties, torch.Size(whole), [])
            chunks = described[name].chunks
            index = metadata.MetadataIndex(name, start, len(chunks))
            stored[index] = filesystem._StorageInfo(path.name, end, length)
            chunks.append(metadata.ChunkStorageMetadata(torch.Size(start), torch.Size(shape)))
            end += length
        file = NewFile(path, b"", end, tuple(parts))
        targets += [replace(each, file=file) for each in own]
    content = metadata.Metadata(described, {name: (name,) for name in described}, stored, metadata.StorageMeta())
    return targets, {folder / METADATA: pickle.dumps(content)}


class _Storage(NamedTuple):
    """The storage of a tensor in a pickle."""

    size: int


class _Pickler(pickle.Pickler):
    def persistent_id(self, found: Any) -> Any:
        import torch

        # Otherwise a named tuple would be saved as one.
        is_storage = type(found) is _Storage
        return ("storage", torch.storage.UntypedStorage, "0", "cpu", found.size) if is_storage else None


class _Tensor:
    def __init__(self, *arguments: Any) -> None:
        self._arguments = arguments

    def __reduce__(self) -> tuple[Any, ...]:
        from torch._utils import _rebuild_tensor_v3

        return _rebuild_tensor_v3, self._arguments


def _around(shape: tuple[int, ...], dtype: np.dtype[Any], kind: Any) -> tuple[bytes, bytes]:
    """The bytes before and after the elements of a tensor in a file of ``torch.save``."""
    size, stream = math.prod(shape) * dtype.itemsize, io.BytesIO()
    strides = Layout.packed(shape, 1).strides
    _Pickler(stream, 2).dump(_Tensor(_Storage(size), 0, shape, strides, False, OrderedDict(), kind))
    head, directory = b"", b""
    small = {"data.pkl": stream.getvalue(), "byteorder": b"little", "version": b"3\n"}
    for name, content in small.items():
        directory += _entry(name, len(content), zlib.crc32(content), len(head))
        head += _entry(name, len(content), zlib.crc32(content)) + content
    directory += _entry("data/0", size, 0, len(head))
    bare = len(head) + len(_entry("data/0", size, 0))
    # An extra field has four bytes at least.
    head += _entry("data/0", size, 0, padding=-(bare + 4) % ALIGNMENT + 4)
    count, start = len(small) + 1, len(head) + size
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(directory), min(start, FOUR_GIB), 0)
    if start >= FOUR_GIB:
        wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(directory), start)
        end = wide + struct.pack("<4sLQL", b"PK\6\7", 0, start + len(directory), 1) + end
    return head, directory + end


def _entry(name: str, size: int, checksum: int, offset: int | None = None, padding: int = 0) -> bytes:
    """The header before an entry of a zip file, or, with the offset of that, the entry of the directory."""
    path = f"archive/{name}".encode()
    extra = struct.pack("<2H2Q", 1, 16, size, size) if size >= FOUR_GIB else b""
    extra += struct.pack("<2s", b"FB") + struct.pack("<H", padding - 4) + b"Z" * (padding - 4) if padding else b""
    said = min(size, FOUR_GIB)
    fields = struct.pack("<5H3L2H", 45, 0, 0, 0, 33, checksum, said, said, len(path), len(extra))
    if offset is None:
        return b"PK\3\4" + fields + path + extra
    return b"PK\1\2" + struct.pack("<H", 45) + fields + struct.pack("<3H2L", 0, 0, 0, 0, offset) + path + extra
