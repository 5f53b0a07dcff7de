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

from anydml.files.location import Location
from anydml.stores.formats.npz import FileSection
from anydml.stores.formats.open_files import OpenFiles, read_at
from anydml.stores.formats.store import FileContent, Store
from anydml.stores.formats.torch_save import read_torch

MAX_HEADER = 1 << 16
"""Maximum bytes of the header and of the directory of a piece that are compared."""

MAX_CACHED_HEADERS = 64
"""Maximum number of kinds of headers that are cached for pieces of one length."""

_RECORD = struct.Struct("<4s12xI8x3H")
"""The head of a record of the directory: its signature, the checksum, and lengths of the name and two fields."""

_NAME = 46
"""Offset of the name in a record, in bytes."""

_CHECKSUM = 16
"""Offset of the checksum in a record, in bytes."""

_LOCAL_CHECKSUM = 14
"""Offset in bytes of the checksum in the header before an entry."""


class _ParsedPiece(NamedTuple):
    """A parsed piece.

    Attributes:
        header: the bytes before its elements, without their checksum.
        directory: the directory after the elements, without checksums.
        checksum: the offset in `header` of the elements' checksum.
        store: the tensor, with offsets from the start of the piece.
    """

    header: bytes
    directory: bytes
    checksum: int
    store: Store


class PieceReader(OpenFiles):
    """Reads pieces; files stay open, and headers that equal earlier ones are not parsed again."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, list[_ParsedPiece]] = {}

    def read(self, path: Path, location: Location, start: int, length: int) -> FileContent | Store:
        """Return the tensor of a piece; a cached piece with equal headers saves parsing.

        Args:
            path: the path of the file.
            location: the location that errors name.
            start: the start of the piece in the file.
            length: the length of the piece.

        Raises:
            ModelError: the piece is broken.
            OSError: the file cannot be read.
        """
        file, kinds = self.file(path), self._known.setdefault(length, [])
        headers_by_size = dict[tuple[int, int], tuple[bytes, bytes]]()
        for kind in kinds:
            key = len(kind.header), len(kind.directory)
            if key not in headers_by_size:
                headers_by_size[key] = read_at(file, start, key[0]), read_at(file, start + length - key[1], key[1])
            header, directory = headers_by_size[key]
            checksum_offset = kind.checksum
            has_equal_headers = (
                header[:checksum_offset] == kind.header[:checksum_offset]
                and header[checksum_offset + 4 :] == kind.header[checksum_offset + 4 :]
            )
            if has_equal_headers and _without_checksums(directory) == kind.directory:
                return replace(kind.store, path=path, offset=start + kind.store.offset)
        tensor = read_torch(path, location, start, length)
        if (
            len(tensor.stores) == 1
            and not tensor.refused
            and not tensor.other_objects
            and len(kinds) < MAX_CACHED_HEADERS
        ):
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
    header = read_at(file, start, min(store.offset, MAX_HEADER))
    if header[:4] != b"PK\3\4" or store.offset > MAX_HEADER:
        return
    with zipfile.ZipFile(FileSection(file, start, length)) as archive:
        headers = {entry.filename: entry.header_offset for entry in archive.infolist()}
        size = length - archive.start_dir
    last = max(header_offset for header_offset in headers.values() if header_offset < store.offset)
    decides = [header_offset for name, header_offset in headers.items() if name.endswith(("/data.pkl", "/byteorder"))]
    # The entry of the elements is the last entry before the elements.
    if max(decides) < last and size <= MAX_HEADER:
        directory = _without_checksums(read_at(file, start + length - size, size))
        yield _ParsedPiece(header, directory, last + _LOCAL_CHECKSUM, store)
