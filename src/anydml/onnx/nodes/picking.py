"""Select elements along an axis by known indices: as slices if these form few runs, otherwise by lookup."""

from __future__ import annotations

import numpy as np

from anydml.moves.value import Value
from anydml.onnx.graph import Node
from anydml.onnx.lowering import LoweringContext
from anydml.onnx.values import Array

MOST_RUNS = 4
"""Largest number of runs of indices that become slices; more runs are looked up."""


INDEX_BYTES = 48
"""Upper bound of the memory in bytes for creating an index."""


def picked(ctx: LoweringContext, value: Value, axis: int, indices: Array) -> Value:
    """``result[…, k, …] = value[…, indices[k], …]``.

    Args:
        ctx: composes the result.
        value: the data.
        axis: 0 to rank − 1.
        indices: 1-D INT64, in the range of the axis.
    """
    sizes = (*value.sizes[:axis], indices.size, *value.sizes[axis + 1 :])
    if 0 in sizes:
        return Value(sizes, value.element_size, ())
    runs = _runs(indices)
    if runs is None:
        return ctx.composer.pick(value, ctx.source(indices), "int64", axis)
    parts = [_run(ctx, value, axis, run) for run in runs]
    return parts[0] if len(parts) == 1 else ctx.composer.join(parts, axis)


def extended(node: Node, ctx: LoweringContext, value: Value, axis: int, counts: tuple[int, int], mode: str) -> Value:
    """Pad an axis with its own elements (ONNX, Pad: modes reflect, edge and wrap).

    Args:
        node: the node.
        ctx: composes the result.
        value: the data.
        axis: 0 to rank − 1.
        counts: numbers of elements to add before and after the axis.
        mode: reflect, edge or wrap.
    """
    before, after = counts
    if not (before or after):
        return value
    size = value.sizes[axis]
    if not ctx.runs:
        return Value((*value.sizes[:axis], before + size + after, *value.sizes[axis + 1 :]), value.element_size, ())
    ctx.require_memory(node, INDEX_BYTES * (before + size + after))
    places = np.arange(-before, size + after, dtype=np.int64)
    if mode == "edge" or size == 1:
        indices = np.clip(places, 0, size - 1)
    elif mode == "wrap":
        indices = places % size
    else:
        period = 2 * (size - 1)
        indices = size - 1 - np.abs(places % period - (size - 1))
    return picked(ctx, value, axis, indices)


def _run(ctx: LoweringContext, value: Value, axis: int, run: tuple[int, int, int]) -> Value:
    start, count, step = run
    rank = len(value.sizes)
    starts, sizes, steps = [0] * rank, [*value.sizes], [1] * rank
    starts[axis], sizes[axis], steps[axis] = start, count if step else 1, step or 1
    part = ctx.composer.slice(value, starts, sizes, steps)
    sizes[axis] = count
    return part if step else ctx.composer.broadcast(part, sizes)


def _runs(indices: Array) -> list[tuple[int, int, int]] | None:
    """Divide indices into runs of (start, count, step); None if there are more than `MOST_RUNS`."""
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
