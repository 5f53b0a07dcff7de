"""Unions of intervals: counts of the bytes and chunks that blocks read, each counted once."""

from __future__ import annotations

import math

import numpy as np

from anydml.stores.formats.chunk_grid import Box, ChunkGrid
from anydml.stores.formats.store import Numbers
from anydml.stores.planning.block_list import MAX_CHUNKS, MORE_MEMORY, check_count
from anydml.stores.planning.block_shapes import LOCAL_COST, Cost, requests, size_of

MIN_UNMERGED = 1 << 16
"""Minimum number of intervals that are collected before they are merged."""


def merge_intervals(starts: Numbers, ends: Numbers, gap: int = 0) -> tuple[Numbers, Numbers, Numbers]:
    """Return the union of intervals.

    Args:
        starts: the starts of the intervals, in any order.
        ends: the ends of the intervals.
        gap: distance up to which intervals become one.

    Returns:
        Starts and ends of the union, in order, and for each interval the number of the union's interval around it.
    """
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    np.maximum.accumulate(ends, out=ends)
    are_first = np.ones(starts.size, bool)
    are_first[1:] = starts[1:] > ends[:-1] + gap
    firsts = np.flatnonzero(are_first)
    number, within = np.cumsum(are_first), np.empty(starts.size, np.int64)
    number -= 1
    within[order] = number
    return starts[firsts], ends[np.append(firsts[1:], starts.size) - 1] if starts.size else ends, within


class IntervalUnion:
    """The union of all intervals that have been added."""

    def __init__(self) -> None:
        self._runs: list[tuple[Numbers, Numbers]] = []
        self._single_intervals: list[tuple[int, int]] = []
        self._unmerged, self._max_unmerged = 0, MIN_UNMERGED

    def add(self, starts: Numbers, lengths: Numbers) -> None:
        """Add intervals."""
        if starts.size == 1:
            first = starts.item()
            self._single_intervals.append((first, first + lengths.item()))
        else:
            self._runs.append((starts, starts + lengths))
        self._unmerged += starts.size
        if self._unmerged > self._max_unmerged:
            self._runs, self._single_intervals = [self._union()], []
            self._unmerged, self._max_unmerged = 0, max(MIN_UNMERGED, self._runs[0][0].size)

    def _union(self) -> tuple[Numbers, Numbers]:
        single = np.array(self._single_intervals, np.int64).reshape(-1, 2)
        runs = [*self._runs, (single[:, 0], single[:, 1])]
        starts, ends = (np.concatenate(part) for part in zip(*runs, strict=True))
        return merge_intervals(starts, ends)[:2]

    @property
    def size(self) -> int:
        """The size of the union."""
        starts, ends = self._union()
        return int((ends - starts).sum())


class ChunkCount:
    """Counts the chunks that overlap boxes of one array, and the requests that read these chunks.

    Args:
        name: the name of the program, for errors.
        grid: the chunks of the array.
        span: as in `anydml.stores.planning.block_shapes.requests`.
        cost: as in `anydml.stores.planning.block_shapes.requests`.
    """

    def __init__(self, name: str, grid: ChunkGrid, span: int, cost: Cost = LOCAL_COST) -> None:
        self._name, self._grid, self._span, self._cost = name, grid, span, cost
        self._reads = self._bytes = 0
        self._counts = [*grid.counts]
        self._union_of_reads = IntervalUnion()
        self._is_estimate = False

    def add(self, box: Box, total: int = 1, looked: int = 1) -> None:
        """Count the chunks and requests of a box, which belongs to a sample of `looked` out of `total` boxes.

        Raises:
            BindingError: the box has too many chunks.
        """
        grid = self._grid
        if grid.is_one:
            _, reads, length = requests(grid.packed, box, span=self._span, cost=self._cost)
            self._reads += reads * total // looked
            self._bytes += reads * length * total // looked
            return
        ranges = [grid.span(axis, *interval) for axis, interval in enumerate(box)]
        chunk_count = math.prod(high - low for low, high in ranges)
        self._reads += chunk_count * total // looked
        # A shard is one file, with any number of chunks.
        self._is_estimate = self._is_estimate or total > looked or self._reads > MAX_CHUNKS
        files = self._reads * math.prod(grid.chunk) // math.prod(grid.file)
        check_count(self._name, files, "chunks to read", MORE_MEMORY)
        if grid.is_plain:
            self._bytes += size_of(box) * grid.dtype.itemsize * total // looked
        if grid.is_plain or self._is_estimate or not chunk_count:
            return
        # Chunks are numbered in C order. The box's chunks along the last axis of which it has only a part, with all
        # chunks along the axes after it, have consecutive numbers.
        last = max((k for k, size in enumerate(self._counts) if ranges[k] != (0, size)), default=0)
        behind = math.prod(self._counts[last + 1 :])
        length = (ranges[last][1] - ranges[last][0]) * behind if ranges else 1
        starts = np.full(1, ranges[last][0] * behind if ranges else 0, np.int64)
        for k in reversed(range(last)):
            behind = math.prod(self._counts[k + 1 :])
            starts = np.add.outer(np.arange(*ranges[k], dtype=np.int64) * behind, starts).reshape(-1)
        self._union_of_reads.add(starts, np.full(starts.size, length, np.int64))

    def read(self, are_kept: bool) -> tuple[int, int, int]:
        """Return the number of requests, their bytes, and the bytes of chunks that are decoded more than once.

        For a sample of boxes, the number of distinct chunks is an upper bound.

        Args:
            are_kept: whether decoded chunks are kept, so that each is read and decoded once.
        """
        if self._grid.is_plain:
            return self._reads, self._bytes, 0
        distinct = min(self._reads, math.prod(self._counts)) if self._is_estimate else self._union_of_reads.size
        count, size = distinct if are_kept else self._reads, self._grid.chunk_bytes
        return count, count * size, (count - distinct) * size
