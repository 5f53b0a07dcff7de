"""Files of ``torch.save`` inside files. Thousands of them have equal headers, which are parsed only once.

The place of elements depends on the bytes before them, and on the directory of the zip file after them. If both equal
those of a parsed piece, except for checksums, nothing else is read.
"""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from anydml.files.json_path import JsonPath
from anydml.stores.formats.npz import FileSection
from anydml.stores.formats.open_files import OpenFiles, read_at
from anydml.stores.formats.store import FileContent, Store
from anydml.stores.formats.torch_save import read_torch

MAX_HEADER = 1 << 16
"""Maximum number of bytes before or behind the elements of a piece that are compared."""

MAX_ALIKE = 64
"""Maximum number of kinds of headers that are cached for pieces of one length."""

_RECORD = struct.Struct("<4s12xI8x3H")
"""The head of a record of the directory: its signature, the checksum, and lengths of the name and two fields."""

_NAME, _CHECKSUM = 46, 16
"""Offsets in bytes of the name and of the checksum in a record."""

_LOCAL_CHECKSUM = 14
"""Offset in bytes of the checksum in the header before an entry."""


class _ParsedPiece(NamedTuple):
    """A parsed piece.

    Attributes:
        before: the bytes before its elements, without the checksum of these.
        behind: the directory after the elements, without checksums.
        checksum: the offset in `before` of the elements' checksum.
        store: the tensor, with offsets from the start of the piece.
    """

    before: bytes
    behind: bytes
    checksum: int
    store: Store


class AlikePieces(OpenFiles):
    """Reads pieces, and keeps some of their files open."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, list[_ParsedPiece]] = {}

    def read(self, path: Path, place: JsonPath, start: int, length: int) -> FileContent | Store:
        """Return the tensor of a piece, from a parsed piece with equal headers if there is one.

        Args:
            path: the path of the file.
            place: for errors.
            start: the start of the piece in the file.
            length: the length of the piece.

        Raises:
            ModelError: the piece is broken.
            OSError: the file cannot be read.
        """
        file, kinds = self.file(path), self._known.setdefault(length, [])
        headers_by_size = dict[tuple[int, int], tuple[bytes, bytes]]()
        for kind in kinds:
            key = len(kind.before), len(kind.behind)
            if key not in headers_by_size:
                headers_by_size[key] = read_at(file, start, key[0]), read_at(file, start + length - key[1], key[1])
            before, behind = headers_by_size[key]
            checksum_offset = kind.checksum
            is_alike = (
                before[:checksum_offset] == kind.before[:checksum_offset]
                and before[checksum_offset + 4 :] == kind.before[checksum_offset + 4 :]
            )
            if is_alike and _without_checksums(behind) == kind.behind:
                return replace(kind.store, path=path, offset=start + kind.store.offset)
        tensor = read_torch(path, place, start, length)
        if len(tensor.stores) == 1 and not tensor.refused and not tensor.other_objects and len(kinds) < MAX_ALIKE:
            (store,) = tensor.stores.values()
            kinds += _cacheable_piece(file, replace(store, offset=store.offset - start), start, length)
        return tensor


def _without_checksums(directory: bytes) -> bytes:
    """Return a zip file's directory with zeros as checksums; empty for other bytes."""
    output, offset = bytearray(directory), 0
    while directory[offset : offset + 4] == b"PK\1\2" and offset + _NAME <= len(directory):
        _, _, name, extra, comment = _RECORD.unpack_from(directory, offset)
        output[offset + _CHECKSUM : offset + _CHECKSUM + 4] = bytes(4)
        offset += _NAME + name + extra + comment
    return bytes(output) if offset else b""


def _cacheable_piece(file: BinaryIO, store: Store, start: int, length: int) -> Iterator[_ParsedPiece]:
    """Yield a piece for the cache, if it is a zip file with its pickle before the elements."""
    before = read_at(file, start, min(store.offset, MAX_HEADER))
    if before[:4] != b"PK\3\4" or store.offset > MAX_HEADER:
        return
    with zipfile.ZipFile(FileSection(file, start, length)) as archive:
        headers = {entry.filename: entry.header_offset for entry in archive.infolist()}
        size = length - archive.start_dir
    last = max(header_offset for header_offset in headers.values() if header_offset < store.offset)
    decides = [header_offset for name, header_offset in headers.items() if name.endswith(("/data.pkl", "/byteorder"))]
    # The entry of the elements is the last one before them.
    if max(decides) < last and size <= MAX_HEADER:
        behind = _without_checksums(read_at(file, start + length - size, size))
        yield _ParsedPiece(before, behind, last + _LOCAL_CHECKSUM, store)
