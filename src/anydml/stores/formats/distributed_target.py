"""Checkpoints of torch.distributed.checkpoint to be written: ``.distcp`` files of pieces, and ``.metadata``.

Each piece is a file of ``torch.save`` inside a file: a zip file without checksums, which PyTorch does not look at.
Pickles are written without PyTorch: `_plain` has values, and the functions after it what is made of their bytes.
"""

from __future__ import annotations

import math
import pickle
import zlib
from collections.abc import Iterable, Mapping, Sequence
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
    around: dict[Any, tuple[bytes, bytes, int]] = {}
    described: dict[str, tuple[NewPiece, bytes, list[bytes]]] = {}
    boxes: dict[Any, tuple[bytes, bytes]] = {}
    # A checkpoint may have a million pieces: what they have in common is made once.
    index_of = _object("MetadataIndex", fqn=b"%b", offset=b"%b", index=b"%b")
    stored, targets = list[bytes](), list[Target]()
    for number, pieces in enumerate(files):
        path, parts, own, end = folder / f"__{number}_0.distcp", list[tuple[int, bytes]](), list[int](), 0
        where_of = _object("_StorageInfo", "filesystem", relative_path=_plain(path.name), offset=b"%b", length=b"%b")
        for piece in pieces:
            name, _, start, shape, dtype = piece
            if (known := around.get((shape, dtype))) is None:
                if dtype not in names:
                    raise (JsonPath(str(folder)) / name).error(f"is {dtype}, which PyTorch does not have")
                data = math.prod(shape) * dtype.itemsize
                known = around[shape, dtype] = *_around(shape, dtype, names[dtype]), data
            head, tail, data = known
            if (box := boxes.get((start, shape))) is None:
                offsets = _size(start)
                box = boxes[start, shape] = (
                    offsets, _object("ChunkStorageMetadata", offsets=offsets, sizes=_size(shape))
                )  # fmt: skip
            if (said := described.get(name)) is None:
                said = described[name] = piece, _plain(name), []
            _, written, chunks = said
            first = end + len(head)
            own.append(first)
            parts += [(end, head), (first + data, tail)]
            length = len(head) + data + len(tail)
            stored.append(index_of % (written, box[0], _plain(len(chunks))))
            stored.append(where_of % (_plain(end), _plain(length)))
            chunks.append(box[1])
            end += length
        file = NewFile(path, b"", end, tuple(parts))
        targets += [
            Target(file, piece.name, piece.shape, piece.dtype, at) for piece, at in zip(pieces, own, strict=True)
        ]
    tensors = (each for piece, name, chunks in described.values() for each in (name, _tensor(piece, chunks, names)))
    content = _object("Metadata", state_dict_metadata=b"%b", planner_data=b"%b", storage_data=b"%b") % (
        _dict(tensors), _dict(each for name in described for each in (_plain(name), _plain((name,)))), _dict(stored)
    )  # fmt: skip
    return targets, {folder / METADATA: b"\x80\x02" + content + b"."}


def _plain(value: Any) -> bytes:
    """The opcodes of a text, a number, or a tuple of these."""
    return pickle.dumps(value, 2)[2:-1]


def _name(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _dict(items: Iterable[bytes]) -> bytes:
    """A dict of keys and values in turn."""
    return b"".join([b"}(", *items, b"u"])


def _size(sizes: tuple[int, ...]) -> bytes:
    """A torch.Size."""
    return _name("torch", "Size") + b"(" + _plain(sizes) + b"tR"


def _object(kind: str, module: str = "metadata", **state: bytes) -> bytes:
    """An object of torch.distributed.checkpoint, by its attributes."""
    made = _name(f"torch.distributed.checkpoint.{module}", kind) + b")\x81"
    return made + _dict(each for key, value in state.items() for each in (_plain(key), value)) + b"b"


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
