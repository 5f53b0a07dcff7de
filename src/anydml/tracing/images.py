"""PyTorch's operations on images: pixel shuffles, unfolding, nearest-neighbour interpolation, unpooling."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from anydml.tracing.array_verbs import cut, fill, permute, reshape, windows
from anydml.tracing.axes import swapaxes
from anydml.tracing.constants import refuse_negative, torch_indices, whole_numbers
from anydml.tracing.join_split import repeat_elements
from anydml.tracing.padding import pad_like_torch
from anydml.tracing.picking import pick
from anydml.tracing.putting import AtIndices, StridedCoordinates, put
from anydml.tracing.refusing import fuse_error, refusal
from anydml.tracing.trace import TracedArray


def pixel_shuffle(x: TracedArray, upscale_factor: int) -> TracedArray:
    """Rearrange ``(…, C·r², H, W)`` to ``(…, C, H·r, W·r)``."""
    by = operator.index(upscale_factor)
    *batch, channels, height, width = _image(x)
    if by <= 0 or channels % (by * by):
        raise fuse_error(f"{channels} channels are not divisible by {by} · {by}")
    rank, channels_left = len(batch), channels // (by * by)
    divided = reshape(x, (*batch, channels_left, by, by, height, width))
    permuted = permute(divided, [*range(rank), *(rank + k for k in (0, 3, 1, 4, 2))])
    return reshape(permuted, (*batch, channels_left, height * by, width * by))


def pixel_unshuffle(x: TracedArray, downscale_factor: int) -> TracedArray:
    """Rearrange ``(…, C, H·r, W·r)`` to ``(…, C·r², H, W)``."""
    by = operator.index(downscale_factor)
    *batch, channels, height, width = _image(x)
    if by <= 0 or height % by or width % by:
        raise fuse_error(f"{height} rows and {width} columns do not divide into blocks of {by} by {by}")
    rank, rows, columns = len(batch), height // by, width // by
    divided = reshape(x, (*batch, channels, rows, by, columns, by))
    permuted = permute(divided, [*range(rank), *(rank + k for k in (0, 2, 4, 1, 3))])
    return reshape(permuted, (*batch, channels * by * by, rows, columns))


def channel_shuffle(x: TracedArray, groups: int) -> TracedArray:
    """Rearrange groups of channels so that channels of one number follow each other."""
    by = operator.index(groups)
    if x.ndim < 3 or by <= 0 or x.shape[1] % by:
        raise fuse_error(f"the channels of {x!r} do not divide into {groups} groups")
    divided = reshape(x, (x.shape[0], by, x.shape[1] // by, *x.shape[2:]))
    return reshape(swapaxes(divided, 1, 2), x.shape)


def _image(x: TracedArray) -> tuple[int, ...]:
    sizes: tuple[int, ...] = x.shape
    if x.ndim < 3:
        raise fuse_error(f"{x!r} has no channels, rows and columns")
    return sizes


def unfold(x: TracedArray, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> TracedArray:
    """Return the windows of an image as columns."""
    (height, width), (row_dilation, column_dilation), (row_padding, column_padding), (by, column_stride) = map(
        _pair, (kernel_size, dilation, padding, stride)
    )
    if (
        x.ndim not in (3, 4)
        or min(height, width, row_dilation, column_dilation, by, column_stride) < 1
        or min(row_padding, column_padding) < 0
    ):
        raise fuse_error(f"unfold of {x!r} takes three or four dimensions, and sizes of at least 1")
    padded = pad_like_torch(x, (column_padding, column_padding, row_padding, row_padding))
    *batch, channels, rows, columns = padded.shape
    rank = len(batch)
    blocks = (
        (rows - row_dilation * (height - 1) - 1) // by + 1,
        (columns - column_dilation * (width - 1) - 1) // column_stride + 1,
    )
    if min(blocks) < 1:
        raise fuse_error(f"a window of {height} by {width} does not fit into {x!r}")
    row_windows = windows(padded, rank + 1, row_dilation * (height - 1) + 1, by)
    image_windows = windows(row_windows, rank + 2, column_dilation * (width - 1) + 1, column_stride)
    taps = cut(cut(image_windows, rank + 3, 0, height, row_dilation), rank + 4, 0, width, column_dilation)
    permuted = permute(taps, [*range(rank), *(rank + k for k in (0, 3, 4, 1, 2))])
    return reshape(permuted, (*batch, channels * height * width, blocks[0] * blocks[1]))


def _pair(value: Any) -> tuple[int, int]:
    first, second = value if isinstance(value, (tuple, list)) and len(value) == 2 else (value, value)
    if isinstance(first, (tuple, list)):
        return _pair(first[0])
    return operator.index(first), operator.index(second)


def interpolate(
    x: TracedArray,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    recompute_scale_factor: Any = None,
) -> TracedArray:
    """Resize an image in a nearest-neighbour mode."""
    if mode not in ("nearest", "nearest-exact"):
        raise refusal(f"interpolate in mode {mode!r}")
    import torch

    if (size is None) is (scale_factor is None):
        raise fuse_error("either size or scale_factor must be passed")
    if x.ndim not in (3, 4, 5):
        raise fuse_error(f"interpolate takes three to five dimensions, not {x!r}")
    numbers = scale_factor if size is None else size
    if isinstance(numbers, (list, tuple)) and len(numbers) != x.ndim - 2:
        raise fuse_error(f"{len(numbers)} sizes or scales for the {x.ndim - 2} spatial dimensions of {x!r}")

    for axis in range(2, x.ndim):
        # PyTorch itself resizes an array of positions along one axis.
        positions = torch.arange(x.shape[axis], dtype=torch.float64).reshape(
            1, 1, *_along_one_axis(x, axis, x.shape[axis])
        )
        output_sizes = None if size is None else _along_one_axis(x, axis, _item(size, axis - 2))
        scales = (
            None
            if scale_factor is None
            else [float(n) for n in _along_one_axis(x, axis, _item(scale_factor, axis - 2))]
        )
        if scales and recompute_scale_factor:
            output_sizes, scales = [math.floor(n * by) for n, by in zip(positions.shape[2:], scales, strict=True)], None
        try:
            resized_positions = torch.nn.functional.interpolate(positions, output_sizes, scales, mode)
        except RuntimeError as error:
            raise fuse_error(f"interpolate: {error}") from None
        table = resized_positions.reshape(-1).numpy().astype(np.int64)
        repeats = len(table) // x.shape[axis]
        if repeats and np.array_equal(table, np.repeat(np.arange(x.shape[axis]), repeats)):
            x = repeat_elements(x, repeats, axis)
        else:
            x = pick(x, table, axis)
    return x


def _along_one_axis(x: TracedArray, axis: int, offset_or_size: Any) -> list[Any]:
    """Return a list with a number for one axis of an image, and 1 for the others."""
    return [offset_or_size if k == axis else 1 for k in range(2, x.ndim)]


def _item(numbers: Any, k: int) -> Any:
    return numbers[k] if isinstance(numbers, (list, tuple)) else numbers


def max_unpool(
    x: TracedArray,
    indices: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
    rank: int = 2,
) -> TracedArray:
    """Return elements at the places of indices, and zeros elsewhere."""
    sizes = [
        (n - 1) * _item(kernel_size if stride is None else stride, k) + _item(kernel_size, k) - 2 * _item(padding, k)
        for k, n in enumerate(x.shape[-rank:])
    ]
    if output_size is not None:
        sizes = whole_numbers(output_size)[-rank:]
    lead = x.shape[:-rank]
    columns = [
        *map(StridedCoordinates, range(len(lead))),
        AtIndices(refuse_negative(torch_indices(indices, ("int64",)))),
    ]
    return reshape(put(fill(x, (*lead, math.prod(sizes))), x, columns), (*lead, *sizes))
