"""Operators that store a value and overwrite some elements, selected by indices or by a condition.

ScatterElements, ScatterND, TensorScatter, OneHot, Where, Trilu and EyeLike.
"""

from __future__ import annotations

import numpy as np

from anydml.moves.value_maker import ValueView
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import Tensor
from anydml.onnx.lowering import LoweringContext, check_bytes
from anydml.onnx.nodes.indexing import check_elements, check_tuples
from anydml.onnx.nodes.node_arguments import check_range, out_of_range_treatment, scalar
from anydml.onnx.nodes.shaping import broadcast_sizes
from anydml.onnx.tensor_protos import numpy_type
from anydml.operators.scatter import scatter_rule
from anydml.operators.scatter_nd import scatter_nd_rule
from anydml.tracing.array_verbs import apply_rule, broadcast, reshape
from anydml.tracing.picking import index_view
from anydml.tracing.putting import AtIndices, StridedCoordinates, choose_by_mask, put, triangle
from anydml.tracing.selecting import diagonal_at

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
        raise node.error(message, "updates", "updates and indices must have the same shape")
    check_range(node, ctx, indices, x.shape[axis], axis)
    array, index, new = ctx.arrays(x, indices, updates)
    outside = out_of_range_treatment(indices, "skip")
    return ctx.result(node, apply_rule(scatter_rule, array, ValueView(new.value), index_view(index), axis, outside)[0])


def scatter_nd(node: Node, ctx: LoweringContext, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """ScatterND: ``result = data; result[indices[i, :]] = updates[i]``."""
    _check_reduction(node)
    count = check_tuples(node, x.shape, indices.shape, min_length=0)
    shape = (*indices.shape[:-1], *x.shape[count:])
    if updates.shape != shape:
        message = f"updates have shape {list(updates.shape)}, but what they replace has {list(shape)}"
        raise node.error(message, "updates", "updates must have the indices' sizes but the last, then the data's")
    for k in range(count):
        check_range(node, ctx, indices, x.shape[k], k, column=k, is_checked=0 not in shape)
    array, index, new = ctx.arrays(x, indices, updates)
    if 0 in shape:
        return ctx.result(node, array)
    outside = out_of_range_treatment(indices, "skip")
    return ctx.result(node, apply_rule(scatter_nd_rule, array, ValueView(new.value), index_view(index), outside)[0])


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
        raise node.error("axis is 0", "axis", "axis must not be 0, the axis of the samples")
    other_sizes = (*x.shape[:axis], *x.shape[axis + 1 :])
    axis_size, count = x.shape[axis], (update.shape[axis : axis + 1] or (0,))[0]
    if (*update.shape[:axis], *update.shape[axis + 1 :]) != other_sizes or count > axis_size:
        message = f"update has shape {list(update.shape)}, but past_cache {list(x.shape)}"
        raise node.error(message, "update", "sizes must be those of past_cache, and no larger along the axis")
    if write_indices is not None and write_indices.shape != x.shape[:1]:
        message = f"write_indices have shape {list(write_indices.shape)}"
        raise node.error(message, "write_indices", "write_indices must have one index per sample")
    ctx.fetch(update)
    first = np.zeros(x.shape[:1], np.int64) if write_indices is None else ctx.elements(write_indices)
    if first is None or 0 in update.shape or not ctx.runs:
        return ctx.result(node, ctx.array(x))
    beyond = (first < 0) | (first + count > axis_size)
    if not is_circular and beyond.any():
        message = f"an index is {first[beyond][0]}, but an update of {count} goes into {axis_size}"
        raise node.error(message, "write_indices", "the update must fit into past_cache")
    ctx.require_memory(node, 8 * len(first) * count)
    array, new = ctx.arrays(x, update)
    index = ctx.constant((first[:, None] + np.arange(count)) % axis_size)
    index = reshape(index, [size if k in (0, axis) else 1 for k, size in enumerate(update.shape)])
    places: list[StridedCoordinates | AtIndices] = [*map(StridedCoordinates, range(rank))]
    places[axis] = AtIndices(broadcast(index, update.shape), "skip")
    return ctx.result(node, put(array, new, places))


def one_hot(node: Node, ctx: LoweringContext, indices: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    """OneHot: ``result[lead, i, trail] = on if i == indices[lead, trail] else off``; others are ignored."""
    if values.shape != (2,):
        raise node.error(
            f"values has shape {list(values.shape)}", "values", "values must have two elements: off and on"
        )
    size = int(scalar(node, ctx, depth, "depth"))
    if size < 0:
        raise node.error(f"depth is {size}", "depth", "depth must be 0 or more")
    axis = node.axis(len(indices.shape) + 1)
    shape = (*indices.shape[:axis], size, *indices.shape[axis:])
    ctx.fetch(indices, values)
    ctx.arrays()
    elements = indices.array
    if values.array is None or elements is None:
        return ctx.empty_result(node, shape, values.dtype)
    array = ctx.filled(shape, values.array[:1])
    if elements.dtype not in (np.int32, np.int64):
        # Indices of other types, including floats, are truncated.
        ctx.require_memory(node, 8 * elements.size)
        with np.errstate(invalid="ignore"):
            elements = elements.astype(np.int64)
    if 0 in shape:
        return ctx.result(node, array)
    places: list[StridedCoordinates | AtIndices] = [*map(StridedCoordinates, range(len(indices.shape)))]
    places.insert(axis, AtIndices(ctx.constant(elements), "skip"))
    return ctx.result(node, put(array, ctx.filled(indices.shape, values.array[1:]), places))


def where(node: Node, ctx: LoweringContext, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Where: ``result = X if condition else Y``, broadcast."""
    shape = broadcast_sizes(node, condition.shape, x.shape, y.shape)
    check_bytes(node, shape, x.dtype.itemsize)
    mask, first, unmasked = ctx.arrays(condition, x, y)
    return ctx.result(node, choose_by_mask(mask, first, unmasked))


def trilu(node: Node, ctx: LoweringContext, x: Tensor, diagonal: Tensor | None = None) -> Tensor:
    """Trilu: the upper or lower triangle of matrices, and zeros elsewhere."""
    if len(x.shape) < 2:
        raise node.error(f"input has shape {list(x.shape)}", "input", "input must have 2 dimensions or more")
    k = 0 if diagonal is None else scalar(node, ctx, diagonal, "k")
    array = ctx.array(x)
    if 0 in x.shape or not ctx.runs:
        return ctx.result(node, array)
    return ctx.result(node, triangle(array, k, bool(node.get("upper"))))


def eye_like(node: Node, ctx: LoweringContext, x: Tensor) -> Tensor:
    """EyeLike: a matrix with ones on a diagonal."""
    if len(x.shape) != 2:
        raise node.error(f"input has shape {list(x.shape)}", "input", "input must have 2 dimensions")
    type_number, k = node.get("dtype"), node.get("k")
    dtype = x.dtype if type_number is None else numpy_type(type_number)
    if dtype is None or dtype.hasobject:
        raise node.error(f"dtype is {type_number}", "dtype", "dtype must be a type of numbers")
    ctx.arrays()
    row, column, count = diagonal_at(*x.shape, k)
    zeros, ones = ctx.filled(x.shape, np.zeros((), dtype)), ctx.filled((count,), np.ones((), dtype))
    return ctx.result(node, put(zeros, ones, [StridedCoordinates(0, row), StridedCoordinates(0, column)]))
