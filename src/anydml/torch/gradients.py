"""Gradients of the operators, composed of operators that are differentiable themselves.

Those of lists are PyTorch's own, which also take the batches of ``torch.autograd.grad(…, is_grads_batched=True)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from anydml.infer import axis_of
from anydml.operators.slice1 import first_copied
from anydml.torch.transforms import call


def _keep_axis(ctx: Any, inputs: Any, output: Any) -> None:
    x, axis = inputs[0], inputs[1 if isinstance(inputs[0], Sequence) else 2]
    arrays = x if isinstance(x, Sequence) else [x]
    ctx.axis = None if axis is None else axis_of("gradient", arrays[0].ndim, axis)
    ctx.lengths = [array.numel() if axis is None else array.shape[ctx.axis] for array in arrays]
    ctx.shapes = [array.shape for array in arrays]


def _keep_slice(ctx: Any, inputs: Any, output: Any) -> None:
    x, offsets, _, strides = inputs
    ctx.shape, ctx.starts, ctx.steps = x.shape, offsets, [1] * x.ndim if strides is None else strides


def _keep_slice1(ctx: Any, inputs: Any, output: Any) -> None:
    x, offsets, sizes, strides, _ = inputs
    ctx.shape, ctx.starts, ctx.steps = x.shape, tuple(map(first_copied, offsets, sizes, strides)), strides


def _keep_places(ctx: Any, inputs: Any, output: Any) -> None:
    x, _, ctx.starts, ctx.steps = inputs
    ctx.shape = x.shape


SETUP: dict[str, Callable[..., None]] = {
    "split": _keep_axis,
    "split_training": _keep_axis,
    "join": _keep_axis,
    "concat_training": _keep_axis,
    "slice": _keep_slice,
    "slice1": _keep_slice1,
    "lay_into_zeros": _keep_places,
}
"""The function that saves what the gradient needs, by operator."""


def split_backward(ctx: Any, grads: Sequence[Any]) -> tuple[Any, ...]:
    """Join the gradients of the parts."""
    return first_gradient(ctx, torch.cat([*grads], ctx.axis))


split_training_backward = split_backward


def join_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Split the gradient by the inputs' lengths."""
    parts = torch.split(grad, ctx.lengths, ctx.axis or 0)
    return first_gradient(ctx, [part.reshape(shape) for part, shape in zip(parts, ctx.shapes, strict=True)])


def concat_training_backward(ctx: Any, grad: Any, _: Any) -> tuple[Any, ...]:
    """Split the gradient by the inputs' lengths; the lengths have no gradient."""
    return join_backward(ctx, grad)


def slice_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Scatter the gradient into zeros at the window."""
    return first_gradient(ctx, call("lay_into_zeros", grad, ctx.shape, ctx.starts, ctx.steps))


slice1_backward = slice_backward


def lay_into_zeros_backward(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Slice the gradient at the window."""
    lengths = [(size - 1) * abs(step) + 1 if size else 0 for size, step in zip(ctx.shape, ctx.steps, strict=True)]
    # DML_SLICE1's window starts at its lowest coordinate, also where its stride is negative.
    lowest = [
        (start if step > 0 else start - length + 1) if length else 0
        for start, step, length in zip(ctx.starts, ctx.steps, lengths, strict=True)
    ]
    return first_gradient(ctx, call("slice1", grad, lowest, lengths, ctx.steps, ctx.shape))


def first_gradient(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Return gradients for the arguments that PyTorch passed: `grad` for the first, None for the others."""
    return grad, *[None] * (len(ctx.needs_input_grad) - 1)
