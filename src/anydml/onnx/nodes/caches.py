"""Caches of keys and values: TensorScatter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from anydml.moves.move import Access, Lookup, Move
from anydml.onnx.graph import Node
from anydml.onnx.lowering import LoweringContext
from anydml.onnx.nodes.arguments import Inputs, optional, required, same_type
from anydml.onnx.values import GraphValue, Sizes


def tensor_scatter(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Write an update into a cache along an axis, at one start index per sample; circular caches wrap around."""
    x, update = required(node, inputs, 0, "past_cache"), required(node, inputs, 1, "update")
    given = optional(node, inputs, 2, "write_indices")
    same_type(node, ("past_cache", x), ("update", update))
    rank = len(x.shape)
    axis = node.axis(rank, -2)
    is_circular = node.text("mode", "linear", ("linear", "circular")) == "circular"
    if axis == 0:
        raise node.error("axis is 0", "axis", "axis must not be that of the samples")
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    most, count = x.shape[axis], (update.shape[axis : axis + 1] or (0,))[0]
    if (*update.shape[:axis], *update.shape[axis + 1 :]) != rest or count > most:
        message = f"update has shape {list(update.shape)}, but past_cache {list(x.shape)}"
        raise node.error(message, "update", "sizes must be past_cache's, along the axis at most")
    if given is not None and (given.shape != x.shape[:1] or given.dtype != np.int64):
        message = f"write_indices is {given.dtype} of shape {list(given.shape)}"
        raise node.error(message, "write_indices", "write_indices must be INT64, one a sample")
    known = ctx.stored(update, *(() if given is None else (given,)))
    first = np.zeros(x.shape[:1], np.int64) if given is None else given.array
    if not known or first is None or 0 in update.shape:
        (value,) = ctx.values(x)
        return (ctx.result(node, value, x.dtype),)
    outside = (first < 0) | (first + count > most)
    if not is_circular and outside.any():
        message = f"an index is {first[outside][0]}, but an update of {count} goes into {most}"
        raise node.error(message, "write_indices", "what is written must lie in past_cache")
    ctx.require_memory(node, 8 * len(first) * count)
    value, new = ctx.values(x, update)
    index = ctx.source((first[:, None] + np.arange(count)) % most)
    by, source = ctx.access(index), ctx.access(new)

    def write(operand: int, strides: Sizes) -> Sequence[Move]:
        assert isinstance(by, Access), "indices are stored"
        own = tuple(by.strides[0] if k == 0 else by.strides[1] if k == axis else 0 for k in range(rank))
        lookup = Lookup(by.operand, "int64", by.offset, own, most, strides[axis], "skip")
        still = (*strides[:axis], 0, *strides[axis + 1 :])
        return (Move(update.shape, Access(operand, 0, still, (lookup,)), source, value.element_size),)

    return (ctx.overwritten_result(node, value, x.dtype, write),)
