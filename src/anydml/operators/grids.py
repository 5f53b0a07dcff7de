"""Pixel grids: the nearest input element of each output coordinate, and its expression by strides."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from anydml.moves import Constant, LazyConstant
from anydml.moves.open_numbers import pinned
from anydml.operators.enums import AxisDirection

MAX_TESTED = 1 << 20
"""Longest axis whose positions are tested for a constant step; longer axes use a lookup."""

Positions = np.ndarray[Any, np.dtype[np.int64]]


class Grid(NamedTuple):
    """The map from an output axis' coordinates to the input's, before clamping.

    Attributes:
        scale: ``x = (coordinate − of_output) / scale − of_input``.
        of_input, of_output: the pixel offsets.
        direction: INCREASING rounds up, DECREASING rounds down; None rounds half up.
    """

    scale: float
    of_input: float
    of_output: float
    direction: AxisDirection | None

    @property
    def is_one_to_one(self) -> bool:
        """Whether the map is the identity, which is exact even for coordinates that FLOAT cannot distinguish."""
        return self.scale == 1 and self.of_input == -self.of_output and (2 * self.of_input).is_integer()

    def positions(self, count: int, size: int) -> Positions:
        """Map `count` output coordinates in FLOAT arithmetic, clamped to `size`."""
        if self.is_one_to_one:
            return np.minimum(np.arange(count), size - 1)
        with np.errstate(all="ignore"):
            x = (np.arange(count).astype(np.float32) - np.float32(self.of_output)) / np.float32(self.scale)
            x = x - np.float32(self.of_input)
            if self.direction is None:
                x = np.floor(x + np.float32(0.5))
            else:
                x = np.ceil(x) if self.direction == AxisDirection.INCREASING else np.floor(x)
            # Clamped before the conversion, since the coordinate may exceed any integer.
            return np.asarray(np.clip(x.astype(np.float64), 0, size - 1).astype(np.int64))

    def position(self, at: int, size: int) -> int:
        """Map one output coordinate, as `positions` does."""
        if self.is_one_to_one:
            return min(at, size - 1)
        with np.errstate(all="ignore"):
            x = (np.float32(at) - np.float32(self.of_output)) / np.float32(self.scale) - np.float32(self.of_input)
        if not math.isfinite(x):
            return 0 if x < 0 else size - 1
        if self.direction is None:
            nearest = math.floor(np.float32(x + np.float32(0.5)))
        else:
            nearest = math.ceil(x) if self.direction == AxisDirection.INCREASING else math.floor(x)
        return min(max(nearest, 0), size - 1)


class GridAxis(NamedTuple):
    """One output axis as dimensions of a move.

    Attributes:
        distinct: number of coordinates, not counting repetitions.
        step: source elements from one to the next.
        start: the first source element.
        repeats: the number of repetitions of each.
        indices: the indices of a lookup, if there is no constant step; else None.
    """

    distinct: int
    step: int
    start: int
    repeats: int
    indices: Constant | None


def grid_axis(grid: Grid, count: int, size: int) -> GridAxis:
    """Return an axis' positions as a range, as a range of repeated elements, or as indices of a lookup."""
    if grid.is_one_to_one and count <= size:
        return GridAxis(count, 1, 0, 1, None)
    count, size = pinned(count), pinned(size)
    dtype = np.dtype(np.uint32 if size <= 1 << 32 else np.uint64)
    indices = LazyConstant((count,), dtype, lambda: grid.positions(count, size).astype(dtype))
    if count > MAX_TESTED:
        return GridAxis(count, 0, 0, 1, indices)
    positions = grid.positions(count, size)
    steps = np.diff(positions)
    start = int(positions[0])
    if count < 2 or (steps == steps[0]).all():
        return GridAxis(count, int(steps[0]) if count > 1 else 0, start, 1, None)
    changes = np.flatnonzero(steps)
    repeats = int(changes[0]) + 1
    if count % repeats == 0:
        lines = positions.reshape(-1, repeats)
        firsts = lines[:, 0]
        by = np.diff(firsts)
        if (lines == firsts[:, None]).all() and (by == by[0]).all():
            return GridAxis(count // repeats, int(by[0]), start, repeats, None)
    return GridAxis(count, 0, 0, 1, indices)
