"""Select elements along an axis by known indices: as slices if these form few runs, otherwise by lookup."""

from __future__ import annotations

from anydml.moves.runs import runs_of, select_runs
from anydml.moves.value import Value
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
    runs = runs_of(indices, MOST_RUNS)
    if runs is None:
        return ctx.composer.pick(value, ctx.source(indices), "int64", axis)
    return select_runs(ctx.composer, value, axis, runs)
