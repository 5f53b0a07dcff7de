"""Buffers that the threads of a plan share, so that they are allocated once."""

from __future__ import annotations

import mmap
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import numpy as np

from anydml.stores.formats.store import Array


class Buffers:
    """Buffers in separate pages; the allocator keeps none of their memory.

    Args:
        max_lent: the maximum number that is lent at once; further threads wait, and must not hold a buffer meanwhile.
    """

    def __init__(self, max_lent: int) -> None:
        self._free: list[Array] = []
        self._unlent = threading.Semaphore(max_lent)

    @contextmanager
    def lent(self, size: int) -> Iterator[Array]:
        """Lend a buffer of `size` bytes with arbitrary content until the end of the context."""
        with self._unlent:
            yield from self._lend(size)

    def _lend(self, size: int) -> Iterator[Array]:
        buffer = self._free.pop() if self._free else None
        if buffer is None or buffer.size < size:
            # Drop the smaller one, so that there are no more buffers than were in use at once.
            buffer = None
            buffer = np.frombuffer(_pages(max(1, size)), np.uint8)
        try:
            yield buffer[:size]
        finally:
            self._free.append(buffer)


def _pages(size: int) -> mmap.mmap:
    """Return new pages, huge ones if the system has them; private, since shared pages cost more on first use."""
    if sys.platform != "linux":
        return mmap.mmap(-1, size)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Some kernels have no huge pages.
    with suppress(OSError):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return pages
