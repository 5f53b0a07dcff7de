"""Memory for large new results that was used before: the first touch of fresh pages costs more than most moves.

An array over such a block has a lease as its base, or a capsule where compiled code makes it. Views, tensors and DLPack
capsules keep the array alive, and so the lease; when that dies, the block goes to the cache, and the next result of
about its size takes it from there.

Nothing here waits or locks: a lease may die in any thread, in a garbage collection, in a signal handler. Each change
of the cache is one step of a `deque`, so a block is in one place at any time, whatever comes between two steps.
A fork leaves the child with blocks of its own: they are private to a process.
"""

from __future__ import annotations

import _thread
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

from anydml.memory.blocks import NEVER, Shelf
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

ROOM, TURN = range(2)
"""Numbers of the cache's counts (see `BlockCache`)."""

Maker = Callable[[], np.ndarray[Any, Any]]

empty = np.empty


class BlockCache:
    """Blocks that wait to be used again.

    Args:
        limit: bytes that they take at most; by default a part of the memory. With 0, results are NumPy's own.
        idle: seconds that each of them waits at most, about.

    Attributes:
        words: two counts. ROOM: bytes that further blocks may take until somebody has to look; below 0 where nobody
            looks from time to time. TURN: how many blocks have come to wait. Changes at the same time may be lost:
            whoever looks counts anew.
        counts: the same words, for Python.
        hasten: what makes arrays of one kind faster than Python does, once there is compiled code for that: given what
            makes them in Python, their shape and dtype, and the shelf of large ones, else None.
    """

    def __init__(self, limit: int | None = None, idle: float = IDLE) -> None:
        self._limit = limit
        self._idle = idle
        self._shelves: dict[int, Shelf] = {}
        self._is_watched = False
        self.words = np.zeros(2, np.int64)
        self.counts = self.words.data
        self.counts[ROOM] = -NEVER
        self.hasten: Callable[[Maker, tuple[int, ...], np.dtype[Any], Shelf | None], Maker] | None = None

    def turn(self) -> int:
        """A larger number than the one before."""
        number: int = self.counts[1] + 1
        self.counts[1] = number
        return number

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

    def maker(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Maker:
        """What makes such arrays again and again."""
        size = math.prod(shape) * dtype.itemsize
        is_small = size < LEAST or dtype.hasobject or dtype.kind == "T"
        shelf = None if is_small else self._shelf(size)
        make = partial(empty, shape, dtype) if shelf is None else partial(shelf.array, shape, dtype)
        return make if self.hasten is None else self.hasten(make, shape, dtype, shelf)

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
        self.counts[ROOM] = -NEVER

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
        self.counts[ROOM] = self.limit - self.bytes if self._is_watched else -NEVER

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
    try:
        number = operator.index(size)
    except TypeError:
        raise TypeError(f"set_cache_limit: {size!r} is no number of bytes, such as 64 << 20") from None
    if number < 0:
        raise ValueError(f"set_cache_limit: {number} bytes; 0 keeps none, and there are no fewer")
    CACHE.resize(number)
