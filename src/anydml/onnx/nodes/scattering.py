"""Operators that store a value and overwrite some elements, selected by indices or by a condition.

ScatterElements, ScatterND, TensorScatter, OneHot, Where, Trilu and EyeLike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.moves.move import Access, Fill, Move, unless
from anydml.moves.places import Along, At, put
from anydml.moves.value import Value
from anydml.onnx.graph import Node
from anydml.onnx.lowering import LoweringContext
from anydml.onnx.nodes.arguments import check_range, outside, scalar
from anydml.onnx.nodes.indexing import check_elements, check_tuples
from anydml.onnx.nodes.padding import zero_of
from anydml.onnx.nodes.picking import INDEX_BYTES
from anydml.onnx.nodes.shaping import broadcast_sizes
from anydml.onnx.tensors import numpy_type
from anydml.onnx.values import Sizes, Tensor
from anydml.tensor import Layout

REDUCTIONS = ("none", "add", "mul", "max", "min")


def _check_reduction(node: Node) -> None:
    """Check that nothing is computed.

    Raises:
        ModelError: the attribute `reduction` is not none.
    """
    name = node.word("reduction", REDUCTIONS)
    if name not in (None, "none"):
        rule = "anydml moves data and computes nothing, so that reduction is none"
        raise node.computes(f"reduction is {name}: {rule}", "reduction", rule)


def scatter_elements(node: Node, ctx: LoweringContext, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Scatter and ScatterElements: ``result = data; result[c with c[axis] := indices[c]] = updates[c]``."""
    _check_reduction(node)
    axis = node.axis(len(x.shape))
    check_elements(node, x.shape, indices.shape, axis)
    if updates.shape != indices.shape:
        message = f"updates have shape {list(updates.shape)}, but indices have {list(indices.shape)}"
        raise node.error(message, "updates", "both must have one shape")
    ctx.readable(updates)
    check_range(node, ctx, indices, x.shape[axis], axis)
    value, index, new = ctx.values(x, indices, updates)
    if 0 in indices.shape:
        return ctx.result(node, value, x.dtype)
    places: list[Along | At] = [*map(Along, range(len(x.shape)))]
    places[axis] = At(ctx.access(index), indices.dtype.name, outside(indices, "skip"))
    return _put(node, ctx, value, x.dtype, ctx.access(new), indices.shape, places)


def _put(
    node: Node,
    ctx: LoweringContext,
    value: Value,
    dtype: np.dtype[Any],
    source: Access | Fill,
    sizes: Sizes,
    places: Sequence[Along | At],
) -> Tensor:
    """Store a value, and overwrite it with a part at places (see `anydml.moves.places`)."""

    def write(operand: int, strides: Sizes) -> Sequence[Move]:
        target = Layout(value.sizes, strides, value.element_size)
        return () if 0 in sizes else (put(source, sizes, operand, target, places),)

    return ctx.overwritten_result(node, value, dtype, write)


def scatter_nd(node: Node, ctx: LoweringContext, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """ScatterND: ``result = data; result[indices[i, :]] = updates[i]``."""
    _check_reduction(node)
    count = check_tuples(node, x.shape, indices.shape, least=0)
    shape = (*indices.shape[:-1], *x.shape[count:])
    if updates.shape != shape:
        message = f"updates have shape {list(updates.shape)}, but what they replace has {list(shape)}"
        raise node.error(message, "updates", "updates must have the indices' sizes but the last, then the data's")
    if not count:
        return _last(node, ctx, x, updates, indices.shape[:-1])
    ctx.readable(updates)
    for k in range(count):
        check_range(node, ctx, indices, x.shape[k], k, column=k)
    value, index, new = ctx.values(x, indices, updates)
    if 0 in shape:
        return ctx.result(node, value, x.dtype)
    by, rest = ctx.access(index), len(x.shape) - count
    columns = [
        by._replace(offset=by.offset + k * by.strides[-1], strides=by.strides[:-1] + (0,) * rest) for k in range(count)
    ]
    places: list[Along | At] = [At(column, indices.dtype.name, outside(indices, "skip")) for column in columns]
    places += [Along(len(shape) - rest + k) for k in range(rest)]
    return _put(node, ctx, value, x.dtype, ctx.access(new), shape, places)


def _last(node: Node, ctx: LoweringContext, x: Tensor, updates: Tensor, counts: Sizes) -> Tensor:
    """Return the last update, or the data if there is none: indices without coordinates replace all of the data."""
    (value,) = ctx.values(x if 0 in counts else updates)
    if 0 not in counts:
        starts = [*(n - 1 for n in counts), *(0 for _ in x.shape)]
        sizes = (*(1 for _ in counts), *x.shape)
        value = ctx.composer.reshape(ctx.composer.slice(value, starts, sizes, [1] * len(sizes)), x.shape)
    return ctx.result(node, value, x.dtype)


def tensor_scatter(
    node: Node, ctx: LoweringContext, x: Tensor, update: Tensor, write_indices: Tensor | None = None
) -> Tensor:
    """TensorScatter: write an update into a cache along an axis, at one start index per sample, or at 0.

    Circular caches wrap around.
    """
    rank = len(x.shape)
    axis = node.axis(rank)
    is_circular = node.word("mode", ("linear", "circular")) == "circular"
    if axis == 0:
        raise node.error("axis is 0", "axis", "axis must not be that of the samples")
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    most, count = x.shape[axis], (update.shape[axis : axis + 1] or (0,))[0]
    if (*update.shape[:axis], *update.shape[axis + 1 :]) != rest or count > most:
        message = f"update has shape {list(update.shape)}, but past_cache {list(x.shape)}"
        raise node.error(message, "update", "sizes must be past_cache's, along the axis at most")
    if write_indices is not None and write_indices.shape != x.shape[:1]:
        message = f"write_indices have shape {list(write_indices.shape)}"
        raise node.error(message, "write_indices", "write_indices must have one index per sample")
    ctx.stored(update)
    first = np.zeros(x.shape[:1], np.int64) if write_indices is None else ctx.elements(write_indices)
    if first is None or 0 in update.shape or not ctx.runs:
        (value,) = ctx.values(x)
        return ctx.result(node, value, x.dtype)
    beyond = (first < 0) | (first + count > most)
    if not is_circular and beyond.any():
        message = f"an index is {first[beyond][0]}, but an update of {count} goes into {most}"
        raise node.error(message, "write_indices", "what is written must lie in past_cache")
    ctx.require_memory(node, 8 * len(first) * count)
    value, new = ctx.values(x, update)
    index = ctx.source((first[:, None] + np.arange(count)) % most)
    by = ctx.access(index)
    own = tuple(by.strides[0] if k == 0 else by.strides[1] if k == axis else 0 for k in range(rank))
    places: list[Along | At] = [*map(Along, range(rank))]
    places[axis] = At(by._replace(strides=own), "int64", "skip")
    return _put(node, ctx, value, x.dtype, ctx.access(new), update.shape, places)


def one_hot(node: Node, ctx: LoweringContext, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    """OneHot: ``result[lead, i, trail] = on if i == indices[lead, trail] else off``; others are ignored."""
    if values.shape != (2,):
        raise node.error(f"values has shape {list(values.shape)}", "values", "values must be off and on")
    size = int(scalar(node, ctx, depth, "depth"))
    if size < 0:
        raise node.error(f"depth is {size}", "depth", "depth must be 0 or more")
    axis = node.axis(len(indices.shape) + 1)
    shape = (*indices.shape[:axis], size, *indices.shape[axis:])
    ctx.stored(indices, values)
    ctx.values()
    if values.array is None or indices.array is None:
        return ctx.result(node, Value(shape, values.dtype.itemsize, ()), values.dtype)
    off, on = (ctx.pattern(values.array[k : k + 1]) for k in range(2))
    value = Value.filled(shape, off)
    elements = indices.array
    if elements.dtype not in (np.int32, np.int64):
        # Indices of other types, including floats, are truncated.
        ctx.require_memory(node, 8 * elements.size)
        with np.errstate(invalid="ignore"):
            elements = elements.astype(np.int64)
    index = ctx.source(elements)
    if 0 in shape:
        return ctx.result(node, value, values.dtype)
    places: list[Along | At] = [*map(Along, range(len(indices.shape)))]
    places.insert(axis, At(ctx.access(index), elements.dtype.name, "skip"))
    return _put(node, ctx, value, values.dtype, Fill(on), indices.shape, places)


def where(node: Node, ctx: LoweringContext, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Where: ``result = X if condition else Y``, broadcast."""
    shape = broadcast_sizes(node, condition.shape, x.shape, y.shape)
    ctx.readable(condition, y)
    first, other, mask = ctx.values(x, y, condition)
    return _chosen(node, ctx, mask, ctx.composer.broadcast(first, shape), other, x.dtype)


def _chosen(
    node: Node, ctx: LoweringContext, mask: Value, first: Value, other: Value, dtype: np.dtype[np.generic]
) -> Tensor:
    """Store `first`, and overwrite it with `other` where the mask is 0; both are broadcast to its sizes."""
    shape = first.sizes
    if not ctx.runs or 0 in shape:
        return ctx.result(node, first, dtype)
    by, source = (_broadcast(ctx, each, shape) for each in (mask, other))

    def write(operand: int, strides: Sizes) -> Sequence[Move]:
        lookup = unless(by.operand, by.strides)._replace(offset=by.offset)
        return (Move(shape, Access(operand, 0, strides), source._replace(lookups=(lookup,)), first.element_size),)

    return ctx.overwritten_result(node, first, dtype, write)


def _broadcast(ctx: LoweringContext, value: Value, shape: Sizes) -> Access:
    """Return the access to a stored value, broadcast to a shape."""
    source = ctx.access(value)
    layout = Layout(value.sizes, source.strides, value.element_size)
    return source._replace(strides=layout.broadcast(shape).strides)


def trilu(node: Node, ctx: LoweringContext, x: Tensor, diagonal: Tensor | None = None) -> Tensor:
    """Trilu: the upper or lower triangle of matrices, and zeros elsewhere."""
    if len(x.shape) < 2:
        raise node.error(f"the rank is {len(x.shape)}", "input", "matrices must have 2 dimensions or more")
    k = 0 if diagonal is None else scalar(node, ctx, diagonal, "k")
    ctx.readable(x)
    (first,) = ctx.values(x)
    rows, columns = x.shape[-2:]
    if 0 in x.shape or not ctx.runs:
        return ctx.result(node, first, x.dtype)
    ctx.require_memory(node, rows * columns + INDEX_BYTES * (rows + columns))
    k = min(max(k, -rows - 1), columns + 1)
    column, row = np.arange(columns)[None, :], np.arange(k, rows + k)[:, None]
    is_zero = column < row if node.get("upper") else column > row
    zeros = Value.filled(x.shape, ctx.pattern(zero_of(x.dtype)))
    return _chosen(node, ctx, ctx.source(is_zero), zeros, first, x.dtype)


def eye_like(node: Node, ctx: LoweringContext, x: Tensor) -> Tensor:
    """EyeLike: a matrix with ones on a diagonal."""
    if len(x.shape) != 2:
        raise node.error(f"the rank is {len(x.shape)}", "input", "a matrix must have 2 dimensions")
    kind, k = node.get("dtype"), node.get("k")
    dtype = x.dtype if kind is None else numpy_type(kind)
    if dtype is None or dtype.hasobject:
        raise node.error(f"dtype is {kind}", "dtype", "dtype must be one of numbers")
    ctx.values()
    zero, one = (ctx.pattern(np.array(number).astype(dtype)) for number in (0, 1))
    rows, columns = x.shape
    row, column = max(0, -k), max(0, k)
    count = max(0, min(rows - row, columns - column))
    value, places = Value.filled(x.shape, zero), [Along(0, row), Along(0, column)]
    return _put(node, ctx, value, dtype, Fill(one), (count,), places)
