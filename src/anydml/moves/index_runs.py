"""Runs of integers: known indices that select slices, so that nothing is looked up."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.moves.composer import Composer
from anydml.moves.value import Value

Run = tuple[int, int, int]
"""First integer, count, and step; the step is 0 if the integers are equal."""


def runs_of(integers: np.ndarray[Any, Any], max_runs: int) -> list[Run] | None:
    """Divide a 1-D array of integers into runs; None if there are more than `max_runs`."""
    if not integers.size:
        return [(0, 0, 1)]
    steps = np.diff(integers)
    runs: list[Run] = []
    at = 0
    while at < integers.size:
        if len(runs) == max_runs:
            return None
        step = int(steps[at]) if at < steps.size else 1
        unequal = np.flatnonzero(steps[at:] != step)
        count = (int(unequal[0]) if unequal.size else steps.size - at) + 1
        runs.append((int(integers[at]), count, step))
        at += count
    return runs


def select_runs(composer: Composer, value: Value, axis: int, runs: list[Run]) -> Value:
    """``result[…, k, …] = value[…, i_k, …]`` for all integers i of runs, which are in the range of the axis."""
    parts = []
    for start, count, step in runs:
        part = composer.cut(value, axis, start, count if step else 1, step or 1)
        parts.append(part if step else composer.broadcast(part, (*value.sizes[:axis], count, *value.sizes[axis + 1 :])))
    return parts[0] if len(parts) == 1 else composer.join(parts, axis)
