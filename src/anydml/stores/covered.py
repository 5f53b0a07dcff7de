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
        self._single: list[tuple[int, int]] = []
        self._waiting = 0

    def add(self, starts: Spans, lengths: Spans) -> None:
        """Add runs of so many bytes each."""
        if starts.size == 1:
            first = starts.item()
            self._single.append((first, first + lengths.item()))
            self._waiting += 1
        else:
            order = np.argsort(starts, kind="stable")
            self._spans.append(_united(np.stack([starts, starts + lengths], 1)[order]))
            self._waiting += len(self._spans[-1])
        if self._waiting > ENOUGH:
            self._spans, self._single, self._waiting = [self._union()], [], 0

    def _union(self) -> Spans:
        single = np.array(self._single, np.int64).reshape(-1, 2)
        spans = np.concatenate([*self._spans, single])
        return _united(spans[np.argsort(spans[:, 0], kind="stable")])

    @property
    def bytes(self) -> int:
        """Of the union."""
        found = self._union()
        return int((found[:, 1] - found[:, 0]).sum())


def _united(spans: Spans) -> Spans:
    """Intervals in order of where they begin; those that touch as one."""
    ends = np.maximum.accumulate(spans[:, 1])
    begins = np.ones(len(spans), bool)
    begins[1:] = spans[1:, 0] > ends[:-1]
    return np.stack([spans[begins, 0], ends[np.flatnonzero(np.roll(begins, -1))]], 1)
