"""Gradient and batching rule of gather, cheaper than the generic ones."""

from __future__ import annotations

import math
from typing import Any

import torch

from anydml.arrays.pytorch import TorchAdapter
from anydml.arrays.receive import check_place
from anydml.functions.arguments import check_word
from anydml.infer import axis_of, picked_axis
from anydml.operators.registry import FUNCTIONS
from anydml.torch.batching import batch_first
from anydml.torch.gradients import first_gradient
from anydml.torch.shapes import is_integer
from anydml.torch.transforms import Rules, call

NAME = "gather"
"""The function of these rules."""


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, indices, axis, _ = inputs
    ctx.save_for_backward(indices)
    ctx.shape, ctx.axis = x.shape, axis_of(NAME, x.ndim, axis)


def _backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Accumulate the gradient at the elements that were read."""
    (indices,) = ctx.saved_tensors
    axis, size = ctx.axis, ctx.shape[ctx.axis]
    flat = grad.flatten(axis, axis + indices.ndim - 1) if indices.ndim else grad.unsqueeze(axis)
    zeros = grad.new_zeros(ctx.shape)
    return first_gradient(ctx, zeros.index_add(axis, _coordinates(indices, size).reshape(-1), flat))


def _batch(
    info: Any, in_dims: Any, x: Any, indices: Any, axis: int = 0, out_of_range: str = "error"
) -> tuple[Any, Any]:
    """Gather where x, the indices or both are batched.

    Where both are, the samples are concatenated along the axis, and the indices of sample b offset by b times its size.
    """
    of_x, of_indices, *_ = in_dims
    check_word(NAME, "out_of_range", out_of_range, FUNCTIONS[NAME].parameter("out_of_range").words)
    check_place(NAME, "indices", TorchAdapter(indices), TorchAdapter(x), "x")
    axis = _checked_axis(x, of_x, indices, of_indices, axis)
    if of_indices is None:
        x, axis = batch_first(x, of_x, axis)
        return call(NAME, x, indices, axis, out_of_range), 0
    indices = indices.movedim(of_indices, 0)
    if of_x is None:
        return call(NAME, x, indices, axis, out_of_range), axis
    x, axis = batch_first(x, of_x, axis)
    size = x.shape[axis]
    if out_of_range == "error":
        # Checks all indices; the offset ones below are always in range.
        call(NAME, x, indices, axis, out_of_range)
    starts = torch.arange(x.shape[0], device=x.device).mul(size).reshape(-1, *[1] * (indices.ndim - 1))
    rows = x.movedim(0, axis - 1).flatten(axis - 1, axis)
    return call(NAME, rows, _coordinates(indices, size) + starts, axis - 1, "clamp"), axis - 1


def _checked_axis(x: Any, of_x: int | None, indices: Any, of_indices: int | None, axis: int) -> int:
    """Check the arguments as they are for one sample; return the sample's axis, counted from 0."""
    shape, own = _sample_shape(x, of_x), _sample_shape(indices, of_indices)
    dtype, is_known = str(indices.dtype).removeprefix("torch."), is_integer(indices.dtype, own)
    return picked_axis(NAME, shape, axis, len(own), math.prod(own), dtype, is_known)


def _sample_shape(x: Any, batch: int | None) -> tuple[int, ...]:
    sizes = list(x.shape)
    if batch is not None:
        del sizes[batch]
    return tuple(sizes)


def _coordinates(indices: Any, size: int) -> Any:
    """Return indices as INT64 coordinates: negative ones of a signed type count from the end, then all are clamped."""
    wide = indices.to(torch.int64)
    if indices.dtype is torch.uint64:
        # Indices of 2^63 and above have wrapped to negative numbers.
        return torch.where(wide < 0, size - 1, wide.clamp(max=size - 1))
    return torch.where(wide < 0, wide + size, wide).clamp(0, torch.sym_max(size - 1, 0))


RULES = Rules(_setup, _backward, _batch)
"""The rules of gather."""
