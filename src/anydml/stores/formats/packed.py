"""Compressed entries of zip files, read from any offset on without unpacking all of the entry.

Deflated bytes are decoded in sequence. The decoder is copied at intervals, and reading resumes at the nearest copy.
"""

from __future__ import annotations

import threading
import zlib
from bisect import bisect
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from anydml.files.location import Location

STEP = 1 << 20
"""Maximum numbers of bytes that are read, and that are decoded, at once."""

APART = 16 << 20
"""Decoded bytes between two copies of a decoder, each of which takes about 50 kB."""

Read = Callable[[memoryview, int], object]
"""Fills a view with the bytes of a file from an offset on."""


class _Point(NamedTuple):
    """A decoder, the numbers of encoded and of decoded bytes so far, and the CRC-32 of the decoded ones."""

    decoder: Any
    bytes_read: int
    decoded: int
    checksum: int


class DeflatedEntry:
    """A deflated entry.

    Args:
        path: the path of the zip file.
        name: the name of the entry.
        offset: the offset of its first byte in the file.
        size: the bytes of the entry in the file.
        length: the length of its content.
        checksum: CRC-32 of its content.
    """

    def __init__(self, path: Path, name: str, offset: int, size: int, length: int, checksum: int) -> None:
        self._said = path, name, offset, size, length, checksum
        self._location = Location(str(path)) / name
        self._offset, self._size, self._length, self._checksum = offset, size, length, checksum
        self._lock = threading.Lock()
        self._points = [_Point(zlib.decompressobj(-zlib.MAX_WBITS), 0, 0, 0)]
        self._now, self._data = self._copy(0), b""

    def __reduce__(self) -> tuple[Any, ...]:
        return DeflatedEntry, self._said

    def fill(self, view: memoryview, offset: int, read: Read) -> None:
        """Fill a view with the content from an offset on.

        Args:
            view: the view to fill.
            offset: the offset in the content.
            read: reads the zip file.

        Raises:
            ModelError: the entry is broken.
        """
        with self._lock:
            nearest = bisect(self._points, offset, key=lambda point: point.decoded) - 1
            if not self._points[nearest].decoded <= self._now.decoded - len(self._data) <= offset:
                self._now, self._data = self._copy(nearest), b""
            self._fill_from_here(view, offset, read)

    def _fill_from_here(self, view: memoryview, offset: int, read: Read) -> None:
        position = 0
        while position < len(view):
            first = offset + position - (self._now.decoded - len(self._data))
            part = self._data[first : first + len(view) - position]
            view[position : position + len(part)] = part
            position += len(part)
            if position < len(view):
                self._decode(read)

    def _copy(self, number: int) -> _Point:
        point = self._points[number]
        return point._replace(decoder=point.decoder.copy())

    def _decode(self, read: Read) -> None:
        """Decode the next bytes."""
        decoder, consumed, decoded, checksum = self._now
        waiting = decoder.unconsumed_tail
        if not waiting:
            waiting = bytearray(min(STEP, self._size - consumed))
            read(memoryview(waiting), self._offset + consumed)
            consumed += len(waiting)
        try:
            self._data = decoder.decompress(waiting, STEP)
        except zlib.error as error:
            raise self._location.error(f"cannot be unpacked: {error}") from None
        decoded, checksum = decoded + len(self._data), zlib.crc32(self._data, checksum)
        is_over = decoder.eof or not (waiting or self._data)
        if decoded > self._length or (is_over and decoded < self._length):
            raise self._location.error(f"has not the {self._length} bytes of its declared unpacked size")
        if decoded == self._length and checksum != self._checksum:
            raise self._location.error("is broken: its CRC-32 is not the one that the file says")
        self._now = _Point(decoder, consumed, decoded, checksum)
        if decoded >= self._points[-1].decoded + APART:
            self._points.append(self._now._replace(decoder=decoder.copy()))
