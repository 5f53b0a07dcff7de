"""Unions of intervals: the bytes and the chunks that blocks read, each counted once."""

from __future__ import annotations

import math

import numpy as np

from anydml.stores.formats.chunk_grid import Box, ChunkGrid
from anydml.stores.formats.store import Numbers
from anydml.stores.planning.block_list import MAX_CHUNKS, MORE_MEMORY, check_count
from anydml.stores.planning.block_shapes import HERE, Cost, requests, size_of

WAITING_INTERVALS = 1 << 16
"""Intervals that wait to be united with the others."""


def united(starts: Numbers, ends: Numbers, gap: int = 0) -> tuple[Numbers, Numbers, Numbers]:
    """The union of intervals.

    Args:
        starts: the starts of the intervals, in any order.
        ends: likewise.
        gap: distance up to which intervals become one.

    Returns:
        Starts and ends of the union, in order, and for each interval the number of the one that it is in.
    """
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    are_first = np.ones(starts.size, bool)
    are_first[1:] = starts[1:] > ends[:-1] + gap
    firsts = np.flatnonzero(are_first)
    within = np.empty(starts.size, np.int64)
    within[order] = np.cumsum(are_first) - 1
    return starts[firsts], ends[np.append(firsts[1:], starts.size) - 1] if starts.size else ends, within


class Covered:
    """The union of intervals that are added one after the other."""

    def __init__(self) -> None:
        self._runs: list[tuple[Numbers, Numbers]] = []
        self._single: list[tuple[int, int]] = []
        self._waiting, self._most = 0, WAITING_INTERVALS

    def add(self, starts: Numbers, lengths: Numbers) -> None:
        """Add intervals."""
        if starts.size == 1:
            first = starts.item()
            self._single.append((first, first + lengths.item()))
        else:
            self._runs.append((starts, starts + lengths))
        self._waiting += starts.size
        if self._waiting > self._most:
            self._runs, self._single = [self._union()], []
            self._waiting, self._most = 0, max(WAITING_INTERVALS, self._runs[0][0].size)

    def _union(self) -> tuple[Numbers, Numbers]:
        single = np.array(self._single, np.int64).reshape(-1, 2)
        runs = [*self._runs, (single[:, 0], single[:, 1])]
        starts, ends = (np.concatenate(part) for part in zip(*runs, strict=True))
        return united(starts, ends)[:2]

    @property
    def size(self) -> int:
        """The size of the union."""
        starts, ends = self._union()
        return int((ends - starts).sum())


class ChunkCount:
    """Counts the chunks that boxes of one array have elements of, and the requests that read them.

    Args:
        name: the name of the program, for errors.
        layout: the layout of the array.
        span: as in `boxes.requests`.
        cost: likewise.
    """

    def __init__(self, name: str, layout: ChunkGrid, span: int, cost: Cost = HERE) -> None:
        self._name, self._layout, self._span, self._cost = name, layout, span, cost
        self._reads = self._bytes = 0
        self._grid = [*layout.counts]
        self._covered = Covered()
        self._is_estimate = False

    def add(self, box: Box, total: int = 1, looked: int = 1) -> None:
        """Count those of a box, one of `looked` that stand for `total`.

        Raises:
            BindingError: there are too many of them.
        """
        layout = self._layout
        if layout.is_one:
            _, reads, length = requests(layout.packed, box, span=self._span, cost=self._cost)
            self._reads += reads * total // looked
            self._bytes += reads * length * total // looked
            return
        ranges = [layout.span(axis, *interval) for axis, interval in enumerate(box)]
        chunk_count = math.prod(high - low for low, high in ranges)
        self._reads += chunk_count * total // looked
        # Shards are files, however many chunks they have.
        self._is_estimate = self._is_estimate or total > looked or self._reads > MAX_CHUNKS
        files = self._reads * math.prod(layout.chunk) // math.prod(layout.file)
        check_count(self._name, files, "chunks of what is read", MORE_MEMORY)
        if layout.is_plain:
            self._bytes += size_of(box) * layout.dtype.itemsize * total // looked
        if layout.is_plain or self._is_estimate or not chunk_count:
            return
        # Chunks are numbered in C order: those along the last axis that a box has a part of, with all of the axes after
        # it, are a run.
        last = max((k for k, size in enumerate(self._grid) if ranges[k] != (0, size)), default=0)
        behind = math.prod(self._grid[last + 1 :])
        length = (ranges[last][1] - ranges[last][0]) * behind if ranges else 1
        starts = np.full(1, ranges[last][0] * behind if ranges else 0, np.int64)
        for k in reversed(range(last)):
            behind = math.prod(self._grid[k + 1 :])
            starts = np.add.outer(np.arange(*ranges[k], dtype=np.int64) * behind, starts).reshape(-1)
        self._covered.add(starts, np.full(starts.size, length, np.int64))

    def read(self, are_kept: bool) -> tuple[int, int, int]:
        """Requests, their bytes, and those of chunks that are decoded again, which none are that are kept.

        Where boxes stand for others, distinct chunks are the most possible.
        """
        if self._layout.is_plain:
            return self._reads, self._bytes, 0
        distinct = min(self._reads, math.prod(self._grid)) if self._is_estimate else self._covered.size
        count, size = distinct if are_kept else self._reads, self._layout.chunk_bytes
        return count, count * size, (count - distinct) * size
