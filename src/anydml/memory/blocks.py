"""Blocks of pages, and shelves where those of one size wait for the next result (see `anydml.memory.warm`)."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections import deque
from typing import Any, Protocol

import numpy as np

from anydml.memory.host import HUGE

NEVER = 1 << 62
"""A turn after all others."""

ADDRESS, SINCE = range(2)
"""Numbers of a block's words: where its pages begin, and since when it waits, as a turn."""


class Cache(Protocol):
    """What shelves belong to (see `anydml.memory.warm.BlockCache`)."""

    words: np.ndarray[Any, Any]
    counts: memoryview

    @property
    def limit(self) -> int:
        """Bytes that waiting blocks take at most."""

    def turn(self) -> int:
        """A larger number than the one before."""

    def empty(self) -> None:
        """Give all blocks that wait back to the system."""

    def tend(self) -> None:
        """Keep to the limit, and see that somebody looks at what waits."""


class Block(np.ndarray[Any, Any]):
    """Pages of this process, described by words that compiled code reads and writes, too."""

    pages: mmap.mmap
    shelf: Shelf

    @classmethod
    def of(cls, size: int, shelf: Shelf) -> Block:
        """New ones."""
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        pages = mmap.mmap(-1, size, **private)
        if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            pages.madvise(mmap.MADV_HUGEPAGE)
        block = np.zeros(2, np.uint64).view(cls)
        block[ADDRESS] = ctypes.addressof(ctypes.c_char.from_buffer(pages))
        block.pages, block.shelf = pages, shelf
        return block


class _Lease(ctypes.c_char * sys.maxsize):  # type: ignore[misc]  # ctypes makes the base
    """The memory of a block while an array uses it."""

    __slots__ = ("block",)

    def __del__(self) -> None:
        # Nothing here is looked for in a module, which may be gone when the interpreter ends.
        block = self.block
        shelf = block.shelf
        cache = shelf.cache
        block[1] = cache.turn()
        shelf.waiting.append(block)
        counts = cache.counts
        counts[0] = room = counts[0] - shelf.size
        if room < 0:
            cache.tend()


class Shelf:
    """Blocks of one size that wait, those that wait longest first.

    Args:
        cache: whose they are.
        size: bytes of each.

    Attributes:
        waiting: those that wait.
        kept: what compiled code needs of it, whose capsules may live as long as its blocks: put there once.
    """

    __slots__ = ("cache", "kept", "size", "waiting")

    def __init__(self, cache: Cache, size: int) -> None:
        self.cache = cache
        self.size = size
        self.waiting: deque[Block] = deque()
        self.kept: dict[str, Any] = {}

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """A new packed array of at most so many bytes: over the block that came last, whose bytes may be near yet."""
        try:
            block = self.waiting.pop()
        except IndexError:
            size = self.size
            if size > self.cache.limit:
                return empty(shape, dtype)
            try:
                block = Block.of(size, self)
            except OSError:
                # Whatever the system lacks, NumPy knows other ways, and the error for there being none.
                self.cache.empty()
                return empty(shape, dtype)
        else:
            self.cache.counts[0] += self.size
        lease = lease_at(int(block[0]))
        lease.block = block
        return ndarray(shape, dtype, lease)

    def drop(self) -> None:
        """Give the block that waits longest back to the system."""
        try:
            self.waiting.popleft()
        except IndexError:
            # Another thread has taken it.
            return

    def waits_since(self) -> int:
        """The turn of the block that waits longest."""
        try:
            return int(self.waiting[0][SINCE])
        except IndexError:
            return NEVER


empty, ndarray, lease_at = np.empty, np.ndarray, _Lease.from_address
