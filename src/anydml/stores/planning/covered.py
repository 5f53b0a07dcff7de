"""Unions of intervals: the bytes and the chunks that blocks read, each counted once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anydml.stores.formats.store import Box
from anydml.stores.formats.zarr_array import ChunkGrid
from anydml.stores.planning.block_list import MORE_MEMORY, check_count

ENOUGH = 1 << 16
"""Intervals that wait to be united with the others."""

Numbers = np.ndarray[Any, np.dtype[np.int64]]


def united(starts: Numbers, ends: Numbers, gap: int = 0) -> tuple[Numbers, Numbers, Numbers]:
    """The union of intervals.

    Args:
        starts: of the intervals, in any order.
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
        self._waiting, self._most = 0, ENOUGH

    def add(self, starts: Numbers, lengths: Numbers) -> None:
        """Add intervals."""
        if starts.size == 1:
            first = starts.item()
            self._single.append((first, first + lengths.item()))
        else:
            self._runs.append(united(starts, starts + lengths)[:2])
        self._waiting += starts.size
        if self._waiting > self._most:
            self._runs, self._single = [self._union()], []
            self._waiting, self._most = 0, max(ENOUGH, self._runs[0][0].size)

    def _union(self) -> tuple[Numbers, Numbers]:
        single = np.array(self._single, np.int64).reshape(-1, 2)
        runs = [*self._runs, (single[:, 0], single[:, 1])]
        starts, ends = (np.concatenate(each) for each in zip(*runs, strict=True))
        return united(starts, ends)[:2]

    @property
    def size(self) -> int:
        """Of the union."""
        starts, ends = self._union()
        return int((ends - starts).sum())


class ChunkCount:
    """Counts the chunks that boxes of one array have elements of.

    Args:
        name: of the program, for errors.
        layout: of the array.

    Attributes:
        count: chunks of all boxes; a chunk that several boxes need counts several times.
    """

    def __init__(self, name: str, layout: ChunkGrid) -> None:
        self.layout, self.count = layout, 0
        self._name = name
        self._grid = [-(-size // c) for size, c in zip(layout.shape, layout.chunk, strict=True)]
        self._covered = Covered()
        self._is_estimate = False

    def add(self, box: Box, whole: int = 1, looked: int = 1) -> None:
        """Count those of a box, one of `looked` that stand for `whole`.

        Raises:
            BindingError: there are too many of them.
        """
        ranges = [(low // c, -(-high // c)) for (low, high), c in zip(box, self.layout.chunk, strict=True)]
        here = math.prod(high - low for low, high in ranges)
        self.count += here * whole // looked
        self._is_estimate = self._is_estimate or whole > looked
        check_count(self._name, self.count, "chunks of what is read", MORE_MEMORY)
        if self.layout.is_plain or self._is_estimate or not here:
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

    @property
    def distinct(self) -> int:
        """Distinct chunks; plain ones are all counted, and where boxes stand for others it is the most possible."""
        if self._is_estimate:
            return min(self.count, math.prod(self._grid))
        return self.count if self.layout.is_plain else self._covered.size
