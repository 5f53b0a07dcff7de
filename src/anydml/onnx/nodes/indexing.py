"""Selection by indices: Gather, GatherElements, GatherND and ReverseSequence."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from anydml.infer import picked_axis
from anydml.moves.value import Value
from anydml.onnx.graph import Node
from anydml.onnx.lowering import LoweringContext, check_bytes
from anydml.onnx.nodes.arguments import Inputs, check_range, index_type, outside, required
from anydml.onnx.nodes.picking import INDEX_BYTES
from anydml.onnx.parameters import picked_sizes
from anydml.onnx.tensors import check_rank
from anydml.onnx.values import GraphValue, Sizes, Tensor
from anydml.text import counted


def pick(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """``result[lead, i, trail] = data[lead, indices[i], trail]``."""
    x, indices = required(node, inputs, 0, "data"), required(node, inputs, 1, "indices")
    index_type(node, indices)
    axis = node.axis(len(x.shape))
    shape = picked_sizes(node, x.shape, indices.shape, axis)
    rank, count = len(indices.shape), indices.size
    picked_axis(node.operator, x.shape, axis, rank, count, indices.dtype)
    check_bytes(node, shape, x.dtype.itemsize)
    ctx.resolve_lookups(x)
    if ctx.readable(indices) and indices.array is not None:
        check_range(node, indices.array, x.shape[axis], axis)
    value, index = ctx.values(x, indices)
    if 0 in shape:
        return (ctx.result(node, Value(shape, value.element_size, ()), x.dtype),)
    return (ctx.result(node, ctx.composer.pick(value, index, indices.dtype.name, axis, outside(indices)), x.dtype),)


def pick_along(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """``result[lead, j, trail] = data[lead, indices[lead, j, trail], trail]``."""
    x, indices = required(node, inputs, 0, "data"), required(node, inputs, 1, "indices")
    index_type(node, indices)
    axis = node.axis(len(x.shape))
    check_elements(node, x.shape, indices.shape, axis)
    ctx.resolve_lookups(x)
    if ctx.readable(indices) and indices.array is not None:
        check_range(node, indices.array, x.shape[axis], axis)
    value, index = ctx.values(x, indices)
    if 0 in indices.shape:
        return (ctx.result(node, Value(indices.shape, value.element_size, ()), x.dtype),)
    if not x.shape[axis]:
        raise node.error(
            f"axis {axis} of data is empty, but there are indices", "data", "there must be an element to read"
        )
    sizes = (*indices.shape[:axis], x.shape[axis], *indices.shape[axis + 1 :])
    value = ctx.composer.slice(value, [0] * len(sizes), sizes, [1] * len(sizes))
    return (
        ctx.result(node, ctx.composer.pick_along(value, index, indices.dtype.name, axis, outside(indices)), x.dtype),
    )


def check_elements(node: Node, data: Sizes, indices: Sizes, axis: int) -> None:
    """Check that indices have the rank of the data, and are no larger than it except along the axis.

    Raises:
        ModelError: they do not.
    """
    fits = len(data) == len(indices) and all(
        k == axis or n <= size for k, (n, size) in enumerate(zip(indices, data, strict=True))
    )
    if not fits:
        message = f"indices have shape {list(indices)}, but data has {list(data)}, and axis is {axis}"
        raise node.error(message, "indices", "indices must be no larger than data but along axis")


def pick_points(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """``result[b, i] = data[b, indices[b, i, :]]``, with `batch_dims` dimensions b."""
    x, indices = required(node, inputs, 0, "data"), required(node, inputs, 1, "indices")
    index_type(node, indices)
    batch = node.integer("batch_dims", 0) if node.version >= 12 else 0
    assert batch is not None, "it has a default"
    count = check_tuples(node, x.shape, indices.shape, batch)
    shape = (*indices.shape[:-1], *x.shape[batch + count :])
    check_rank(f"{node.label}: the result", len(shape))
    check_bytes(node, shape, x.dtype.itemsize)
    ctx.resolve_lookups(x)
    check_tuple_range(node, ctx, indices, x.shape[batch:])
    value, index = ctx.values(x, indices)
    if 0 in shape:
        return (ctx.result(node, Value(shape, value.element_size, ()), x.dtype),)
    if 0 in x.shape[batch : batch + count]:
        raise node.error("data is empty, but there are indices", "data", "there must be an element to read")
    if not ctx.runs:
        return (ctx.result(node, Value(shape, value.element_size, ()), x.dtype),)
    # Batch axes are looked up, too, by their own coordinates, so that there is one lookup per axis.
    rank, places = len(indices.shape) - 1, []
    ctx.require_memory(node, INDEX_BYTES * sum(x.shape[:batch]))
    for k in range(batch):
        counting = np.arange(x.shape[k], dtype=np.int64).reshape(-1, *(1,) * (rank - k - 1))
        places.append((k, ctx.composer.broadcast(ctx.source(counting), indices.shape[:-1]), "int64"))
    for k in range(count):
        sizes = (*indices.shape[:-1], 1)
        column = ctx.composer.slice(index, [0] * rank + [k], sizes, [1] * (rank + 1))
        places.append((batch + k, ctx.composer.reshape(column, indices.shape[:-1]), indices.dtype.name))
    return (ctx.result(node, ctx.composer.pick_points(value, places, outside(indices)), x.dtype),)


def check_tuples(node: Node, data: Sizes, indices: Sizes, batch: int = 0, least: int = 1) -> int:
    """Return the number of coordinates of an index tuple.

    Raises:
        ModelError: there are fewer than `least` or more than the data has dimensions, or the batches differ.
    """
    if not indices or not data:
        raise node.error("data or indices are a scalar", "indices", "data and indices must have dimensions")
    if not 0 <= batch < min(len(indices), len(data)) or data[:batch] != indices[:batch]:
        message = f"batch_dims is {batch}, data has shape {list(data)} and indices {list(indices)}"
        raise node.error(message, "batch_dims", "the first batch_dims sizes must agree")
    if not least <= indices[-1] <= len(data) - batch:
        message = (
            f"indices have {counted(indices[-1], 'coordinate')}, but data has {counted(len(data) - batch, 'dimension')}"
        )
        raise node.error(
            message, "indices", f"an index must have {least} to as many coordinates as data has dimensions"
        )
    return indices[-1]


def check_tuple_range(node: Node, ctx: LoweringContext, indices: Tensor, sizes: Sizes) -> None:
    """Check that the coordinates of index tuples are in range, if their elements are known.

    Raises:
        ModelError: a coordinate is out of range.
    """
    if ctx.readable(indices) and indices.array is not None:
        for k in range(indices.shape[-1]):
            check_range(node, indices.array[..., k], sizes[k], k)


def reverse_sequence(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """ReverseSequence: reverse the first elements along the time axis, as many as `sequence_lens` has per sample."""
    x, lengths = required(node, inputs, 0, "input"), required(node, inputs, 1, "sequence_lens")
    batch, time = node.integer("batch_axis", 1), node.integer("time_axis", 0)
    if {batch, time} != {0, 1} or len(x.shape) < 2:
        message = f"batch_axis is {batch}, time_axis is {time} and the rank is {len(x.shape)}"
        raise node.error(message, "time_axis", "one must be 0, the other 1")
    assert batch is not None and time is not None, "they have defaults"  # noqa: PT018
    if lengths.shape != (x.shape[batch],) or lengths.dtype != np.int64:
        message = f"sequence_lens is {lengths.dtype} of shape {list(lengths.shape)}, but the batch is {x.shape[batch]}"
        raise node.error(message, "sequence_lens", "sequence_lens must be INT64, one entry of the batch each")
    size, count = x.shape[time], x.shape[batch]
    ctx.resolve_lookups(x)
    first = lengths.array if ctx.stored(lengths) else None
    if first is not None and first.size and not (first.min() >= 0 and first.max() <= size):
        message = f"sequence_lens are {first.min()} to {first.max()}, but axis {time} has size {size}"
        raise node.error(message, "sequence_lens", "lengths must be 0 to the size of the time axis")
    (value,) = ctx.values(x)
    if 0 in x.shape or not ctx.runs:
        return (ctx.result(node, value, x.dtype),)
    ctx.require_memory(node, 2 * INDEX_BYTES * size * count)
    first = np.zeros(count, np.int64) if first is None else first
    steps = np.arange(size)[:, None]
    places = np.where(steps < first, first - 1 - steps, steps)
    places = np.ascontiguousarray(places if time == 0 else places.T)
    index = ctx.source(places.reshape(*places.shape, *(1,) * (len(x.shape) - 2)))
    index = ctx.composer.broadcast(index, x.shape)
    return (ctx.result(node, ctx.composer.pick_along(value, index, "int64", time), x.dtype),)
