"""What each operator does to tensors that have memory, and its schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from anydml import functions, infer
from anydml.arrays.pytorch import TorchAdapter
from anydml.functions.arguments import split_sizes
from anydml.operators.slice_grad import laid_into_zeros


def split(x: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """See `anydml.split`."""
    if x.is_cpu:
        return functions.split(_real(x), sizes, axis)
    axis = infer.axis_of("split", x.ndim, axis)
    sizes = infer.part_sizes("split", sizes, x.shape[axis], axis)
    return functions.split(_real(x), sizes, axis, out=_parts(x, sizes, axis))


def join(arrays: Sequence[Any], axis: int = 0) -> Any:
    """See `anydml.join`."""
    return functions.join([_real(array) for array in arrays], axis)


def slice_(x: Any, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> Any:
    """See `anydml.slice`."""
    return functions.slice(_real(x), offsets, sizes, strides)


def slice1(
    x: Any,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> Any:
    """See `anydml.slice1`."""
    return functions.slice1(_real(x), window_offsets, window_sizes, window_strides, output_sizes)


def gather(x: Any, indices: Any, axis: int = 0, out_of_range: Any = "clamp") -> Any:
    """See `anydml.gather`."""
    return functions.gather(_real(x), indices, axis, out_of_range=out_of_range)


def split_training(x: Any, split: Any, axis: int = 0, num_outputs: int | None = None) -> list[Any]:
    """See `anydml.split_training`."""
    if x.is_cpu:
        return functions.split_training(_real(x), split, axis, num_outputs)
    axis = infer.axis_of("SplitTraining", x.ndim, axis)
    sizes = split_sizes("SplitTraining", split, num_outputs, x.shape[axis], axis)
    return functions.split_training(_real(x), sizes, axis, out=_parts(x, sizes, axis))


def concat_training(arrays: Sequence[Any], axis: int = 0) -> tuple[Any, Any]:
    """See `anydml.concat_training`."""
    joined, lengths = functions.concat_training([_real(array) for array in arrays], axis)
    return joined, lengths


def lay_into_zeros(x: Any, sizes: Sequence[int], starts: Sequence[int], steps: Sequence[int]) -> Any:
    """``result[starts + steps · c] = x[c]``, and 0 elsewhere: the gradient of slice and slice1."""
    sizes, starts, steps = laid_into_zeros("lay_into_zeros", tuple(x.shape), sizes, starts, steps)
    zeros = x.new_zeros(sizes)
    window = zeros
    for d, (start, step, size) in enumerate(zip(starts, steps, x.shape, strict=True)):
        length = (size - 1) * abs(step) + 1 if size else 0
        lowest = start if step > 0 else start - length + 1
        window = window.narrow(d, lowest if size else 0, length)
        window = window[(slice(None),) * d + (slice(None, None, abs(step)),)]
    whole = [1 if step > 0 else -1 for step in steps]
    functions.slice1(_real(x), [0] * x.ndim, x.shape, whole, out=window)
    return zeros


def _real(tensor: Any) -> TorchAdapter:
    # Not the tensor itself: while PyTorch compiles, the functions would call the operators again.
    return TorchAdapter(tensor.detach() if tensor.requires_grad else tensor)


def _parts(x: Any, sizes: Sequence[int], axis: int) -> list[Any]:
    # Results of PyTorch's operators share no memory; the parts that the GPU engine makes would.
    return [x.new_empty(shape) for shape in infer.part_shapes(tuple(x.shape), tuple(sizes), axis)]


_KERNELS: dict[str, tuple[Callable[..., Any], str]] = {
    "split": (split, "(Tensor x, SymInt[] sizes, int axis=0) -> Tensor[]"),
    "join": (join, "(Tensor[] arrays, int axis=0) -> Tensor"),
    "slice": (slice_, "(Tensor x, SymInt[] offsets, SymInt[] sizes, SymInt[] strides) -> Tensor"),
    "slice1": (
        slice1,
        "(Tensor x, SymInt[] window_offsets, SymInt[] window_sizes, SymInt[] window_strides, "
        "SymInt[]? output_sizes=None) -> Tensor",
    ),
    "gather": (gather, '(Tensor x, Tensor indices, int axis=0, str out_of_range="clamp") -> Tensor'),
    "split_training": (split_training, "(Tensor x, Tensor split, int axis=0, int? num_outputs=None) -> Tensor[]"),
    "concat_training": (concat_training, "(Tensor[] arrays, int axis=0) -> (Tensor, Tensor)"),
    "lay_into_zeros": (lay_into_zeros, "(Tensor x, SymInt[] sizes, SymInt[] starts, SymInt[] steps) -> Tensor"),
}

OPERATORS = {
    name: torch.library.custom_op(f"anydml::{name}", kernel, mutates_args=(), schema=schema)
    for name, (kernel, schema) in _KERNELS.items()
}
"""The registered operators, by name."""
