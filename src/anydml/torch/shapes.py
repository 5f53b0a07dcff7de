"""The fake kernels: what is refused and what results look like, for tensors without memory. Sizes may be symbols."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from anydml import infer
from anydml.arrays.pytorch import MOVED, TorchAdapter
from anydml.arrays.receive import check_alike, check_host, check_place
from anydml.operators.gather import gathered_axis as _gathered_axis
from anydml.operators.join import joined_shape
from anydml.operators.slice import taken
from anydml.operators.slice1 import taken_window
from anydml.operators.slice_grad import laid_into_zeros
from anydml.operators.split_training import equal_part_count
from anydml.symbols import holds, is_symbol

_INTEGERS = frozenset(
    (torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16, torch.int32, torch.int64)
)
"""Dtypes of indices and sizes."""


def split(x: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Parts of these sizes."""
    _guest("split", "x", x)
    axis = infer.axis_of("split", x.ndim, axis)
    return _parts(x, infer.part_sizes("split", sizes, x.shape[axis], axis), axis)


def join(arrays: Sequence[Any], axis: int = 0) -> Any:
    """As long as all together."""
    return _joined("join", arrays, axis)


def slice(x: Any, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> Any:
    """Of the sizes asked for."""
    _guest("slice", "x", x)
    return x.new_empty(taken("slice", x.shape, offsets, sizes, strides)[1])


def slice1(
    x: Any,
    window_offsets: Sequence[int],
    window_sizes: Sequence[int],
    window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = None,
) -> Any:
    """Of the sizes asked for, or all that the window gives."""
    _guest("slice1", "x", x)
    return x.new_empty(taken_window("slice1", x.shape, window_offsets, window_sizes, window_strides, output_sizes)[3])


def gather(x: Any, indices: Any, axis: int = 0, out_of_range: str = "clamp") -> Any:
    """The indices' sizes instead of the axis'."""
    adapter = _guest("gather", "x", x)
    check_place("gather", "indices", TorchAdapter(indices), adapter, "x")
    _guest("gather", "indices", indices)
    axis = gathered_axis(x.shape, indices.shape, indices.dtype, axis, out_of_range)
    return x.new_empty((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def gathered_axis(shape: Any, index_shape: Any, dtype: Any, axis: int, out_of_range: str) -> int:
    """The axis from 0 to rank − 1.

    Raises:
        DescError: as `anydml.gather`.
    """
    is_integer = _is_integer(dtype, index_shape)
    rank, count = len(index_shape), math.prod(index_shape)
    return _gathered_axis("gather", shape, axis, rank, count, _name(dtype), is_integer, out_of_range)


def split_training(x: Any, split: Any, axis: int = 0, num_outputs: int | None = None) -> list[Any]:
    """Equal parts, or parts of sizes that only data can tell: symbols that add up to the axis."""
    name = "SplitTraining"
    _guest(name, "x", x)
    axis = infer.axis_of(name, x.ndim, axis)
    whole = x.shape[axis]
    check_host(name, "split", _guest(name, "split", split, MOVED), split.device.type == "cpu")
    shape = tuple(map(int, split.shape))
    count = equal_part_count(name, shape, _name(split.dtype), _is_integer(split.dtype, shape), num_outputs)
    if count is not None:
        return _parts(x, infer.equal_parts(name, count, whole, axis, "num_outputs"), axis)
    if type(split) is torch.Tensor:
        # Its values are there: only x has no memory.
        return _parts(x, infer.part_sizes(name, split.tolist(), whole, axis, "split"), axis)
    context = torch.library.get_ctx()
    sizes = [context.new_dynamic_size() for _ in range(shape[0])]
    holds(sum(sizes) == whole)
    return _parts(x, sizes, axis)


def concat_training(arrays: Sequence[Any], axis: int = 0) -> tuple[Any, Any]:
    """The joined tensor, and one INT64 an input in host memory."""
    joined = _joined("ConcatTraining", arrays, axis)
    return joined, joined.new_empty((len(arrays),), dtype=torch.int64, device="cpu")


def lay_into_zeros(x: Any, sizes: Sequence[int], starts: Sequence[int], steps: Sequence[int]) -> Any:
    """Of the sizes asked for."""
    _guest("lay_into_zeros", "x", x)
    return x.new_empty(laid_into_zeros("lay_into_zeros", x.shape, sizes, starts, steps)[0])


def _guest(name: str, field: str, tensor: Any, devices: tuple[str, ...] = (*MOVED, "meta")) -> TorchAdapter:
    adapter = TorchAdapter(tensor)
    adapter.check_kind(name, field, devices)
    return adapter


def _joined(name: str, arrays: Sequence[Any], axis: int) -> Any:
    if arrays:
        check_alike(name, [TorchAdapter(array) for array in arrays])
    for i, array in enumerate(arrays):
        _guest(name, f"arrays[{i}]", array)
    _, _, shape = joined_shape(name, [array.shape for array in arrays], None, axis)
    return arrays[0].new_empty(shape)


def _parts(x: Any, sizes: Sequence[int], axis: int) -> list[Any]:
    return [x.new_empty(shape) for shape in infer.part_shapes(tuple(x.shape), tuple(sizes), axis)]


def _is_integer(dtype: Any, shape: Any) -> bool:
    """Whether a tensor holds integers, or is what PyTorch makes of an empty list."""
    return dtype in _INTEGERS or any(not is_symbol(size) and size == 0 for size in shape)


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
