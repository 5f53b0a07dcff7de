"""Elements picked along an axis: the gradient and batches that are cheaper than what all functions have."""

from __future__ import annotations

import math
from typing import Any

import torch

from anydml.arrays.pytorch import TorchAdapter
from anydml.arrays.receive import check_place
from anydml.functions.arguments import check_word
from anydml.infer import axis_of, picked_axis
from anydml.operators.registry import FUNCTIONS
from anydml.torch.batching import in_front
from anydml.torch.gradients import first
from anydml.torch.shapes import is_integer
from anydml.torch.transforms import Rules, call

NAME = "gather"
"""The function whose rules stand here."""


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    x, indices, axis, _ = inputs
    ctx.save_for_backward(indices)
    ctx.shape, ctx.axis = x.shape, axis_of(NAME, x.ndim, axis)


def _backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Added up at the elements that were read."""
    (indices,) = ctx.saved_tensors
    axis, size = ctx.axis, ctx.shape[ctx.axis]
    flat = grad.flatten(axis, axis + indices.ndim - 1) if indices.ndim else grad.unsqueeze(axis)
    zeros = grad.new_zeros(ctx.shape)
    return first(ctx, zeros.index_add(axis, _coordinates(indices, size).reshape(-1), flat))


def _batch(
    info: Any, in_dims: Any, x: Any, indices: Any, axis: int = 0, out_of_range: str = "error"
) -> tuple[Any, Any]:
    """A batch of tensors, of indices, or of both: then sample b reads behind the first b samples' elements."""
    of_x, of_indices, *_ = in_dims
    check_word(NAME, "out_of_range", out_of_range, FUNCTIONS[NAME].parameter("out_of_range").words)
    check_place(NAME, "indices", TorchAdapter(indices), TorchAdapter(x), "x")
    axis = _checked_axis(x, of_x, indices, of_indices, axis)
    if of_indices is None:
        x, axis = in_front(x, of_x, axis)
        return call(NAME, x, indices, axis, out_of_range), 0
    indices = indices.movedim(of_indices, 0)
    if of_x is None:
        return call(NAME, x, indices, axis, out_of_range), axis
    x, axis = in_front(x, of_x, axis)
    size = x.shape[axis]
    if out_of_range == "error":
        # Of all samples' indices: a sample's own places are never out of range again.
        call(NAME, x, indices, axis, out_of_range)
    starts = torch.arange(x.shape[0], device=x.device).mul(size).reshape(-1, *[1] * (indices.ndim - 1))
    rows = x.movedim(0, axis - 1).flatten(axis - 1, axis)
    return call(NAME, rows, _coordinates(indices, size) + starts, axis - 1, "clamp"), axis - 1


def _checked_axis(x: Any, of_x: int | None, indices: Any, of_indices: int | None, axis: int) -> int:
    """A sample's axis, where a sample may be looked up."""
    shape, own = _sample_shape(x, of_x), _sample_shape(indices, of_indices)
    dtype, is_known = str(indices.dtype).removeprefix("torch."), is_integer(indices.dtype, own)
    return picked_axis(NAME, shape, axis, len(own), math.prod(own), dtype, is_known)


def _sample_shape(x: Any, batch: int | None) -> tuple[int, ...]:
    sizes = list(x.shape)
    if batch is not None:
        del sizes[batch]
    return tuple(sizes)


def _coordinates(indices: Any, size: int) -> Any:
    """What indices stand for: negative ones of a signed type count from the end, then all are clamped (INT64)."""
    wide = indices.to(torch.int64)
    if indices.dtype is torch.uint64:
        # Those from 2^63 on have become negative.
        return torch.where(wide < 0, size - 1, wide.clamp(max=size - 1))
    return torch.where(wide < 0, wide + size, wide).clamp(0, torch.sym_max(size - 1, 0))


RULES = Rules(_setup, _backward, _batch)
"""Its rules."""
