"""The fake kernels: what results look like, for tensors without memory. Sizes may be symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from anydml.arrays import normalize_axis
from anydml.operators.slice1 import max_copied_elements


def split(x: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Parts of these sizes."""
    axis = normalize_axis("split", x, axis)
    return [x.new_empty((*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes]


def join(arrays: Sequence[Any], axis: int = 0) -> Any:
    """As long as all together."""
    first = arrays[0]
    axis = normalize_axis("join", first, axis)
    whole = sum(array.shape[axis] for array in arrays)
    return first.new_empty((*first.shape[:axis], whole, *first.shape[axis + 1 :]))


def slice(x: Any, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> Any:
    """Of the sizes asked for."""
    return x.new_empty(tuple(sizes))


def slice1(
    x: Any,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> Any:
    """Of the sizes asked for, or all that the window gives."""
    if output_sizes is None:
        # An empty window gives 0 by this as well: no question is asked that a symbol could not answer.
        output_sizes = list(map(max_copied_elements, window_sizes, window_strides))
    return x.new_empty(tuple(output_sizes))


def gather(x: Any, indices: Any, axis: int = 0, out_of_range: str = "clamp") -> Any:
    """The indices' sizes instead of the axis'."""
    axis = normalize_axis("gather", x, axis)
    return x.new_empty((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def split_training(x: Any, split: Any, axis: int = 0, num_outputs: int | None = None) -> list[Any]:
    """Equal parts, or parts of sizes that only data can tell: symbols that add up to the axis."""
    axis = normalize_axis("SplitTraining", x, axis)
    whole, count = x.shape[axis], int(split.shape[0])
    if not count:
        count = num_outputs or 1
        sizes = [whole // count] * count
    else:
        context = torch.library.get_ctx()
        sizes = [context.new_dynamic_size() for _ in range(count)]
        torch._check(sum(sizes) == whole)
    return [x.new_empty((*x.shape[:axis], size, *x.shape[axis + 1 :])) for size in sizes]


def lay_into_zeros(x: Any, sizes: Sequence[int], starts: Sequence[int], steps: Sequence[int]) -> Any:
    """Of the sizes asked for."""
    return x.new_empty(tuple(sizes))


def concat_training(arrays: Sequence[Any], axis: int = 0) -> tuple[Any, Any]:
    """The joined tensor, and one INT64 an input in host memory."""
    return join(arrays, axis), arrays[0].new_empty((len(arrays),), dtype=torch.int64, device="cpu")
