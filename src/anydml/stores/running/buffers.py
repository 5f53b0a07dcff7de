"""Buffers that the threads of a plan lend each other, so that each is made once."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from anydml.stores.formats.store import Array


class Buffers:
    """Buffers in pages of their own: they go past the page cache, and leave nothing to the allocator."""

    def __init__(self) -> None:
        self._free: list[Array] = []

    @contextmanager
    def lent(self, size: int) -> Iterator[Array]:
        """A buffer of some bytes, which nobody else has meanwhile; it has whatever was in it."""
        buffer = self._free.pop() if self._free else None
        if buffer is None or buffer.size < size:
            # The smaller one is no more, so that there are as many as were lent at once.
            buffer = None
            buffer = np.frombuffer(mmap.mmap(-1, max(1, size)), np.uint8)
        try:
            yield buffer[:size]
        finally:
            self._free.append(buffer)
