"""What each operator does to tensors that have memory, and its schema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from anydml import functions
from anydml.arrays import normalize_axis, part_sizes, split_sizes


def split(x: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """See `anydml.split`."""
    axis = normalize_axis("split", x, axis)
    sizes = part_sizes("split", sizes, x.shape[axis], axis)
    return functions.split(x.detach(), sizes, axis, out=_parts(x, sizes, axis))


def join(arrays: Sequence[Any], axis: int = 0) -> Any:
    """See `anydml.join`."""
    return functions.join([array.detach() for array in arrays], axis)


def slice_(x: Any, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> Any:
    """See `anydml.slice`."""
    return functions.slice(x.detach(), offsets, sizes, strides)


def slice1(
    x: Any,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> Any:
    """See `anydml.slice1`."""
    return functions.slice1(x.detach(), window_offsets, window_sizes, window_strides, output_sizes)


def gather(x: Any, indices: Any, axis: int = 0, out_of_range: Any = "clamp") -> Any:
    """See `anydml.gather`."""
    return functions.gather(x.detach(), indices, axis, out_of_range=out_of_range)


def split_training(x: Any, split: Any, axis: int = 0, num_outputs: int | None = None) -> list[Any]:
    """See `anydml.split_training`."""
    axis = normalize_axis("SplitTraining", x, axis)
    sizes = split_sizes("SplitTraining", split, num_outputs, x.shape[axis], axis)
    return functions.split_training(x.detach(), sizes, axis, out=_parts(x, sizes, axis))


def concat_training(arrays: Sequence[Any], axis: int = 0) -> tuple[Any, Any]:
    """See `anydml.concat_training`."""
    joined, lengths = functions.concat_training([array.detach() for array in arrays], axis)
    return joined, lengths


def lay_into_zeros(x: Any, sizes: Sequence[int], starts: Sequence[int], steps: Sequence[int]) -> Any:
    """``result[starts + steps · c] = x[c]``, and 0 elsewhere: the gradient of slice and slice1."""
    zeros = x.new_zeros(tuple(sizes))
    window = zeros
    for d, (start, step, size) in enumerate(zip(starts, steps, x.shape, strict=True)):
        length = (size - 1) * abs(step) + 1 if size else 0
        lowest = start if step > 0 else start - length + 1
        window = window.narrow(d, lowest if size else 0, length)
        window = window[(slice(None),) * d + (slice(None, None, abs(step)),)]
    whole = [1 if step > 0 else -1 for step in steps]
    functions.slice1(x.detach(), [0] * x.ndim, x.shape, whole, out=window)
    return zeros


def _parts(x: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    # Results of PyTorch's operators share no memory; the parts that the GPU engine makes would.
    return [x.new_empty((*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes]


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
