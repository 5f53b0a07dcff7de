"""Bytes of a file that requests touch: each counted once."""

from __future__ import annotations

from typing import Any

import numpy as np

ENOUGH = 1 << 16
"""Intervals that are in memory beside those that are apart."""

Spans = np.ndarray[Any, np.dtype[np.int64]]


class Covered:
    """The union of intervals."""

    def __init__(self) -> None:
        self._spans: list[Spans] = []
        self._waiting = 0

    def add(self, starts: Spans, length: int) -> None:
        """Add runs of so many bytes each."""
        first = np.sort(starts.reshape(-1))
        breaks = np.flatnonzero(np.diff(first) > length)
        own = np.stack([first[np.r_[0, breaks + 1]], first[np.r_[breaks, first.size - 1]] + length], 1)
        self._spans.append(own)
        self._waiting += len(own)
        if self._waiting > ENOUGH:
            self._spans, self._waiting = [self._union()], 0

    def _union(self) -> Spans:
        """The intervals in order, those that touch as one."""
        if not self._spans:
            return np.zeros((0, 2), np.int64)
        spans = np.concatenate(self._spans)
        spans = spans[np.argsort(spans[:, 0], kind="stable")]
        ends = np.maximum.accumulate(spans[:, 1])
        breaks = np.flatnonzero(spans[1:, 0] > ends[:-1])
        return np.stack([spans[np.r_[0, breaks + 1], 0], ends[np.r_[breaks, len(spans) - 1]]], 1)

    @property
    def bytes(self) -> int:
        """Of the union."""
        found = self._union()
        return int((found[:, 1] - found[:, 0]).sum())
