"""Selection by indices: Gather, GatherElements, GatherND, Compress and ReverseSequence."""

from __future__ import annotations

import numpy as np

from anydml.infer import picked_axis
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import Sizes, Tensor
from anydml.onnx.lowering import LoweringContext
from anydml.onnx.nodes.node_arguments import INDEX_BYTES, check_range, out_of_range_treatment
from anydml.operators.gather_nd import gather_nd_rule
from anydml.text import count_noun
from anydml.tracing import picking
from anydml.tracing.array_verbs import apply_rule, broadcast
from anydml.tracing.axes import ravel
from anydml.tracing.selecting import within


def pick(node: Node, ctx: LoweringContext, x: Tensor, indices: Tensor) -> Tensor:
    """Gather: ``result[lead, i, trail] = data[lead, indices[i], trail]``."""
    axis = node.axis(len(x.shape))
    rank = len(indices.shape)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    picked_axis(node.operator, x.shape, axis, rank, indices.size, indices.dtype)
    ctx.resolve_lookups(x)
    check_range(node, ctx, indices, x.shape[axis], axis, is_checked=0 not in shape)
    array, index = ctx.arrays(x, indices)
    if 0 in shape:
        return ctx.empty_result(node, shape, x.dtype)
    return ctx.result(node, picking.pick(array, index, axis, out_of_range_treatment(indices)))


def pick_along(node: Node, ctx: LoweringContext, x: Tensor, indices: Tensor) -> Tensor:
    """GatherElements: ``result[lead, j, trail] = data[lead, indices[lead, j, trail], trail]``."""
    axis = node.axis(len(x.shape))
    check_elements(node, x.shape, indices.shape, axis)
    ctx.resolve_lookups(x)
    check_range(node, ctx, indices, x.shape[axis], axis)
    array, index = ctx.arrays(x, indices)
    if 0 in indices.shape:
        return ctx.empty_result(node, indices.shape, x.dtype)
    if not x.shape[axis]:
        message = f"axis {axis} of data is empty, but there are indices"
        raise node.error(message, "data", "data must have an element to read")
    return ctx.result(
        node, picking.pick_along(within(array, indices.shape, axis), index, axis, out_of_range_treatment(indices))
    )


def check_elements(node: Node, data: Sizes, indices: Sizes, axis: int) -> None:
    """Check that indices have the rank of the data, and are no larger than it except along the axis.

    Raises:
        ModelError: the indices have another rank, or are too large.
    """
    fits = len(data) == len(indices) and all(
        k == axis or n <= size for k, (n, size) in enumerate(zip(indices, data, strict=True))
    )
    if not fits:
        message = f"indices have shape {list(indices)}, but data has {list(data)}, and axis is {axis}"
        raise node.error(message, "indices", "indices must be no larger than data, except along axis")


def pick_points(node: Node, ctx: LoweringContext, x: Tensor, indices: Tensor) -> Tensor:
    """GatherND: ``result[b, i] = data[b, indices[b, i, :]]``, with `batch_dims` dimensions b."""
    batch = node.get("batch_dims") or 0
    count = check_tuples(node, x.shape, indices.shape, batch)
    shape = (*indices.shape[:-1], *x.shape[batch + count :])
    ctx.resolve_lookups(x)
    for k in range(count):
        check_range(node, ctx, indices, x.shape[batch + k], k, column=k, is_checked=0 not in shape)
    array, index = ctx.arrays(x, indices)
    if 0 not in shape and 0 in x.shape[batch : batch + count]:
        raise node.error("data has no elements, but there are indices", "data", "data must have an element to read")
    if 0 in shape or not ctx.runs:
        return ctx.empty_result(node, shape, x.dtype)
    outside = out_of_range_treatment(indices)
    return ctx.result(node, apply_rule(gather_nd_rule, array, picking.index_view(index), batch, outside)[0])


def check_tuples(node: Node, data: Sizes, indices: Sizes, batch: int = 0, min_length: int = 1) -> int:
    """Return the number of coordinates of an index tuple.

    Raises:
        ModelError: there are fewer than `min_length` or more than the data has dimensions, or the batches differ.
    """
    if not indices or not data:
        raise node.error("data or indices are a scalar", "indices", "data and indices must have dimensions")
    if not 0 <= batch < min(len(indices), len(data)) or data[:batch] != indices[:batch]:
        message = f"batch_dims is {batch}, data has shape {list(data)} and indices {list(indices)}"
        raise node.error(message, "batch_dims", "the first batch_dims sizes of data and indices must be equal")
    length, max_length = indices[-1], len(data) - batch
    if not min_length <= length <= max_length:
        message = f"indices have {count_noun(length, 'coordinate')}, but data has {count_noun(max_length, 'dimension')}"
        raise node.error(message, "indices", f"an index must have {min_length} to {max_length} coordinates")
    return length


def compress(node: Node, ctx: LoweringContext, x: Tensor, condition: Tensor) -> Tensor:
    """Compress: select the elements, or the slices along an axis, where a condition holds."""
    if len(condition.shape) != 1:
        raise node.error(
            f"condition has shape {list(condition.shape)}", "condition", "condition must be one-dimensional"
        )
    is_flat = node.get("axis") is None
    axis = 0 if is_flat else node.axis(len(x.shape))
    size = x.size if is_flat else x.shape[axis]
    indices = np.flatnonzero(ctx.known_elements(node, condition, "condition"))
    if indices.size and indices[-1] >= size:
        message = f"condition holds at {indices[-1]}, but axis {axis} has size {size}"
        raise node.unenforced(message, "condition", "condition must be no longer than the axis")
    if not is_flat:
        ctx.resolve_lookups(x)
    array = ctx.array(x)
    return ctx.result(node, picking.pick(ravel(array) if is_flat else array, indices, axis))


def reverse_sequence(node: Node, ctx: LoweringContext, x: Tensor, sequence_lens: Tensor) -> Tensor:
    """ReverseSequence: reverse the first elements along the time axis, as many as `sequence_lens` has per sample."""
    batch, time = node.get("batch_axis"), node.get("time_axis")
    if {batch, time} != {0, 1} or len(x.shape) < 2:
        message = f"batch_axis is {batch}, time_axis is {time} and the rank is {len(x.shape)}"
        raise node.error(message, "time_axis", "one must be 0, the other 1")
    size, count = x.shape[time], x.shape[batch]
    if sequence_lens.shape != (count,):
        message = (
            f"sequence_lens has shape {list(sequence_lens.shape)}, but the batch has {count_noun(count, 'sample')}"
        )
        raise node.error(message, "sequence_lens", "sequence_lens must have one length per sample")
    ctx.resolve_lookups(x)
    first = ctx.elements(sequence_lens)
    if first is not None and first.size and not (first.min() >= 0 and first.max() <= size):
        message = f"sequence_lens are {first.min()} to {first.max()}, but axis {time} has size {size}"
        raise node.error(message, "sequence_lens", "lengths must be 0 to the size of the time axis")
    array = ctx.array(x)
    if 0 in x.shape or first is None or not ctx.runs:
        return ctx.result(node, array)
    ctx.require_memory(node, 2 * INDEX_BYTES * size * count)
    steps = np.arange(size)[:, None]
    places = np.where(steps < first, first - 1 - steps, steps)
    places = np.ascontiguousarray(places if time == 0 else places.T)
    index = ctx.constant(places.reshape(*places.shape, *(1,) * (len(x.shape) - 2)))
    return ctx.result(node, picking.pick_along(array, broadcast(index, x.shape), time, "clamp"))
