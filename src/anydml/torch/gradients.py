"""The operators' gradients. Each is made of operators that have gradients themselves, so that all can be repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from anydml.infer import axis_of
from anydml.operators.slice1 import copy_start
from anydml.torch.transforms import call


def _keep_axis(ctx: Any, inputs: Any, output: Any) -> None:
    x, axis = inputs[0], inputs[1 if isinstance(inputs[0], Sequence) else 2]
    arrays = x if isinstance(x, Sequence) else [x]
    ctx.axis = axis_of("gradient", arrays[0].ndim, axis)
    ctx.lengths = [array.shape[ctx.axis] for array in arrays]


def _keep_slice(ctx: Any, inputs: Any, output: Any) -> None:
    x, offsets, _, strides = inputs
    ctx.shape, ctx.starts, ctx.steps = x.shape, offsets, [1] * x.ndim if strides is None else strides


def _keep_slice1(ctx: Any, inputs: Any, output: Any) -> None:
    x, offsets, sizes, strides, _ = inputs
    ctx.shape, ctx.starts, ctx.steps = x.shape, copy_start(offsets, sizes, strides), strides


def _keep_places(ctx: Any, inputs: Any, output: Any) -> None:
    x, _, ctx.starts, ctx.steps = inputs
    ctx.shape = x.shape


def _keep_indices(ctx: Any, inputs: Any, output: Any) -> None:
    x, indices, axis, _ = inputs
    ctx.save_for_backward(indices)
    ctx.shape, ctx.axis = x.shape, axis_of("gather", x.ndim, axis)


SETUP: dict[str, Callable[..., None]] = {
    "split": _keep_axis,
    "split_training": _keep_axis,
    "join": _keep_axis,
    "concat_training": _keep_axis,
    "slice": _keep_slice,
    "slice1": _keep_slice1,
    "gather": _keep_indices,
    "lay_into_zeros": _keep_places,
}
"""What each operator keeps for its gradient."""


def split_backward(ctx: Any, grads: Sequence[Any]) -> tuple[Any, ...]:
    """Joined."""
    return _first(ctx, call("join", grads, ctx.axis))


def split_training_backward(ctx: Any, grads: Sequence[Any]) -> tuple[Any, ...]:
    """Joined; sizes have no gradient."""
    return _first(ctx, call("join", grads, ctx.axis))


def join_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Split."""
    return _first(ctx, call("split", grad, ctx.lengths, ctx.axis))


def concat_training_backward(ctx: Any, grad: Any, _: Any) -> tuple[Any, ...]:
    """Split; lengths have no gradient."""
    return _first(ctx, call("split", grad, ctx.lengths, ctx.axis))


def slice_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Laid into zeros."""
    return _first(ctx, call("lay_into_zeros", grad, ctx.shape, ctx.starts, ctx.steps))


def slice1_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Laid into zeros."""
    return _first(ctx, call("lay_into_zeros", grad, ctx.shape, ctx.starts, ctx.steps))


def lay_into_zeros_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Taken out again."""
    lengths = [(size - 1) * abs(step) + 1 if size else 0 for size, step in zip(ctx.shape, ctx.steps, strict=True)]
    # A window begins at its lowest coordinate, whichever way it is read.
    lowest = [
        (start if step > 0 else start - length + 1) if length else 0
        for start, step, length in zip(ctx.starts, ctx.steps, lengths, strict=True)
    ]
    return _first(ctx, call("slice1", grad, lowest, lengths, ctx.steps, ctx.shape))


def gather_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Added up at the elements that were read."""
    (indices,) = ctx.saved_tensors
    axis, size = ctx.axis, ctx.shape[ctx.axis]
    flat = grad.flatten(axis, axis + indices.ndim - 1) if indices.ndim else grad.unsqueeze(axis)
    zeros = grad.new_zeros(ctx.shape)
    return _first(ctx, zeros.index_add(axis, coordinates(indices, size).reshape(-1), flat))


def _first(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """The first argument's gradient, and None for each other that was given: PyTorch leaves out defaults at the end."""
    return grad, *[None] * (len(ctx.needs_input_grad) - 1)


def coordinates(indices: Any, size: int) -> Any:
    """What indices stand for: negative ones of a signed type count from the end, then all are clamped (INT64)."""
    wide = indices.to(torch.int64)
    if indices.dtype is torch.uint64:
        # Those from 2^63 on have become negative.
        return torch.where(wide < 0, size - 1, wide.clamp(max=size - 1))
    return torch.where(wide < 0, wide + size, wide).clamp(0, torch.sym_max(size - 1, 0))
