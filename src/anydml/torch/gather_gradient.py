"""Gradient and batching rule of `gather`, cheaper than the generic ones."""

from __future__ import annotations

import math
from typing import Any

import torch

from anydml.arrays.pytorch import TorchAdapter
from anydml.arrays.receive import check_place
from anydml.functions.argument_conversion import check_word
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
    flat = grad.reshape(*ctx.shape[:axis], indices.numel(), *ctx.shape[axis + 1 :])
    zeros = grad.new_zeros(ctx.shape)
    return first_gradient(ctx, zeros.index_add(axis, _coordinates(indices, size).reshape(-1), flat))


def _batch(
    info: Any, in_dims: Any, x: Any, indices: Any, axis: int = 0, out_of_range: str = "error"
) -> tuple[Any, Any]:
    """Gather where x, the indices or both are batched.

    If both are, the samples of x are concatenated along the axis, and the indices of sample b are offset by b times the
    size of the axis.
    """
    x_dim, indices_dim, *_ = in_dims
    check_word(NAME, "out_of_range", out_of_range, FUNCTIONS[NAME].parameter("out_of_range").words)
    check_place(NAME, "indices", TorchAdapter(indices), TorchAdapter(x), "x")
    axis = _checked_axis(x, x_dim, indices, indices_dim, axis)
    if indices_dim is None:
        x, axis = batch_first(x, x_dim, axis)
        return call(NAME, x, indices, axis, out_of_range), 0
    indices = indices.movedim(indices_dim, 0)
    if x_dim is None:
        return call(NAME, x, indices, axis, out_of_range), axis
    x, axis = batch_first(x, x_dim, axis)
    size = x.shape[axis]
    starts = torch.arange(x.shape[0], device=x.device).mul(size).reshape(-1, *[1] * (indices.ndim - 1))
    rows = x.movedim(0, axis - 1).flatten(axis - 1, axis)
    return call(NAME, rows, _coordinates(indices, size, out_of_range) + starts, axis - 1, "clamp"), axis - 1


def _checked_axis(x: Any, x_dim: int | None, indices: Any, indices_dim: int | None, axis: int) -> int:
    """Check the arguments of one sample; return its axis, counted from 0."""
    shape, picked = _sample_shape(x, x_dim), _sample_shape(indices, indices_dim)
    dtype = str(indices.dtype).removeprefix("torch.")
    return picked_axis(NAME, shape, axis, len(picked), math.prod(picked), dtype, is_integer(indices.dtype, picked))


def _sample_shape(x: Any, batch_dim: int | None) -> tuple[int, ...]:
    sizes = list(x.shape)
    if batch_dim is not None:
        del sizes[batch_dim]
    return tuple(sizes)


def _coordinates(indices: Any, size: int, out_of_range: str = "clamp") -> Any:
    """Return the coordinates that are read, as INT64."""
    return call(NAME, torch.arange(size, device=indices.device), indices, 0, out_of_range)


RULES = Rules(_setup, _backward, _batch)
"""The rules of gather."""
