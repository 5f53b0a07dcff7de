"""Memory for large new results that was used before: the first touch of fresh pages costs more than most moves.

An array over such a block has a lease as its base. Views, tensors and DLPack capsules keep the array alive, and so the
lease; when that dies, the block goes to the cache, and the next result of about its size takes it from there.

Nothing here waits or locks: a lease may die in any thread, in a garbage collection, in a signal handler. Each change
of the cache is one step of a `deque`, so a block is in one place at any time, whatever comes between two steps.
A fork leaves the child with blocks of its own: they are private to a process.
"""

from __future__ import annotations

import _thread
import ctypes
import itertools
import math
import mmap
import operator
import os
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from anydml.memory.host import HUGE
from anydml.memory.limits import whole_memory

LEAST = 256 << 10
"""Bytes of the smallest result that is worth it."""

STEPS = 8
"""Sizes of blocks from one power of two to the next: less than an eighth of a block is not used."""

SHARE = 16
"""Blocks that wait to be used take at most this part of the memory, where nobody says how much."""

IDLE, LOOK = 5.0, 1.0
"""Seconds that a block waits before it is given back to the system, and between two looks at those that wait."""

MEMORY = 8 << 30
"""Bytes of memory where the system does not say."""

NEVER = 1 << 62
"""A turn after all others."""


class _Block:
    """Pages of this process."""

    __slots__ = ("address", "pages", "shelf", "since")

    def __init__(self, size: int, shelf: Shelf) -> None:
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        self.pages = mmap.mmap(-1, size, **private)
        if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            self.pages.madvise(mmap.MADV_HUGEPAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.shelf = shelf
        self.since = 0


class _Lease(ctypes.c_char * sys.maxsize):  # type: ignore[misc]  # ctypes makes the base
    """The memory of a block while an array uses it."""

    __slots__ = ("block",)

    def __del__(self) -> None:
        # Nothing here is looked for in a module, which may be gone when the interpreter ends.
        block = self.block
        shelf = block.shelf
        cache = shelf.cache
        block.since = cache.turn()
        shelf.waiting.append(block)
        cache.room -= shelf.size
        if cache.room < 0:
            cache.tend()


class Shelf:
    """Blocks of one size that wait, those that wait longest first.

    Args:
        cache: whose they are.
        size: bytes of each.
    """

    __slots__ = ("cache", "size", "waiting")

    def __init__(self, cache: BlockCache, size: int) -> None:
        self.cache = cache
        self.size = size
        self.waiting: deque[_Block] = deque()

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """A new packed array of at most so many bytes: over the block that came last, whose bytes may be near yet."""
        try:
            block = self.waiting.pop()
        except IndexError:
            size = self.size
            if size > self.cache.limit:
                return empty(shape, dtype)
            try:
                block = _Block(size, self)
            except OSError:
                # Whatever the system lacks, NumPy knows other ways, and the error for there being none.
                self.cache.empty()
                return empty(shape, dtype)
        else:
            self.cache.room += self.size
        lease = lease_at(block.address)
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
            return self.waiting[0].since
        except IndexError:
            return NEVER


empty, ndarray, lease_at = np.empty, np.ndarray, _Lease.from_address


class BlockCache:
    """Blocks that wait to be used again.

    Args:
        limit: bytes that they take at most; by default a part of the memory. With 0, results are NumPy's own.
        idle: seconds that each of them waits at most, about.

    Attributes:
        room: bytes that further blocks may take until somebody has to look; below 0 where nobody looks from time to
            time. Changes at the same time may be lost: whoever looks counts anew.
        turn: gives larger numbers from call to call.
    """

    def __init__(self, limit: int | None = None, idle: float = IDLE) -> None:
        self._limit = limit
        self._idle = idle
        self._shelves: dict[int, Shelf] = {}
        self._is_watched = False
        self.room = -NEVER
        self.turn = itertools.count(1).__next__

    @property
    def limit(self) -> int:
        """Bytes that waiting blocks take at most."""
        if self._limit is None:
            self._limit = (whole_memory() or MEMORY) // SHARE
        return self._limit

    @property
    def bytes(self) -> int:
        """Bytes that blocks which wait take."""
        # A list of numbers: while it is made, no collection can add to what it is made from.
        return sum([shelf.size * len(shelf.waiting) for shelf in [*self._shelves.values()]])

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> np.ndarray[Any, Any]:
        """A new packed array, over a block if it is large.

        Args:
            shape: its sizes.
            dtype: of its elements.
            size: its bytes.

        Raises:
            MemoryError: the system has no more.
        """
        if size < LEAST or dtype.hasobject or dtype.kind == "T":
            return empty(shape, dtype)
        return self._shelf(size).array(shape, dtype)

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[], np.ndarray[Any, Any]]:
        """What makes such arrays again and again."""
        size = math.prod(shape) * dtype.itemsize
        if size < LEAST or dtype.hasobject or dtype.kind == "T":
            return partial(empty, shape, dtype)
        return partial(self._shelf(size).array, shape, dtype)

    def resize(self, limit: int) -> None:
        """Let blocks that wait take so many bytes at most, from now on."""
        self._limit = limit
        self.tend()

    def empty(self) -> None:
        """Give all blocks that wait back to the system."""
        self._trim(0)

    def forget(self) -> None:
        """Start anew in a process that was forked, in which nobody looks at blocks that wait."""
        self._is_watched = False
        self.room = -NEVER

    def tend(self) -> None:
        """Keep to the limit, and see that somebody looks at what waits."""
        if sys.is_finalizing():
            return
        self._trim(self.limit)
        if not self._is_watched and self.bytes:
            self._is_watched = True
            try:
                _thread.start_new_thread(self._watch, ())
            except RuntimeError:
                # There are no more threads, or the interpreter is about to end.
                self._is_watched = False
                return
        self._count()

    def _shelf(self, size: int) -> Shelf:
        whole = _rounded(size)
        try:
            return self._shelves[whole]
        except KeyError:
            return self._shelves.setdefault(whole, Shelf(self, whole))

    def _count(self) -> None:
        self.room = self.limit - self.bytes if self._is_watched else -NEVER

    def _trim(self, limit: int) -> None:
        """Give blocks back until the rest takes no more than this, those first that have waited longest."""
        while self.bytes > limit:
            shelves = [*self._shelves.values()]
            too_large = [shelf for shelf in shelves if shelf.size > limit and shelf.waiting]
            min(too_large or shelves, key=Shelf.waits_since).drop()

    def _watch(self) -> None:
        """Give blocks back that have waited long, until there are none."""
        looks: deque[tuple[float, int]] = deque()
        while self._is_watched:
            looks.append((time.monotonic(), self.turn()))
            time.sleep(min(LOOK, self._idle))
            while looks and looks[0][0] <= time.monotonic() - self._idle:
                _, before = looks.popleft()
                for shelf in [*self._shelves.values()]:
                    while shelf.waits_since() < before:
                        shelf.drop()
            self._trim(self.limit)
            # Whatever comes to wait after the first line is seen by the second, or asks for somebody who looks.
            self._is_watched = bool(self.bytes)
            self._count()
            self._is_watched = self._is_watched or bool(self.bytes)


def _rounded(size: int) -> int:
    """The bytes of a block for a result of this size."""
    step = max(1 << (size - 1).bit_length() - 4, mmap.ALLOCATIONGRANULARITY)
    return -(-size // step) * step


CACHE = BlockCache()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CACHE.forget)


def empty_cache() -> None:
    """Give memory that waits for new results back to the system; results that are in use keep theirs.

    Examples:
        >>> dml.empty_cache()
    """
    CACHE.empty()


def set_cache_limit(size: int) -> None:
    """Let memory that waits for new results take so many bytes at most.

    New results of 256 KiB and more, in host memory, take the memory of results that are no longer used. What waits
    longer than some seconds is given back to the system.

    Args:
        size: bytes, at least 0; 0 turns this off. The default is a sixteenth of the memory.

    Raises:
        TypeError: it is no integer.
        ValueError: it is below 0.

    Examples:
        >>> dml.set_cache_limit(64 << 20)
    """
    number = operator.index(size)
    if number < 0:
        raise ValueError(f"set_cache_limit: {number} bytes; 0 keeps none, and there are no fewer")
    CACHE.resize(number)
