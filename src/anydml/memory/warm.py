"""Memory for large new results that was used before: the first touch of fresh pages costs more than most moves.

An array over such a block has a lease as its base. Views, tensors and DLPack capsules keep the array alive, and so the
lease; when that dies, the block goes to the cache, and the next result of about its size takes it from there.

Nothing here waits, locks or counts: a lease may die in any thread, in a garbage collection, in a signal handler. Each
change of the cache is one step of a `deque`, so a block is in one place at any time, whatever comes between two steps.
A fork leaves the child with blocks of its own: they are private to a process.
"""

from __future__ import annotations

import _thread
import ctypes
import mmap
import operator
import os
import sys
import time
from collections import deque
from collections.abc import Callable
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

NEVER = float(1 << 62)
"""A time after all others; its negative is before all others."""


class _Block:
    """Pages of this process."""

    __slots__ = ("address", "pages", "size")

    def __init__(self, size: int) -> None:
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        self.pages = mmap.mmap(-1, size, **private)
        if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            self.pages.madvise(mmap.MADV_HUGEPAGE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.pages))
        self.size = size


class _Lease(ctypes.c_char * sys.maxsize):  # type: ignore[misc]  # ctypes makes the base
    """The memory of a block while an array uses it."""

    __slots__ = ("block", "cache")

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if not is_finalizing():
            self.cache.give_back(self.block)


class BlockCache:
    """Blocks that wait to be used again.

    Args:
        limit: bytes that they take at most; by default a part of the memory. With 0, results are NumPy's own.
        idle: seconds that each of them waits at most, about.
    """

    def __init__(self, limit: int | None = None, idle: float = IDLE) -> None:
        self._limit = limit
        self._idle = idle
        self._waiting: dict[int, deque[tuple[float, _Block]]] = {}
        self._looked = -NEVER

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
        return sum([size * len(self._waiting[size]) for size in [*self._waiting]])

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> np.ndarray[Any, Any]:
        """A new packed array, over a block if it is large.

        Args:
            shape: its sizes.
            dtype: of its elements.
            size: its bytes.

        Raises:
            MemoryError: the system has no more.
        """
        if size < LEAST or dtype.hasobject or dtype.kind == "T" or not self.limit:
            return np.empty(shape, dtype)
        whole = _rounded(size)
        try:
            _, block = self._waiting[whole].pop()
        except (KeyError, IndexError):
            try:
                block = _Block(whole)
            except OSError:
                # Whatever the system lacks, NumPy knows other ways, and the error for there being none.
                self.empty()
                return np.empty(shape, dtype)
        lease = _Lease.from_address(block.address)
        lease.block, lease.cache = block, self
        return np.ndarray(shape, dtype, lease)

    def give_back(self, block: _Block) -> None:
        """Let a block wait for its next use, or go, if too many wait."""
        if block.size > self.limit:
            return
        now = time.monotonic()
        self._waiting.setdefault(block.size, deque()).append((now, block))
        self._trim(self.limit)
        if now - self._looked > 3 * LOOK:
            self._looked = now
            try:
                _thread.start_new_thread(self._watch, ())
            except RuntimeError:
                # There are no more threads, or the interpreter is about to end.
                return

    def resize(self, limit: int) -> None:
        """Let blocks that wait take so many bytes at most, from now on."""
        self._limit = limit
        self._trim(limit)

    def empty(self) -> None:
        """Give all blocks that wait back to the system."""
        self._trim(0)

    def forget(self) -> None:
        """Start anew in a process that was forked, in which nobody looks at blocks that wait."""
        self._looked = -NEVER

    def _trim(self, limit: int) -> None:
        """Give blocks back until the rest takes no more than this, those first that have waited longest."""
        while self.bytes > limit:
            self._drop(min([*self._waiting], key=lambda size: _waits_since(self._waiting[size])))

    def _drop(self, size: int) -> None:
        try:
            self._waiting[size].popleft()
        except (KeyError, IndexError):
            # Another thread has taken it.
            return

    def _watch(self) -> None:
        """Give blocks back that have waited long, until there are none."""
        while self.bytes:
            self._looked = time.monotonic()
            time.sleep(min(LOOK, self._idle))
            for size in [*self._waiting]:
                while _waits_since(self._waiting[size]) < time.monotonic() - self._idle:
                    self._drop(size)
        self._looked = -NEVER


def _waits_since(blocks: deque[tuple[float, _Block]]) -> float:
    try:
        return blocks[0][0]
    except IndexError:
        return NEVER


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
