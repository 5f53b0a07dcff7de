"""Checkpoints of torch.distributed.checkpoint to be written: ``.distcp`` files of pieces, and ``.metadata``.

Each piece is a file of ``torch.save`` inside a file: a zip file without checksums, which PyTorch does not look at.
Pickles are written without PyTorch: `_plain` has values, and the functions after it what is made of their bytes.
"""

from __future__ import annotations

import math
import pickle
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.files.json_path import JsonPath
from anydml.stores.formats.block_types import name_of
from anydml.stores.formats.store import Numbers
from anydml.stores.formats.target import KnownBytes, NewFile, Target
from anydml.stores.formats.torch_distributed import METADATA
from anydml.stores.formats.torch_save import DTYPES_OF_TORCH
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


def new_distributed(folder: Path, files: Iterable[Iterable[NewPiece]]) -> tuple[list[Target], dict[Path, bytes]]:
    """Targets for the pieces of all files, in order, and the content of ``.metadata`` by its path.

    Raises:
        ModelError: PyTorch has no such dtype.
    """
    made, targets, stored = _Described(folder), list[Target](), list[bytes]()
    for number, pieces in enumerate(files):
        path, own = folder / f"__{number}_0.distcp", [*pieces]
        rows = np.array([made.numbers(piece) for piece in own], np.int64).reshape(-1, 4)
        kinds = rows[:, 3]
        heads, sizes, tails = np.array([(len(head), size, len(tail)) for head, tail, size in made.around]).T[:, kinds]
        ends = np.cumsum(heads + sizes + tails)
        starts = ends - (heads + sizes + tails)
        stored.append(made.places(path.name, rows, starts, ends - starts))
        known = np.stack([starts, starts + heads + sizes], 1).ravel()
        beside = KnownBytes(
            known, np.stack([2 * kinds, 2 * kinds + 1], 1).ravel(), tuple(x for each in made.around for x in each[:2])
        )
        file = NewFile(path, b"", int(ends[-1]) if own else 0, beside)
        targets += [
            Target(file, piece.name, piece.shape, piece.dtype, at)
            for piece, at in zip(own, (starts + heads).tolist(), strict=True)
        ]
    return targets, {folder / METADATA: made.metadata(stored)}


class _Described:
    """What ``.metadata`` says. A checkpoint may have a million pieces: what they have in common is made once.

    Args:
        folder: of the checkpoint, for errors.

    Attributes:
        around: the bytes before and after the elements of a piece, and of the elements, by the number of its kind.
    """

    def __init__(self, folder: Path) -> None:
        self.around: list[tuple[bytes, bytes, int]] = []
        self._folder = folder
        self._dtypes = {dtype: name for name, dtype in DTYPES_OF_TORCH.items()}
        self._memo = _Memo()
        self._kinds: dict[Any, int] = {}
        self._boxes: dict[Any, tuple[int, bytes]] = {}
        self._tensors: dict[str, tuple[NewPiece, int, list[bytes]]] = {}

    def numbers(self, piece: NewPiece) -> tuple[int, int, int, int]:
        """Note a piece: where the memo has its tensor's name and its start, its number in the tensor, and its kind.

        Raises:
            ModelError: PyTorch has no such dtype.
        """
        name, _, start, shape, dtype = piece
        memo = self._memo
        if (kind := self._kinds.get((shape, dtype))) is None:
            if dtype not in self._dtypes:
                raise (JsonPath(str(self._folder)) / name).error(f"is {name_of(dtype)}, which PyTorch does not have")
            kind = self._kinds[shape, dtype] = len(self.around)
            self.around.append((*_around(shape, dtype, self._dtypes[dtype]), math.prod(shape) * dtype.itemsize))
        if (box := self._boxes.get((start, shape))) is None:
            at, size = memo.put(_size(start)), memo.put(_size(shape))
            chunk = memo.object("ChunkStorageMetadata", offsets=memo.get(at), sizes=memo.get(size))
            box = self._boxes[start, shape] = at, chunk
        if (said := self._tensors.get(name)) is None:
            said = self._tensors[name] = piece, memo.put(_plain(name)), []
        said[2].append(box[1])
        return said[1], box[0], len(said[2]) - 1, kind

    def places(self, file: str, rows: Numbers, starts: Numbers, lengths: Numbers) -> bytes:
        """Keys and values of where the pieces of a file lie."""
        memo = self._memo
        key = memo.object("MetadataIndex", fqn=b"j" + _HOLE, offset=b"j" + _HOLE, index=b"J" + _HOLE)
        path, number = memo.once(_plain(file)), b"\x8a\x08" + _HOLE
        value = memo.object("_StorageInfo", "filesystem", relative_path=path, offset=number, length=number)
        columns = [*rows[:, :3].T.astype("<u4"), starts.astype("<i8"), lengths.astype("<i8")]
        around = [np.frombuffer(each, np.uint8) for each in (key + value).split(_HOLE)]
        table = [np.broadcast_to(around[0], (len(rows), around[0].size))]
        for column, after in zip(columns, around[1:], strict=True):
            table += [column.reshape(-1, 1).view(np.uint8), np.broadcast_to(after, (len(rows), after.size))]
        return np.hstack(table).tobytes()

    def metadata(self, stored: Sequence[bytes]) -> bytes:
        """The content of ``.metadata``."""
        memo, kinds = self._memo, dict[Any, list[bytes]]()
        state, planned = list[bytes](), list[bytes]()
        for piece, number, chunks in self._tensors.values():
            if (around := kinds.get((piece.whole, piece.dtype))) is None:
                around = kinds[piece.whole, piece.dtype] = self._tensor(piece).split(_HOLE)
            name = memo.get(number)
            state += [name, around[0], *chunks, around[1]]
            planned += [name, name, b"\x85"]
        content = memo.object(
            "Metadata", state_dict_metadata=_dict(state), planner_data=_dict(planned), storage_data=_dict(stored)
        )
        return b"".join([b"\x80\x02", *memo.parts, content, b"."])

    def _tensor(self, piece: NewPiece) -> bytes:
        """What is said of a tensor, around its pieces."""
        memo, module = self._memo, "torch.distributed.checkpoint.metadata"
        layout = _name(module, "_MEM_FORMAT_ENCODING") + b"(K\x00tR"
        state = _name("torch", self._dtypes[piece.dtype]) + _name("torch", "strided")
        state = b"(" + state + _plain(False) + layout + _plain(False) + b"t"
        properties = memo.once(_name(module, "TensorProperties")) + b")\x81" + memo.once(state) + b"b"
        size, chunks = memo.once(_size(piece.whole)), b"](" + _HOLE + b"e"
        return memo.object("TensorStorageMetadata", properties=properties, size=size, chunks=chunks)


_HOLE = b"\0hole\0"
"""Where something that differs goes in opcodes, none of which has the number zero."""


_FIRST = 16
"""The first number of a memo: values of `_plain` have memos themselves, which begin at zero."""


class _Memo:
    """What a pickle has many times: it is made once, at the beginning, and fetched afterwards.

    Attributes:
        parts: the beginning.
    """

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._known: dict[bytes, int] = {}

    def put(self, value: bytes) -> int:
        """The number by which a value is fetched, which whoever has it must not change."""
        if (number := self._known.get(value)) is None:
            number = self._known[value] = _FIRST + len(self._known)
            self.parts.append(value + b"r" + number.to_bytes(4, "little") + b"0")
        return number

    @staticmethod
    def get(number: int) -> bytes:
        """The opcodes that fetch a value."""
        return b"h%c" % number if number < 256 else b"j" + number.to_bytes(4, "little")

    def once(self, value: bytes) -> bytes:
        """The opcodes that fetch a value that is put there."""
        return self.get(self.put(value))

    def object(self, kind: str, module: str = "metadata", **state: bytes) -> bytes:
        """An object of torch.distributed.checkpoint, by its attributes."""
        made = self.once(_name(f"torch.distributed.checkpoint.{module}", kind)) + b")\x81"
        return made + _dict(each for key, value in state.items() for each in (self.once(_plain(key)), value)) + b"b"


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
