"""How much is written at once, and write-back that begins then, so that the disk works while blocks are moved."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

AT_ONCE = 512 << 10
"""Bytes of a write at most: Linux takes memory for them in pieces as large as a write, and large ones cost more."""

LONG = 256 << 10
"""Bytes of a write from which its write-back begins at once; pages that others write to as well would go twice."""

WRITE = 2
"""SYNC_FILE_RANGE_WRITE: begin, and wait for nothing."""


def begin_write_back(descriptor: int, at: int, size: int) -> None:
    """Let what was just written go to the disk, if that is long and the system can.

    Nothing is waited for, and nothing is promised: `os.fsync` says what is on the disk, and what went wrong.

    Args:
        descriptor: of the file.
        at: its first byte that was written.
        size: how many were.
    """
    if size >= LONG and (call := _call()) is not None:
        call(descriptor, at, size, WRITE)


@cache
def _call() -> Callable[[int, int, int, int], int] | None:
    """Linux's sync_file_range."""
    if sys.platform != "linux":
        return None
    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return found
