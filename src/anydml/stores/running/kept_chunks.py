"""Decoded chunks in a file without a name, which lie there as later boxes need them."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import numpy as np

from anydml.stores.formats.chunk_grid import Box, ChunkGrid
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.block_shapes import common_box, inside_box, parts
from anydml.stores.running.files import PlainFile
from anydml.stores.running.plain_arrays import as_bytes

LOCKS = 64
"""Maximum number of chunks that are decoded at once, each by one thread."""


class KeptChunks:
    """Decoded chunks of an array.

    The file has room for every box, one after the other, and in it for what each chunk has of it, in the order of the
    chunks: so what a box needs is read from end to end. A chunk is decoded for the first box that needs it, and its
    parts of all later ones are written.

    Args:
        folder: in which the file is made.
        layout: of the array.
        boxes: that are read: first coordinates and those after the last, of shape (boxes, axes, 2).
        blocks: the number of the block that needs each, in order.

    Attributes:
        file: the file.
    """

    def __init__(self, folder: Path, layout: ChunkGrid, boxes: Numbers, blocks: Numbers) -> None:
        self._layout, self._boxes, self._blocks = layout, boxes, blocks
        sizes = (boxes[:, :, 1] - boxes[:, :, 0]).prod(1) * layout.dtype.itemsize
        self._starts = np.cumsum(sizes) - sizes
        self._held = tempfile.TemporaryFile(prefix=".anydml-", dir=folder)  # noqa: SIM115  # closed by `close`
        self.file = PlainFile(folder, True, False, self._held.fileno())
        self._after: dict[tuple[int, ...], int] = {}
        self._locks = [threading.Lock() for _ in range(LOCKS)]

    def close(self) -> None:
        """Delete the file."""
        self._held.close()

    def first(self, block: int) -> int:
        """The number of the first box that a block needs."""
        return int(np.searchsorted(self._blocks, block))

    def lock(self, chunk: tuple[int, ...]) -> threading.Lock:
        """The lock of a chunk, for decoding and keeping it."""
        return self._locks[hash(chunk) % LOCKS]

    def has(self, number: int, chunk: tuple[int, ...]) -> bool:
        """Whether the part of a box that is in a chunk was written."""
        return number > self._after.get(chunk, len(self._boxes))

    def place(self, number: int, chunk: tuple[int, ...]) -> int:
        """The offset of the part of a box that is in a chunk."""
        box = self._box(number)
        at, extent, rest = 0, 1, [1]
        for low, high in reversed(box[1:]):
            rest.append(rest[-1] * (high - low))
        common = common_box(box, self._layout.box(chunk))
        for (low, high), (first, _), behind in zip(common, box, reversed(rest), strict=False):
            at += extent * (low - first) * behind
            extent *= high - low
        return int(self._starts[number]) + at * self._layout.dtype.itemsize

    def keep(self, number: int, chunk: tuple[int, ...], whole: Array, max_bytes: int) -> None:
        """Write the parts of a chunk that boxes after one need.

        Args:
            number: of the box for which the chunk was decoded.
            chunk: its number along each axis.
            whole: its elements.
            max_bytes: of a write.
        """
        chunk_box, last = self._layout.box(chunk), self._after.get(chunk, len(self._boxes) - 1)
        lows, highs = np.array(chunk_box, np.int64).reshape(-1, 2).T
        later = self._boxes[number + 1 : last + 1]
        for k in np.flatnonzero(((later[:, :, 0] < highs) & (later[:, :, 1] > lows)).all(1)).tolist():
            at = self.place(number + 1 + k, chunk)
            for part in parts(common_box(self._box(number + 1 + k), chunk_box), whole.itemsize, max_bytes):
                piece = np.ascontiguousarray(whole[inside_box(part, chunk_box)])
                self.file.write(as_bytes(piece), at)
                at += piece.nbytes
        self._after[chunk] = min(number, last)

    def _box(self, number: int) -> Box:
        return tuple((low, high) for low, high in self._boxes[number].tolist())
