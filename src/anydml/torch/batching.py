"""Batching rules for torch.vmap: each moves the batch to dimension 0 and calls the operator once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anydml.infer import axis_of
from anydml.torch.transforms import call


def split(info: Any, in_dims: Any, x: Any, sizes: Sequence[int], axis: int = 0) -> tuple[Any, Any]:
    """Split along the axis after the batch."""
    x, axis = batch_first(x, in_dims[0], axis)
    parts = call("split", x, sizes, axis)
    return parts, [0] * len(parts)


def split_training(
    info: Any, in_dims: Any, x: Any, split: Any, axis: int = 0, num_outputs: int | None = None
) -> tuple[Any, Any]:
    """Split along the axis after the batch.

    Raises:
        ValueError: `split` is batched, which would make the results ragged.
    """
    if in_dims[1] is not None:
        raise ValueError("split_training: split is batched by vmap: parts of different sizes have no common shape")
    x, axis = batch_first(x, in_dims[0], axis)
    parts = call("split_training", x, split, axis, num_outputs)
    return parts, [0] * len(parts)


def join(info: Any, in_dims: Any, arrays: Sequence[Any], axis: int | None = 0) -> tuple[Any, Any]:
    """Join along the axis after the batch; arrays without a batch are broadcast."""
    if axis is None:
        flat = [array.reshape(info.batch_size, -1) for array in _each_batch_first(info, in_dims[0], arrays)]
        return call("join", flat, 1), 0
    arrays, axis = _all_batch_first(info, in_dims[0], arrays, axis)
    return call("join", arrays, axis), 0


def concat_training(info: Any, in_dims: Any, arrays: Sequence[Any], axis: int = 0) -> tuple[Any, Any]:
    """Join along the axis after the batch; the lengths have no batch."""
    arrays, axis = _all_batch_first(info, in_dims[0], arrays, axis)
    return call("concat_training", arrays, axis), (0, None)


def slice(
    info: Any, in_dims: Any, x: Any, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int] | None = None
) -> tuple[Any, Any]:
    """Slice with a window that covers the whole batch."""
    x = x.movedim(in_dims[0], 0)
    return call("slice", x, [0, *offsets], [x.shape[0], *sizes], None if strides is None else [1, *strides]), 0


def slice1(
    info: Any,
    in_dims: Any,
    x: Any,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> tuple[Any, Any]:
    """Slice with a window that covers the whole batch."""
    x = x.movedim(in_dims[0], 0)
    batch = x.shape[0]
    sizes = None if output_sizes is None else [batch, *output_sizes]
    return call("slice1", x, [0, *window_offsets], [batch, *window_sizes], [1, *window_strides], sizes), 0


def lay_into_zeros(
    info: Any, in_dims: Any, x: Any, sizes: Sequence[int], starts: Sequence[int], steps: Sequence[int]
) -> tuple[Any, Any]:
    """Scatter with a window that covers the whole batch."""
    x = x.movedim(in_dims[0], 0)
    return call("lay_into_zeros", x, [x.shape[0], *sizes], [0, *starts], [1, *steps]), 0


def gather_elements(info: Any, in_dims: Any, x: Any, indices: Any, axis: int = 0, *mode: str) -> tuple[Any, Any]:
    """Gather along the axis after the batch; an input without a batch is broadcast."""
    (x, indices), axis = _all_batch_first(info, in_dims[:2], [x, indices], axis)
    return call("gather_elements", x, indices, axis, *mode), 0


def gather_nd(info: Any, in_dims: Any, x: Any, indices: Any, batch_dims: int = 0, *mode: str) -> tuple[Any, Any]:
    """Gather with one more batch dimension; an input without a batch is broadcast."""
    x, indices = _each_batch_first(info, in_dims[:2], [x, indices])
    # The operator refuses a negative number.
    return call("gather_nd", x, indices, batch_dims + (batch_dims >= 0), *mode), 0


def scatter(info: Any, in_dims: Any, x: Any, indices: Any, updates: Any, axis: int = 0, *mode: str) -> tuple[Any, Any]:
    """Scatter along the axis after the batch; what has no batch is broadcast."""
    arrays, axis = _all_batch_first(info, in_dims[:3], [x, indices, updates], axis)
    return call("scatter", *arrays, axis, *mode), 0


def scatter_nd(info: Any, in_dims: Any, x: Any, indices: Any, updates: Any, *mode: str) -> tuple[Any, Any]:
    """Scatter with the sample's number as the first coordinate; what has no batch is broadcast."""
    x, indices, updates = _each_batch_first(info, in_dims[:3], [x, indices, updates])
    # UINT64 holds more than INT64; the other types may hold fewer than there are samples.
    dtype = indices.dtype if indices.dtype == torch.uint64 else torch.int64
    numbers = torch.arange(info.batch_size, device=indices.device).to(dtype)
    numbers = numbers.view(-1, *[1] * (indices.ndim - 1)).expand(*indices.shape[:-1], 1)
    return call("scatter_nd", x, torch.cat([numbers, indices.to(dtype)], -1), updates, *mode), 0


def one_hot(
    info: Any, in_dims: Any, indices: Any, values: Any, depth: int, axis: int = -1, *mode: str
) -> tuple[Any, Any]:
    """Encode with the axis after the batch; of values in batches, each sample's are selected."""
    indices, values = _each_batch_first(info, in_dims[:2], [indices, values])
    axis = axis_of("vmap", indices.ndim, axis) + 1
    if in_dims[1] is None:
        return call("one_hot", indices, values[0], depth, axis, *mode), 0
    is_on = call("one_hot", indices, torch.tensor([False, True], device=indices.device), depth, axis, *mode)
    off, on = values.view(-1, 2, *[1] * indices.ndim).unbind(1)
    return torch.where(is_on, on, off), 0


def reverse_subsequences(info: Any, in_dims: Any, x: Any, lengths: Any, axis: int = -1) -> tuple[Any, Any]:
    """Reverse along the axis after the batch; what has no batch is broadcast."""
    arrays, axis = _all_batch_first(info, in_dims[:2], [x, lengths], axis)
    return call("reverse_subsequences", *arrays, axis), 0


def where(info: Any, in_dims: Any, condition: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Select with the batch before the dimensions that broadcasting adds to a sample."""
    tensors = _each_batch_first(info, in_dims, [condition, x, y])
    ndim = max(tensor.ndim for tensor in tensors)
    aligned = [tensor[:, *[None] * (ndim - tensor.ndim)] for tensor in tensors]
    return call("where", *aligned), 0


def batch_first(x: Any, batch: int, axis: int) -> tuple[Any, int]:
    """Move the batch to dimension 0; return the result and the sample's `axis` in it."""
    x = x.movedim(batch, 0)
    return x, _batched_axis(x, axis)


def _all_batch_first(
    info: Any, batches: Sequence[int | None], arrays: Sequence[Any], axis: int
) -> tuple[list[Any], int]:
    moved = _each_batch_first(info, batches, arrays)
    return moved, _batched_axis(moved[0], axis)


def _each_batch_first(info: Any, batches: Sequence[int | None], arrays: Sequence[Any]) -> list[Any]:
    return [
        array.expand(info.batch_size, *array.shape) if batch is None else array.movedim(batch, 0)
        for array, batch in zip(arrays, batches, strict=True)
    ]


def _batched_axis(x: Any, axis: int) -> int:
    """Return the axis of `x`, batch first, that is `axis` of a sample."""
    return axis_of("vmap", x.ndim - 1, axis) + 1
