"""Writing of checkpoints of torch.distributed.checkpoint: ``.distcp`` files of pieces, and ``.metadata``.

Each piece is a file of ``torch.save`` inside a file: a zip file without checksums, which PyTorch ignores. Pickles are
written without PyTorch: `_plain` pickles values, and the functions after it compose pickles of their bytes.
"""

from __future__ import annotations

import math
import pickle
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.files.location import Location
from anydml.stores.formats.block_types import not_of_format
from anydml.stores.formats.columns import ShapeAndDtype, TensorNames, bytes_of
from anydml.stores.formats.known_bytes import KnownBytes
from anydml.stores.formats.model_files import METADATA
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.formats.target import Content, NewFile
from anydml.stores.formats.targets import Targets
from anydml.stores.formats.torch_save import DTYPES_OF_TORCH
from anydml.stores.formats.zip_headers import directory_end, entry_header
from anydml.tensor import Layout

ALIGNMENT = 64
"""Elements begin at multiples of this in each piece, as PyTorch writes them."""


class NewPiece(NamedTuple):
    """A piece, in a form that many tensors share.

    Attributes:
        kind: the number of the pair of shape and dtype of the tensors.
        tensor_shape: the shape of the tensors.
        start: the first coordinates of the piece in each tensor.
        shape: the shape of the piece.
        dtype: the dtype of the elements.
        number: the number of the piece among those of a tensor.
    """

    kind: int
    tensor_shape: tuple[int, ...]
    start: tuple[int, ...]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    number: int


def new_distributed(
    folder: Path, names: TensorNames, pieces: Sequence[NewPiece], tensor: Numbers, piece: Numbers, sizes: Numbers
) -> tuple[Targets, dict[Path, Content]]:
    """Return targets for the pieces of all files, in order, and the content of the file ``.metadata``.

    Args:
        folder: the folder of the checkpoint.
        names: the names of all tensors.
        pieces: the different pieces.
        tensor: for each piece in a file, the number of its tensor.
        piece: for each piece in a file, its number among the different pieces.
        sizes: the number of pieces in each file; pieces are in the order of files.

    Raises:
        ModelError: PyTorch has no such dtype.
    """
    kinds: dict[ShapeAndDtype, int] = {}
    kind_of = np.array(
        [kinds.setdefault((distinct.shape, distinct.dtype), len(kinds)) for distinct in pieces], np.int32
    )
    kind, around = kind_of[piece], list[tuple[bytes, bytes]]()
    for shape, dtype in kinds:
        if dtype not in _NAMES:
            name = names.texts[tensor[np.flatnonzero(kind == kinds[shape, dtype])[0]]]
            raise (Location(str(folder)) / name).error(not_of_format(dtype, "PyTorch", DTYPES_OF_TORCH))
        around.append(_bytes_around(shape, dtype, _NAMES[dtype]))
    element_bytes = bytes_of([*kinds])
    heads, tails = (np.array([len(part[k]) for part in around], np.int64) for k in (0, 1))
    file_bytes, around_bytes = heads + element_bytes + tails, np.stack([heads, tails], 1)
    distances = np.stack([-heads, element_bytes], 1)
    new_files, offset, file_pieces = list[NewFile](), np.empty(piece.size, np.int64), list[_FilePieces]()
    for file_number, (first, last) in enumerate(pairwise([0, *np.cumsum(sizes).tolist()])):
        rows = slice(first, last)
        ends = np.cumsum(file_bytes[kind[rows]])
        offset[rows] = ends - (element_bytes + tails)[kind[rows]]
        path = folder / f"__{file_number}_0.distcp"
        known_bytes = KnownBytes(offset[rows], kind[rows], distances, around_bytes, tuple(around))
        new_files.append(NewFile(path, b"", int(ends[-1]) if ends.size else 0, known_bytes))
        file_pieces.append(_FilePieces(path.name, tensor[rows], piece[rows], offset[rows]))
    number_of = np.repeat(np.arange(len(new_files), dtype=np.int32), sizes)
    lengths = np.stack([heads, element_bytes, tails])[:, kind_of]
    metadata = _Metadata(names, pieces, file_pieces, lengths)
    return Targets(new_files, number_of, names, tensor, [*kinds], kind, offset), {folder / METADATA: metadata}


_NAMES = {dtype: name for name, dtype in DTYPES_OF_TORCH.items()}


class _FilePieces(NamedTuple):
    """The pieces of a file.

    Attributes:
        file: the name of the file.
        tensor_numbers: for each piece, the number of its tensor.
        piece_numbers: for each piece, its number among the different pieces.
        offsets: for each piece, the offset of its elements, in bytes.
    """

    file: str
    tensor_numbers: Numbers
    piece_numbers: Numbers
    offsets: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class _Metadata:
    """The content of ``.metadata``. A checkpoint may have a million pieces, so common parts are generated once.

    Attributes:
        names: the names of all tensors.
        pieces: the different pieces.
        file_pieces: the pieces of each file.
        lengths: for each of `pieces`, the bytes before its elements, of them, and after them.
    """

    names: TensorNames
    pieces: Sequence[NewPiece]
    file_pieces: Sequence[_FilePieces]
    lengths: Numbers

    def make(self) -> bytes:
        """Return all bytes."""
        memo = _Memo()
        texts = self.names.texts
        kinds = np.full(len(texts), -1, np.int32)
        kind_of_piece = np.array([piece.kind for piece in self.pieces], np.int32)
        for entry in self.file_pieces:
            kinds[entry.tensor_numbers] = kind_of_piece[entry.piece_numbers]
        name_of_tensor = np.zeros(len(texts), np.uint32)
        present = np.flatnonzero(kinds >= 0).tolist()
        name_of_tensor[present] = [memo.put(_plain(texts[name_number])) for name_number in present]
        starts = [memo.put(_size(piece.start)) for piece in self.pieces]
        kind_opcodes = self._of_kinds(memo, starts)
        state, planned = list[bytes](), list[bytes]()
        for name_number, kind in zip(name_of_tensor[present].tolist(), kinds[present].tolist(), strict=True):
            name = memo.get(name_number)
            state += [name, kind_opcodes[kind]]
            planned += [name, name, b"\x85"]
        stored = [self._places(memo, entry, name_of_tensor, np.array(starts, np.uint32)) for entry in self.file_pieces]
        content = memo.object(
            "Metadata", state_dict_metadata=_dict(state), planner_data=_dict(planned), storage_data=_dict(stored)
        )
        return b"".join([b"\x80\x02", *memo.parts, content, b"."])

    def _of_kinds(self, memo: _Memo, starts: Sequence[int]) -> dict[int, bytes]:
        """Return the properties of tensors, by the numbers of their kinds."""
        firsts, chunks = dict[int, NewPiece](), dict[int, list[bytes]]()
        for piece, start in zip(self.pieces, starts, strict=True):
            firsts.setdefault(piece.kind, piece)
            sizes = memo.once(_size(piece.shape))
            chunk = memo.object("ChunkStorageMetadata", offsets=memo.get(start), sizes=sizes)
            chunks.setdefault(piece.kind, []).append(chunk)
        module, texts = "torch.distributed.checkpoint.metadata", dict[int, bytes]()
        for kind, piece in firsts.items():
            layout = _name(module, "_MEM_FORMAT_ENCODING") + b"(K\x00tR"
            state = _name("torch", _NAMES[piece.dtype]) + _name("torch", "strided")
            state = b"(" + state + _plain(False) + layout + _plain(False) + b"t"
            properties = memo.once(_name(module, "TensorProperties")) + b")\x81" + memo.once(state) + b"b"
            size, chunk_list = memo.once(_size(piece.tensor_shape)), b"](" + b"".join(chunks[kind]) + b"e"
            texts[kind] = memo.object("TensorStorageMetadata", properties=properties, size=size, chunks=chunk_list)
        return texts

    def _places(self, memo: _Memo, entry: _FilePieces, names: Array, starts: Array) -> bytes:
        """Return keys and values for the places of a file's pieces."""
        key = memo.object("MetadataIndex", fqn=b"j" + _HOLE, offset=b"j" + _HOLE, index=b"J" + _HOLE)
        path, number = memo.once(_plain(entry.file)), b"\x8a\x08" + _HOLE
        value = memo.object("_StorageInfo", "filesystem", relative_path=path, offset=number, length=number)
        indices = np.array([piece.number for piece in self.pieces], "<u4")[entry.piece_numbers]
        lengths = self.lengths[:, entry.piece_numbers]
        columns = [
            names[entry.tensor_numbers],
            starts[entry.piece_numbers],
            indices,
            entry.offsets - lengths[0],
            lengths.sum(0),
        ]
        around = [np.frombuffer(part, np.uint8) for part in (key + value).split(_HOLE)]
        table, count = (
            [np.broadcast_to(around[0], (entry.piece_numbers.size, around[0].size))],
            entry.piece_numbers.size,
        )
        for column, kind, after in zip(columns, ("<u4", "<u4", "<u4", "<i8", "<i8"), around[1:], strict=True):
            table.append(np.ascontiguousarray(column, kind).reshape(-1, 1).view(np.uint8))
            table.append(np.broadcast_to(after, (count, after.size)))
        return np.hstack(table).tobytes()


_HOLE = b"\0hole\0"
"""The placeholder in opcodes for a part that differs; no opcode has the number zero."""


_FIRST = 16
"""The first number of a memo: values of `_plain` have memos themselves, which begin at zero."""


class _Memo:
    """Values that occur many times in a pickle: each is pickled once, at the beginning, and fetched later.

    Attributes:
        parts: the beginning.
    """

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._known: dict[bytes, int] = {}

    def put(self, value: bytes) -> int:
        """Return the number by which a value is fetched; the value must not change."""
        if (memo_number := self._known.get(value)) is None:
            memo_number = self._known[value] = _FIRST + len(self._known)
            self.parts.append(value + b"r" + memo_number.to_bytes(4, "little") + b"0")
        return memo_number

    @staticmethod
    def get(memo_number: int) -> bytes:
        """Return the opcodes that fetch a value."""
        return b"h%c" % memo_number if memo_number < 256 else b"j" + memo_number.to_bytes(4, "little")

    def once(self, value: bytes) -> bytes:
        """Return the opcodes that fetch a value; a new value is added to the memo."""
        return self.get(self.put(value))

    def object(self, class_name: str, module: str = "metadata", **state: bytes) -> bytes:
        """Return the opcodes of an object of torch.distributed.checkpoint with its attributes."""
        new_object = self.once(_name(f"torch.distributed.checkpoint.{module}", class_name)) + b")\x81"
        return (
            new_object + _dict(part for key, value in state.items() for part in (self.once(_plain(key)), value)) + b"b"
        )


def _plain(value: Any) -> bytes:
    """Return the opcodes of a string, a number, or a tuple of these."""
    return pickle.dumps(value, 2)[2:-1]


def _name(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _dict(items: Iterable[bytes]) -> bytes:
    """Return a dict of keys and values in turn."""
    return b"".join([b"}(", *items, b"u"])


def _size(sizes: tuple[int, ...]) -> bytes:
    """Return a torch.Size."""
    return _name("torch", "Size") + b"(" + _plain(sizes) + b"tR"


def _bytes_around(shape: tuple[int, ...], dtype: np.dtype[Any], class_name: str) -> tuple[bytes, bytes]:
    """Return the bytes before and after the elements of a tensor in a file of ``torch.save``."""
    size = math.prod(shape) * dtype.itemsize
    storage = _plain("storage") + _name("torch.storage", "UntypedStorage") + b"".join(map(_plain, ("0", "cpu", size)))
    values = b"".join(map(_plain, (0, shape, Layout.packed(shape, 1).strides, False)))
    arguments = (
        b"(" + storage + b"tQ" + values + _name("collections", "OrderedDict") + b")R" + _name("torch", class_name)
    )
    state = b"\x80\x02" + _name("torch._utils", "_rebuild_tensor_v3") + b"(" + arguments + b"tR."
    head, directory = b"", b""
    small = {"data.pkl": state, "byteorder": b"little", "version": b"3\n"}
    for name, content in small.items():
        directory += entry_header(f"archive/{name}", len(content), zlib.crc32(content), len(head))
        head += entry_header(f"archive/{name}", len(content), zlib.crc32(content)) + content
    directory += entry_header("archive/data/0", size, 0, len(head))
    bare = len(head) + len(entry_header("archive/data/0", size, 0))
    # An extra field has four bytes at least.
    head += entry_header("archive/data/0", size, 0, padding=-(bare + 4) % ALIGNMENT + 4)
    return head, directory + directory_end(len(small) + 1, len(directory), len(head) + size)
