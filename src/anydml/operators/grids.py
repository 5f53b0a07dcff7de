"""Grids of pixels: which element of an axis is nearest to each of another, and how a move walks there."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anydml.operators.enums import AxisDirection

Positions = np.ndarray[Any, np.dtype[np.int64]]


class Grid(NamedTuple):
    """How coordinates of an output's axis become those of the input's, before they are held at its ends.

    Attributes:
        scale: ``x = (coordinate − of_output) / scale − of_input``.
        of_input, of_output: the pixel offsets.
        direction: INCREASING takes the next whole number from x up, DECREASING from x down; None rounds half up.
    """

    scale: float
    of_input: float
    of_output: float
    direction: AxisDirection | None

    def positions(self, count: int, size: int) -> Positions:
        """The input's coordinates for `count` of the output, in FLOAT arithmetic, held inside `size`."""
        with np.errstate(all="ignore"):
            x = (np.arange(count).astype(np.float32) - np.float32(self.of_output)) / np.float32(self.scale)
            x = x - np.float32(self.of_input)
            if self.direction is None:
                x = np.floor(x + np.float32(0.5))
            else:
                x = np.ceil(x) if self.direction == AxisDirection.INCREASING else np.floor(x)
            # Held before it becomes an integer: it may be larger than any.
            return np.asarray(np.clip(x.astype(np.float64), 0, size - 1).astype(np.int64))

    def position(self, at: int, size: int) -> int:
        """The same for one coordinate."""
        with np.errstate(all="ignore"):
            x = (np.float32(at) - np.float32(self.of_output)) / np.float32(self.scale) - np.float32(self.of_input)
        if not math.isfinite(x):
            return 0 if x < 0 else size - 1
        if self.direction is None:
            whole = math.floor(np.float32(x + np.float32(0.5)))
        else:
            whole = math.ceil(x) if self.direction == AxisDirection.INCREASING else math.floor(x)
        return min(max(whole, 0), size - 1)


class Axis(NamedTuple):
    """An axis of the box: sizes, and what each is worth in the source; a lookup's numbers where there is no such."""

    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    start: int
    looked_up: Positions | None


def axis_of(positions: Positions) -> Axis:
    """Positions as a range, as one whose elements are repeated, or as they are."""
    count = len(positions)
    steps = np.diff(positions)
    start = int(positions[0])
    if count < 2 or (steps == steps[0]).all():
        return Axis((count,), (int(steps[0]) if count > 1 else 0,), start, None)
    changes = np.flatnonzero(steps)
    times = int(changes[0]) + 1
    if count % times == 0:
        lines = positions.reshape(-1, times)
        firsts = lines[:, 0]
        by = np.diff(firsts)
        if (lines == firsts[:, None]).all() and (by == by[0]).all():
            return Axis((count // times, times), (int(by[0]), 0), start, None)
    return Axis((count,), (0,), 0, positions)
