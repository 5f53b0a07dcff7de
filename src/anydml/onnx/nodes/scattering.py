"""Operators that store a value and overwrite some elements: ScatterElements, ScatterND, OneHot, Where, Trilu, EyeLike.

The overwritten elements are selected by indices, or by a condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from anydml.moves.move import Access, Fill, Lookup, Move, Outside, unless
from anydml.moves.value import Value
from anydml.onnx.graph import Node
from anydml.onnx.lowering import LoweringContext, check_bytes
from anydml.onnx.nodes.arguments import (
    Inputs,
    check_range,
    index_type,
    optional,
    outside,
    required,
    same_type,
    scalar,
    whole,
)
from anydml.onnx.nodes.indexing import check_elements, check_tuple_range, check_tuples
from anydml.onnx.nodes.picking import INDEX_BYTES
from anydml.onnx.nodes.shaping import broadcast_sizes
from anydml.onnx.tensors import check_rank, numpy_type
from anydml.onnx.values import GraphValue, Sizes, Tensor

NO_REDUCTION = "anydml moves data and computes nothing, so that reduction is none"


def _inputs(node: Node, ctx: LoweringContext, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    x, indices, updates = (required(node, inputs, k, name) for k, name in enumerate(("data", "indices", "updates")))
    check_reduction(node)
    same_type(node, ("data", x), ("updates", updates))
    return x, indices, updates


def check_reduction(node: Node) -> None:
    """Check that the attribute `reduction` is none.

    Raises:
        ModelError: it is another reduction, which computes.
    """
    name = "none" if "reduction" not in node.attributes else node.text("reduction", "none", REDUCTIONS)
    if name != "none":
        raise node.computes(f"reduction is {name}: {NO_REDUCTION}", "reduction", NO_REDUCTION)


REDUCTIONS = ("none", "add", "mul", "max", "min")


def scatter_elements(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Scatter and ScatterElements: ``result = data; result[c with c[axis] := indices[c]] = updates[c]``."""
    x, indices, updates = _inputs(node, ctx, inputs)
    index_type(node, indices)
    axis = node.axis(len(x.shape))
    check_elements(node, x.shape, indices.shape, axis)
    if updates.shape != indices.shape:
        message = f"updates have shape {list(updates.shape)}, but indices have {list(indices.shape)}"
        raise node.error(message, "updates", "both must have one shape")
    ctx.readable(updates)
    if ctx.readable(indices) and indices.array is not None:
        check_range(node, indices.array, x.shape[axis], axis)
    value, index, new = ctx.values(x, indices, updates)
    if 0 in indices.shape:
        return (ctx.result(node, value, x.dtype),)
    places, source = ctx.access(index), ctx.access(new)

    def write(operand: int, strides: Sizes) -> Sequence[Move]:
        by, size = outside(indices, "skip"), x.shape[axis]
        lookup = _lookup(places, indices.dtype.name, size, strides[axis], by)
        still = (*strides[:axis], 0, *strides[axis + 1 :])
        return (Move(indices.shape, Access(operand, 0, still, (lookup,)), source, value.element_size),)

    return (ctx.overwritten_result(node, value, x.dtype, write),)


def _lookup(source: Access | Fill, dtype: str, size: int, stride: int, outside: Outside) -> Lookup:
    assert isinstance(source, Access), "indices are stored"
    return Lookup(source.operand, dtype, source.offset, source.strides, size, stride, outside)


def scatter_nd(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """``result = data; result[indices[i, :]] = updates[i]``."""
    x, indices, updates = _inputs(node, ctx, inputs)
    if indices.dtype != np.int64:
        raise node.error(f"indices are {indices.dtype}", "indices", "indices must be INT64")
    count = check_tuples(node, x.shape, indices.shape, least=0)
    shape = (*indices.shape[:-1], *x.shape[count:])
    if updates.shape != shape:
        message = f"updates have shape {list(updates.shape)}, but what they replace has {list(shape)}"
        raise node.error(message, "updates", "updates must have the indices' sizes but the last, then the data's")
    if not count:
        return (_last(node, ctx, x, updates, indices.shape[:-1]),)
    ctx.readable(updates)
    check_tuple_range(node, ctx, indices, x.shape)
    value, index, new = ctx.values(x, indices, updates)
    if 0 in shape:
        return (ctx.result(node, value, x.dtype),)
    by, source = ctx.access(index), ctx.access(new)

    def write(operand: int, strides: Sizes) -> Sequence[Move]:
        assert isinstance(by, Access), "indices are stored"
        rest = len(x.shape) - count
        own, step = by.strides[:-1] + (0,) * rest, by.strides[-1]
        dtype, beyond = indices.dtype.name, outside(indices, "skip")
        lookups = tuple(
            Lookup(by.operand, dtype, by.offset + k * step, own, x.shape[k], strides[k], beyond) for k in range(count)
        )
        to = Access(operand, 0, (0,) * (len(indices.shape) - 1) + strides[count:], lookups)
        return (Move(shape, to, source, value.element_size),)

    return (ctx.overwritten_result(node, value, x.dtype, write),)


def _last(node: Node, ctx: LoweringContext, x: Tensor, updates: Tensor, counts: Sizes) -> Tensor:
    """Return the last update, or the data if there is none: indices without coordinates replace all of the data."""
    (value,) = ctx.values(x if 0 in counts else updates)
    if 0 not in counts:
        starts = [*(n - 1 for n in counts), *(0 for _ in x.shape)]
        sizes = (*(1 for _ in counts), *x.shape)
        value = ctx.composer.reshape(ctx.composer.slice(value, starts, sizes, [1] * len(sizes)), x.shape)
    return ctx.result(node, value, x.dtype)


def one_hot(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """OneHot: ``result[lead, i, trail] = on if i == indices[lead, trail] else off``; others are ignored."""
    indices, depth, values = (required(node, inputs, k, n) for k, n in enumerate(("indices", "depth", "values")))
    if values.shape != (2,):
        raise node.error(f"values has shape {list(values.shape)}", "values", "values must be off and on")
    size = int(scalar(node, ctx, depth, "depth"))
    if size < 0:
        raise node.error(f"depth is {size}", "depth", "depth must be 0 or more")
    axis = hot_axis(node, indices.shape)
    shape = (*indices.shape[:axis], size, *indices.shape[axis:])
    check_rank(f"{node.label}: the result", len(shape))
    check_bytes(node, shape, values.dtype.itemsize)
    ctx.stored(indices, values)
    ctx.values()
    if values.array is None or indices.array is None:
        return (ctx.result(node, Value(shape, values.dtype.itemsize, ()), values.dtype),)
    off, on = (ctx.pattern(values.array[k : k + 1]) for k in range(2))
    value = Value.filled(shape, off)
    places = indices.array
    if places.dtype not in (np.int32, np.int64):
        # Indices of other types, including floats, are truncated.
        ctx.require_memory(node, 8 * places.size)
        with np.errstate(invalid="ignore"):
            places = places.astype(np.int64)
    index = ctx.source(places)

    def write(operand: int, strides: Sizes) -> Sequence[Move]:
        if 0 in shape:
            return ()
        lookup = _lookup(ctx.access(index), places.dtype.name, size, strides[axis], "skip")
        still = (*strides[:axis], *strides[axis + 1 :])
        return (Move(indices.shape, Access(operand, 0, still, (lookup,)), Fill(on), value.element_size),)

    return (ctx.overwritten_result(node, value, values.dtype, write),)


def hot_axis(node: Node, indices: Sizes) -> int:
    """Return the attribute `axis` of OneHot, an axis of the result; default: the last."""
    return node.axis(len(indices) + 1, -1)


def where(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Where: ``result = X if condition else Y``, broadcast."""
    condition, x, y = (required(node, inputs, k, name) for k, name in enumerate(("condition", "X", "Y")))
    same_type(node, ("X", x), ("Y", y))
    if condition.dtype != bool:
        raise node.error(f"condition is {condition.dtype}", "condition", "condition must be BOOL")
    shape = broadcast_sizes(node, condition.shape, x.shape, y.shape)
    check_bytes(node, shape, x.dtype.itemsize)
    ctx.readable(condition, y)
    first, other, mask = ctx.values(x, y, condition)
    return (_chosen(node, ctx, mask, ctx.composer.broadcast(first, shape), other, x.dtype, shape),)


def _chosen(
    node: Node,
    ctx: LoweringContext,
    mask: Value,
    first: Value,
    other: Value,
    dtype: np.dtype[np.generic],
    shape: Sizes,
) -> Tensor:
    """Store `first`, and overwrite it with `other` where the mask is 0."""
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
    assert isinstance(source, Access), "it is stored"
    own = (0 if size == 1 else stride for size, stride in zip(value.sizes, source.strides, strict=True))
    return source._replace(strides=((0,) * (len(shape) - len(value.sizes)) + tuple(own)))


def trilu(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Trilu: the upper or lower triangle of matrices, and zeros elsewhere."""
    x, given = required(node, inputs, 0, "input"), optional(node, inputs, 1, "k")
    if len(x.shape) < 2:
        raise node.error(
            f"the rank is {len(x.shape)}", "input", "matrices must have 2 dimensions, and those before them"
        )
    k = 0 if given is None else whole(node, ctx, given, "k")
    upper = bool(node.integer("upper", 1))
    ctx.readable(x)
    (first,) = ctx.values(x)
    rows, columns = x.shape[-2:]
    if 0 in x.shape or not ctx.runs:
        return (ctx.result(node, first, x.dtype),)
    ctx.require_memory(node, rows * columns + INDEX_BYTES * (rows + columns))
    k = min(max(k, -rows - 1), columns + 1)
    column, row = np.arange(columns)[None, :], np.arange(k, rows + k)[:, None]
    is_zero = column < row if upper else column > row
    zero = np.array("" if x.dtype.hasobject else 0).astype(x.dtype)
    zeros = Value.filled(x.shape, ctx.pattern(zero))
    return (_chosen(node, ctx, ctx.source(is_zero), zeros, first, x.dtype, x.shape),)


def eye_like(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """EyeLike: a matrix with ones on a diagonal."""
    x = required(node, inputs, 0, "input")
    if len(x.shape) != 2:
        raise node.error(f"the rank is {len(x.shape)}", "input", "a matrix must have 2 dimensions")
    kind, k = node.integer("dtype"), node.integer("k", 0)
    assert k is not None, "it has a default"
    dtype = x.dtype if kind is None else numpy_type(kind)
    if dtype is None or dtype.hasobject:
        raise node.error(f"dtype is {kind}", "dtype", "dtype must be one of numbers")
    ctx.values()
    zero, one = (ctx.pattern(np.array(number).astype(dtype)) for number in (0, 1))
    rows, columns = x.shape
    row, column = max(0, -k), max(0, k)
    count = min(rows - row, columns - column)

    def write(operand: int, strides: Sizes) -> Sequence[Move]:
        if count <= 0:
            return ()
        first = row * strides[0] + column * strides[1]
        return (Move((count,), Access(operand, first, (sum(strides),)), Fill(one), dtype.itemsize),)

    return (ctx.overwritten_result(node, Value.filled(x.shape, zero), dtype, write),)
