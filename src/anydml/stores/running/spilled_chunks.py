"""Decoded chunks in a temporary file, in the order in which later boxes read them."""

from __future__ import annotations

import bisect
import heapq
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from anydml.stores.formats.chunk_grid import Box, ChunkGrid
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.block_shapes import common_box, inside_box
from anydml.stores.running.files import PlainFile
from anydml.stores.running.plain_arrays import as_bytes
from anydml.stores.running.scattered_io import MAX_RUNS_AT_ONCE

LOCK_COUNT = 64
"""Maximum number of chunks that are decoded at once, each by one thread."""

WRITE = 8 << 20
"""Bytes of a box that wait before the longest part of them is written."""

BYTES_PER_PIECE = 256
"""Memory of a piece that waits to be written, besides its elements."""


class SpilledChunks:
    """Decoded chunks of an array.

    Every box has an interval of the file until it is read. It holds the box's pieces, one per chunk, in the order of
    the chunks, so that a box is read from end to end. A chunk is decoded for the first box that needs it; its pieces
    for later boxes wait until they can be written together with their neighbours in the file.

    Args:
        folder: the folder of the file.
        grid: the chunks of the array.
        boxes: the boxes to read: first coordinates and those after the last, of shape (boxes, axes, 2).
        blocks: the number of the block that needs each, in order.
        memory: bytes of the pieces that wait.

    Attributes:
        file: the file.
    """

    def __init__(self, folder: Path, grid: ChunkGrid, boxes: Numbers, blocks: Numbers, memory: int) -> None:
        self._grid, self._boxes, self._blocks, self._memory = grid, boxes, blocks, memory
        self._places = Places((boxes[:, :, 1] - boxes[:, :, 0]).prod(1) * grid.dtype.itemsize)
        self._held = tempfile.TemporaryFile(prefix=".anydml-", dir=folder)  # noqa: SIM115  # closed by `close`
        self.file = PlainFile(folder, True, False, self._held.fileno())
        self._after: dict[tuple[int, ...], int] = {}
        self._locks = [threading.Lock() for _ in range(LOCK_COUNT)]
        self._is_read = np.zeros(len(boxes), bool)
        self._pieces: dict[int, Pieces] = {}
        self._waiting = 0
        self._lock = threading.Lock()

    def close(self) -> None:
        """Delete the file."""
        self._held.close()

    def boxes_of(self, block: int) -> range:
        """Return the numbers of the boxes that a block needs."""
        return range(*(int(end) for end in np.searchsorted(self._blocks, (block, block + 1))))

    def lock(self, chunk: tuple[int, ...]) -> threading.Lock:
        """Return the lock that is held while a chunk is decoded and kept."""
        return self._locks[hash(chunk) % LOCK_COUNT]

    def is_spilled(self, box_number: int, chunk: tuple[int, ...]) -> bool:
        """Whether the part of a box that is in a chunk is kept."""
        return box_number > self._after.get(chunk, len(self._boxes))

    def offset_of(self, box_number: int, chunk: tuple[int, ...]) -> int:
        """Return the offset in a box, in bytes, of the box's part that is in a chunk."""
        box = self._box(box_number)
        offset, extent, inner_sizes = 0, 1, [1]
        for low, high in reversed(box[1:]):
            inner_sizes.append(inner_sizes[-1] * (high - low))
        common = common_box(box, self._grid.box(chunk))
        for (low, high), (first, _), behind in zip(common, box, reversed(inner_sizes), strict=False):
            offset += extent * (low - first) * behind
            extent *= high - low
        return offset * self._grid.dtype.itemsize

    def spill(self, box_number: int, chunk: tuple[int, ...], elements: Array) -> None:
        """Keep the parts of a chunk that later boxes need.

        Args:
            box_number: the number of the box for which the chunk was decoded.
            chunk: the number of the chunk along each axis.
            elements: the elements of the chunk.
        """
        chunk_box, last = self._grid.box(chunk), self._after.get(chunk, len(self._boxes) - 1)
        lows, highs = np.array(chunk_box, np.int64).reshape(-1, 2).T
        later = self._boxes[box_number + 1 : last + 1]
        is_needed = ((later[:, :, 0] < highs) & (later[:, :, 1] > lows)).all(1) & ~self._is_read[
            box_number + 1 : last + 1
        ]
        for k in (np.flatnonzero(is_needed) + box_number + 1).tolist():
            inside = inside_box(common_box(self._box(k), chunk_box), chunk_box)
            # A view would hold the chunk.
            self._add(k, self.offset_of(k, chunk), np.array(elements[inside], order="C"))
        self._after[chunk] = min(box_number, last)

    def read(self, box_number: int, view: memoryview, offset: int) -> None:
        """Fill a view with kept bytes of a box, from an offset in the box on."""
        end, position = offset + len(view), offset
        with self._lock:
            start = self._places.start(box_number)
            pieces = [*self._pieces.get(box_number, ())]
        for piece_offset, piece in pieces:
            low, high = max(piece_offset, offset), min(piece_offset + piece.nbytes, end)
            if low < high:
                if position < low:
                    self.file.read(view[position - offset : low - offset], start + position)
                view[low - offset : high - offset] = as_bytes(piece)[low - piece_offset : high - piece_offset]
                position = high
        if position < end:
            self.file.read(view[position - offset :], start + position)

    def release(self, block: int) -> None:
        """Forget the boxes of a block that has been read."""
        with self._lock:
            for box_number in self.boxes_of(block):
                self._is_read[box_number] = True
                if (pieces := self._pieces.pop(box_number, None)) is not None:
                    self._waiting -= pieces.size
                self._places.release(box_number)

    def _add(self, box_number: int, offset: int, piece: Array) -> None:
        with self._lock:
            pieces = self._pieces.setdefault(box_number, Pieces())
            self._waiting += pieces.add(offset, piece)
            if pieces.size > WRITE:
                self._write_longest(box_number)
            self._write_until_waiting_pieces_fit()

    def _write_until_waiting_pieces_fit(self) -> None:
        while self._waiting > self._memory:
            self._write_longest(max(self._pieces, key=lambda box_number: self._pieces[box_number].size))

    def _write_longest(self, box_number: int) -> None:
        """Write the longest run of contiguous pieces of a box, by one request."""
        pieces = self._pieces[box_number]
        self._waiting -= pieces.size
        offset, longest = pieces.take_longest()
        self._waiting += pieces.size
        self.file.write_several([*map(as_bytes, longest)], self._places.start(box_number) + offset)

    def _box(self, box_number: int) -> Box:
        return tuple((low, high) for low, high in self._boxes[box_number].tolist())


class Pieces:
    """Pieces of a box that wait to be written, in runs of contiguous pieces.

    Attributes:
        size: bytes of memory for all pieces and their bookkeeping.
    """

    def __init__(self) -> None:
        self.size = 0
        self._runs: dict[int, tuple[int, list[Array]]] = {}
        self._starts: dict[int, int] = {}
        self._longest: list[tuple[int, int]] = []

    def __iter__(self) -> Iterator[tuple[int, Array]]:
        """Yield the offsets and the pieces, in order."""
        for start, (_, run) in sorted(self._runs.items()):
            offset = start
            for piece in run:
                yield offset, piece
                offset += piece.nbytes

    def add(self, offset: int, piece: Array) -> int:
        """Add a piece, and return the bytes of memory that it takes."""
        start, end = self._starts.pop(offset, offset), offset + piece.nbytes
        run = self._runs.pop(start, (offset, []))[1]
        run.append(piece)
        if end in self._runs:
            end, after = self._runs.pop(end)
            run += after
        self._set_run(start, end, run)
        size = piece.nbytes + BYTES_PER_PIECE
        self.size += size
        return size

    def _set_run(self, start: int, end: int, run: list[Array]) -> None:
        self._runs[start], self._starts[end] = (end, run), start
        heapq.heappush(self._longest, (start - end, start))

    def take_longest(self) -> tuple[int, list[Array]]:
        """Remove the longest run, or as much of it as one request writes; return the offset and the pieces."""
        while True:
            length, start = heapq.heappop(self._longest)
            # Other entries are outdated: the run has grown since, or is part of another run.
            if start in self._runs and start - self._runs[start][0] == length:
                break
        end, run = self._runs.pop(start)
        del self._starts[end]
        batch, remaining = run[:MAX_RUNS_AT_ONCE], run[MAX_RUNS_AT_ONCE:]
        taken_bytes = sum(piece.nbytes for piece in batch)
        if remaining:
            self._set_run(start + taken_bytes, end, remaining)
        self.size -= taken_bytes + BYTES_PER_PIECE * len(batch)
        return start, batch


class Places:
    """Places for boxes in a file: a box has a place from its first written byte until it is released.

    Args:
        sizes: sizes of the boxes, in bytes.
    """

    def __init__(self, sizes: Numbers) -> None:
        self._sizes, self._starts, self._end = sizes, dict[int, int](), 0
        self._free: list[tuple[int, int]] = []

    def start(self, box_number: int) -> int:
        """Return the offset of a box in the file."""
        if box_number not in self._starts:
            self._starts[box_number] = self._take(int(self._sizes[box_number]))
        return self._starts[box_number]

    def _take(self, size: int) -> int:
        for k, (low, high) in enumerate(self._free):
            if high - low >= size:
                self._free[k : k + 1] = [(low + size, high)] if high - low > size else []
                return low
        low = self._end
        if self._free and self._free[-1][1] == low:
            low = self._free.pop()[0]
        self._end = low + size
        return low

    def release(self, box_number: int) -> None:
        """Give the place of a box to others."""
        if (low := self._starts.pop(box_number, None)) is None:
            return
        high = low + int(self._sizes[box_number])
        k = bisect.bisect(self._free, (low, high))
        if k < len(self._free) and self._free[k][0] == high:
            high = self._free.pop(k)[1]
        if k and self._free[k - 1][1] == low:
            k, low = k - 1, self._free.pop(k - 1)[0]
        self._free.insert(k, (low, high))
