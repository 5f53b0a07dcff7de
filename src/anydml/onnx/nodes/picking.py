"""Elements along an axis by indices that are known: slices where few make them up, lookups elsewhere."""

from __future__ import annotations

import numpy as np

from anydml.moves.value import Value
from anydml.onnx.graph import Node
from anydml.onnx.moving import Moving
from anydml.onnx.values import Array

MOST_RUNS = 4
"""Runs of indices that become slices; more are looked up."""


INDEX_BYTES = 48
"""Bytes that making one index takes, at most."""


def picked(at: Moving, value: Value, axis: int, indices: Array) -> Value:
    """``result[…, k, …] = value[…, indices[k], …]``.

    Args:
        at: composes.
        value: what is picked from.
        axis: 0 to rank − 1.
        indices: INT64, one-dimensional, inside the axis.
    """
    sizes = (*value.sizes[:axis], indices.size, *value.sizes[axis + 1 :])
    if 0 in sizes:
        return Value(sizes, value.element_size, ())
    runs = _runs(indices)
    if runs is None:
        return at.composer.pick(value, at.source(indices), "int64", axis)
    parts = [_run(at, value, axis, run) for run in runs]
    return parts[0] if len(parts) == 1 else at.composer.join(parts, axis)


def extended(node: Node, at: Moving, value: Value, axis: int, counts: tuple[int, int], mode: str) -> Value:
    """An axis with elements of its own before and behind it (ONNX, Pad: the modes reflect, edge and wrap)."""
    before, after = counts
    if not (before or after):
        return value
    size = value.sizes[axis]
    if not at.runs:
        return Value((*value.sizes[:axis], before + size + after, *value.sizes[axis + 1 :]), value.element_size, ())
    at.ask(node, INDEX_BYTES * (before + size + after))
    places = np.arange(-before, size + after, dtype=np.int64)
    if mode == "edge" or size == 1:
        indices = np.clip(places, 0, size - 1)
    elif mode == "wrap":
        indices = places % size
    else:
        period = 2 * (size - 1)
        indices = size - 1 - np.abs(places % period - (size - 1))
    return picked(at, value, axis, indices)


def _run(at: Moving, value: Value, axis: int, run: tuple[int, int, int]) -> Value:
    start, count, step = run
    rank = len(value.sizes)
    starts, sizes, steps = [0] * rank, [*value.sizes], [1] * rank
    starts[axis], sizes[axis], steps[axis] = start, count if step else 1, step or 1
    part = at.composer.slice(value, starts, sizes, steps)
    sizes[axis] = count
    return part if step else at.composer.broadcast(part, sizes)


def _runs(indices: Array) -> list[tuple[int, int, int]] | None:
    """Start, count and step of the few runs that make up a list; None where they are more."""
    steps = np.diff(indices)
    runs: list[tuple[int, int, int]] = []
    at = 0
    while at < indices.size:
        if len(runs) == MOST_RUNS:
            return None
        step = int(steps[at]) if at < steps.size else 1
        other = np.flatnonzero(steps[at:] != step)
        count = (int(other[0]) if other.size else steps.size - at) + 1
        runs.append((int(indices[at]), count, step))
        at += count
    return runs
