"""Buffers that the threads of a plan share, so that they are allocated once."""

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
        """A buffer of `size` bytes for the caller alone, until the block ends; its content is arbitrary."""
        buffer = self._free.pop() if self._free else None
        if buffer is None or buffer.size < size:
            # Drop the smaller one, so that there are no more buffers than were in use at once.
            buffer = None
            buffer = np.frombuffer(mmap.mmap(-1, max(1, size)), np.uint8)
        try:
            yield buffer[:size]
        finally:
            self._free.append(buffer)
