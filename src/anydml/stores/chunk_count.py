"""How often chunks of an array are read, and how many there are of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anydml.stores.block_list import MORE_MEMORY, check_count
from anydml.stores.regions import Box
from anydml.stores.zarr_format import Chunks

ENOUGH = 1 << 18
"""Runs of chunks that are in memory beside those that differ."""

Runs = np.ndarray[Any, Any]
"""Two rows: the number of the first chunk of each run, and of the one behind it; chunks are counted row by row."""


class ChunkCount:
    """Counts the chunks that boxes of one array have elements of.

    Args:
        name: what errors call the program.
        layout: of the array.

    Attributes:
        count: chunks of all boxes; what several have, as often.
    """

    def __init__(self, name: str, layout: Chunks) -> None:
        self.layout, self.count = layout, 0
        self._name = name
        self._grid = [-(-size // c) for size, c in zip(layout.shape, layout.chunk, strict=True)]
        self._runs: list[Runs] = [np.zeros((2, 0), np.int64)]
        self._waiting, self._most = 0, ENOUGH
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
        # Of the axes that a box does not have whole, the last one's chunks are a run, with all of those behind it.
        last = max((k for k, size in enumerate(self._grid) if ranges[k] != (0, size)), default=0)
        behind = math.prod(self._grid[last + 1 :])
        length = (ranges[last][1] - ranges[last][0]) * behind if ranges else 1
        starts = np.full(1, ranges[last][0] * behind if ranges else 0, np.int64)
        for k in reversed(range(last)):
            behind = math.prod(self._grid[k + 1 :])
            starts = np.add.outer(np.arange(*ranges[k], dtype=np.int64) * behind, starts).reshape(-1)
        self._runs.append(np.stack([starts, starts + length]))
        self._waiting += starts.size
        if self._waiting > self._most:
            self._runs = [self._joined()]
            self._waiting, self._most = 0, max(ENOUGH, self._runs[0].shape[1])

    def _joined(self) -> Runs:
        """The runs of all boxes so far, those that touch as one."""
        starts, ends = np.concatenate(self._runs, axis=1)
        if not starts.size:
            return self._runs[0]
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], np.maximum.accumulate(ends[order])
        are_first = np.r_[True, starts[1:] > ends[:-1]]
        return np.stack([starts[are_first], ends[np.r_[are_first[1:], True]]])

    @property
    def distinct(self) -> int:
        """Chunks, each once; plain ones are not told apart, and where boxes stand for others, it is the most."""
        if self._is_estimate:
            return min(self.count, math.prod(self._grid))
        if self.layout.is_plain:
            return self.count
        starts, ends = self._joined()
        return int((ends - starts).sum())
