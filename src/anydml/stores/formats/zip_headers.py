"""Headers of zip files whose entries are not compressed, before their elements are known."""

from __future__ import annotations

import struct

FOUR_GIB = (1 << 32) - 1
"""The number that zip files have in place of sizes and offsets that need more than 32 bits."""

MAX_SHORT = (1 << 16) - 1
"""Likewise, of counts that need more than 16 bits."""

CHECKSUM_OF_ENTRY = 14
"""Offset of the CRC-32 in the first header of `entry_header`."""

CHECKSUM_OF_DIRECTORY = 16
"""Offset of the CRC-32 in the second header of `entry_header`."""


def entry_header(name: str, size: int, checksum: int, offset: int | None = None, padding: int = 0) -> bytes:
    """Return the header before an entry of a zip file, or, with the offset of that, the entry of the directory.

    Args:
        name: the name of the entry.
        size: the size of its content, in bytes.
        checksum: CRC-32 of the content.
        offset: the offset of the header before it.
        padding: 0, or bytes that the header is longer, 4 or more.
    """
    path = name.encode()
    wide = [size, size] if size >= FOUR_GIB else []
    wide += [offset] if offset is not None and offset >= FOUR_GIB else []
    extra = struct.pack(f"<2H{len(wide)}Q", 1, 8 * len(wide), *wide) if wide else b""
    extra += struct.pack("<2sH", b"FB", padding - 4) + b"Z" * (padding - 4) if padding else b""
    size_field = min(size, FOUR_GIB)
    is_utf_8 = 0 if name.isascii() else 1 << 11
    fields = struct.pack("<5H3L2H", 45, is_utf_8, 0, 0, 33, checksum, size_field, size_field, len(path), len(extra))
    if offset is None:
        return b"PK\3\4" + fields + path + extra
    location = struct.pack("<3H2L", 0, 0, 0, 0, min(offset, FOUR_GIB))
    return b"PK\1\2" + struct.pack("<H", 45) + fields + location + path + extra


def directory_end(count: int, length: int, start: int) -> bytes:
    """Return the contents of the record at a zip directory's end: the directory's entries, bytes and start."""
    short = min(count, MAX_SHORT)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, short, short, length, min(start, FOUR_GIB), 0)
    if start >= FOUR_GIB or count >= MAX_SHORT:
        wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, length, start)
        end = wide + struct.pack("<4sLQL", b"PK\6\7", 0, start + length, 1) + end
    return end
