"""Checkpoints of torch.distributed.checkpoint to be written: ``.distcp`` files of pieces, and ``.metadata``.

Each piece is a file of ``torch.save`` inside a file: a zip file without checksums, which PyTorch does not look at.
Pickles are written without PyTorch: `_plain` has values, and the functions after it what is made of their bytes.
"""

from __future__ import annotations

import math
import pickle
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.files.json_path import JsonPath
from anydml.stores.formats.safetensors import DTYPES
from anydml.stores.formats.target import NewFile, Target
from anydml.stores.formats.torch_distributed import METADATA
from anydml.stores.formats.torch_save import BY_TORCH
from anydml.stores.formats.zip_headers import directory_end, entry_header
from anydml.tensor import Layout

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
        ModelError: PyTorch has no such dtype.
    """
    names = {DTYPES[key]: name for name, key in BY_TORCH.items()}
    around: dict[Any, tuple[bytes, bytes]] = {}
    described: dict[str, tuple[NewPiece, list[bytes]]] = {}
    stored, targets = list[tuple[bytes, bytes]](), list[Target]()
    for number, pieces in enumerate(files):
        path, parts, own, end = folder / f"__{number}_0.distcp", list[tuple[int, bytes]](), list[Target](), 0
        for piece in pieces:
            name, _, start, shape, dtype = piece
            if dtype not in names:
                raise (JsonPath(str(folder)) / name).error(f"is {dtype}, which PyTorch does not have")
            if (shape, dtype) not in around:
                around[shape, dtype] = _around(shape, dtype, names[dtype])
            head, tail = around[shape, dtype]
            data = math.prod(shape) * dtype.itemsize
            own.append(Target(NewFile(path, b"", 0), name, shape, dtype, end + len(head)))
            parts += [(end, head), (end + len(head) + data, tail)]
            length = len(head) + data + len(tail)
            _, chunks = described.setdefault(name, (piece, []))
            offsets = _size(start)
            index = _object("MetadataIndex", fqn=_plain(name), offset=offsets, index=_plain(len(chunks)))
            where = {"relative_path": _plain(path.name), "offset": _plain(end), "length": _plain(length)}
            stored.append((index, _object("_StorageInfo", "filesystem", **where)))
            chunks.append(_object("ChunkStorageMetadata", offsets=offsets, sizes=_size(shape)))
            end += length
        file = NewFile(path, b"", end, tuple(parts))
        targets += [replace(each, file=file) for each in own]
    content = _object(
        "Metadata",
        state_dict_metadata=_dict((_plain(name), _tensor(*each, names)) for name, each in described.items()),
        planner_data=_dict((_plain(name), _plain((name,))) for name in described),
        storage_data=_dict(stored),
    )
    return targets, {folder / METADATA: b"\x80\x02" + content + b"."}


def _plain(value: Any) -> bytes:
    """The opcodes of a text, a number, or a tuple of these."""
    return pickle.dumps(value, 2)[2:-1]


def _name(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _dict(items: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"}(" + b"".join(key + value for key, value in items) + b"u"


def _size(sizes: tuple[int, ...]) -> bytes:
    """A torch.Size."""
    return _name("torch", "Size") + b"(" + _plain(sizes) + b"tR"


def _object(kind: str, module: str = "metadata", **state: bytes) -> bytes:
    """An object of torch.distributed.checkpoint, by its attributes."""
    made = _name(f"torch.distributed.checkpoint.{module}", kind) + b")\x81"
    return made + _dict((_plain(key), value) for key, value in state.items()) + b"b"


def _tensor(piece: NewPiece, chunks: Sequence[bytes], names: Mapping[np.dtype[Any], str]) -> bytes:
    """What ``.metadata`` says of a tensor."""
    module = "torch.distributed.checkpoint.metadata"
    layout = _name(module, "_MEM_FORMAT_ENCODING") + b"(K\x00tR"
    state = _name("torch", names[piece.dtype]) + _name("torch", "strided") + _plain(False) + layout + _plain(False)
    properties = _name(module, "TensorProperties") + b")\x81(" + state + b"tb"
    every = b"](" + b"".join(chunks) + b"e"
    return _object("TensorStorageMetadata", properties=properties, size=_size(piece.whole), chunks=every)


def _around(shape: tuple[int, ...], dtype: np.dtype[Any], kind: str) -> tuple[bytes, bytes]:
    """The bytes before and after the elements of a tensor in a file of ``torch.save``."""
    size = math.prod(shape) * dtype.itemsize
    storage = _plain("storage") + _name("torch.storage", "UntypedStorage") + b"".join(map(_plain, ("0", "cpu", size)))
    values = b"".join(map(_plain, (0, shape, Layout.packed(shape, 1).strides, False)))
    arguments = b"(" + storage + b"tQ" + values + _name("collections", "OrderedDict") + b")R" + _name("torch", kind)
    made = b"\x80\x02" + _name("torch._utils", "_rebuild_tensor_v3") + b"(" + arguments + b"tR."
    head, directory = b"", b""
    small = {"data.pkl": made, "byteorder": b"little", "version": b"3\n"}
    for name, content in small.items():
        directory += entry_header(f"archive/{name}", len(content), zlib.crc32(content), len(head))
        head += entry_header(f"archive/{name}", len(content), zlib.crc32(content)) + content
    directory += entry_header("archive/data/0", size, 0, len(head))
    bare = len(head) + len(entry_header("archive/data/0", size, 0))
    # An extra field has four bytes at least.
    head += entry_header("archive/data/0", size, 0, padding=-(bare + 4) % ALIGNMENT + 4)
    return head, directory + directory_end(len(small) + 1, len(directory), len(head) + size)
