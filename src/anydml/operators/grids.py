"""Grids of pixels: which element of an axis is nearest to each of another, and how a move walks there."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anydml.moves import Computed, Constant
from anydml.operators.enums import AxisDirection

MOST_FOLLOWED = 1 << 20
"""Coordinates of an axis of which it is worth seeing whether they follow a step; those of longer ones are looked up."""

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

    @property
    def is_one_to_one(self) -> bool:
        """Whether each coordinate is its own, also where FLOAT no longer tells one from the next."""
        return self.scale == 1 and self.of_input == -self.of_output and (2 * self.of_input).is_integer()

    def positions(self, count: int, size: int) -> Positions:
        """The input's coordinates for `count` of the output, in FLOAT arithmetic, held inside `size`."""
        if self.is_one_to_one:
            return np.minimum(np.arange(count), size - 1)
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
        if self.is_one_to_one:
            return min(at, size - 1)
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
    looked_up: Constant | None


def axis_of(grid: Grid, count: int, size: int) -> Axis:
    """The positions of `count` coordinates in `size` as a range, as one whose elements are repeated, or as they are."""
    if grid.is_one_to_one and count <= size:
        return Axis((count,), (1,), 0, None)
    dtype = np.dtype(np.uint32 if size <= 1 << 32 else np.uint64)
    looked_up = Computed((count,), dtype, lambda: grid.positions(count, size).astype(dtype))
    if count > MOST_FOLLOWED:
        return Axis((count,), (0,), 0, looked_up)
    positions = grid.positions(count, size)
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
    return Axis((count,), (0,), 0, looked_up)
