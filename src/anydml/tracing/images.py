"""PyTorch's operations on images: pixel shuffles, unfolding, nearest-neighbour interpolation, unpooling."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from anydml.tracing.axes import swapaxes
from anydml.tracing.constants import from_zero, whole_numbers
from anydml.tracing.padding import pad_last
from anydml.tracing.parts import repeat_each
from anydml.tracing.picking import pick
from anydml.tracing.putting import Along, At, put
from anydml.tracing.refusing import broken, refused
from anydml.tracing.trace import TracedArray
from anydml.tracing.verbs import cut, fill, permute, reshape, windows


def pixel_shuffle(x: TracedArray, upscale_factor: int, is_depth_last: bool = False) -> TracedArray:
    """Rearrange ``(…, C·r², H, W)``, or ``(…, r²·C, H, W)`` if `is_depth_last`, to ``(…, C, H·r, W·r)``."""
    by = operator.index(upscale_factor)
    *batch, channels, height, width = _image(x)
    if by <= 0 or channels % (by * by):
        raise broken(f"{channels} channels are not divisible by {by} · {by}")
    rank, channels_left = len(batch), channels // (by * by)
    blocks, order = (
        ((by, by, channels_left), (2, 3, 0, 4, 1)) if is_depth_last else ((channels_left, by, by), (0, 3, 1, 4, 2))
    )
    apart = reshape(x, (*batch, *blocks, height, width))
    turned = permute(apart, [*range(rank), *(rank + k for k in order)])
    return reshape(turned, (*batch, channels_left, height * by, width * by))


def pixel_unshuffle(x: TracedArray, downscale_factor: int, is_depth_last: bool = False) -> TracedArray:
    """Rearrange ``(…, C, H·r, W·r)`` to ``(…, C·r², H, W)``, or to ``(…, r²·C, H, W)`` if `is_depth_last`."""
    by = operator.index(downscale_factor)
    *batch, channels, height, width = _image(x)
    if by <= 0 or height % by or width % by:
        raise broken(f"{height} rows and {width} columns do not divide into blocks of {by} by {by}")
    rank, rows, columns = len(batch), height // by, width // by
    apart = reshape(x, (*batch, channels, rows, by, columns, by))
    order = (2, 4, 0, 1, 3) if is_depth_last else (0, 2, 4, 1, 3)
    turned = permute(apart, [*range(rank), *(rank + k for k in order)])
    return reshape(turned, (*batch, channels * by * by, rows, columns))


def channel_shuffle(x: TracedArray, groups: int) -> TracedArray:
    """Rearrange groups of channels so that channels of one number follow each other."""
    by = operator.index(groups)
    if x.ndim < 3 or by <= 0 or x.shape[1] % by:
        raise broken(f"the channels of {x!r} do not divide into {groups} groups")
    apart = reshape(x, (x.shape[0], by, x.shape[1] // by, *x.shape[2:]))
    return reshape(swapaxes(apart, 1, 2), x.shape)


def _image(x: TracedArray) -> tuple[int, ...]:
    sizes: tuple[int, ...] = x.shape
    if x.ndim < 3:
        raise broken(f"{x!r} has no channels, rows and columns")
    return sizes


def unfold(x: TracedArray, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> TracedArray:
    """Return the windows of an image as columns."""
    (height, width), (down, right), (top, side), (by, across) = map(_two, (kernel_size, dilation, padding, stride))
    if x.ndim not in (3, 4) or min(height, width, down, right, by, across) < 1 or min(top, side) < 0:
        raise broken(f"unfold of {x!r} takes three or four dimensions, and sizes of at least 1")
    padded = pad_last(x, (side, side, top, top))
    *batch, channels, rows, places = padded.shape
    rank = len(batch)
    blocks = ((rows - down * (height - 1) - 1) // by + 1, (places - right * (width - 1) - 1) // across + 1)
    if min(blocks) < 1:
        raise broken(f"a window of {height} by {width} does not fit into {x!r}")
    tall = windows(padded, rank + 1, down * (height - 1) + 1, by)
    wide = windows(tall, rank + 2, right * (width - 1) + 1, across)
    taps = cut(cut(wide, rank + 3, 0, height, down), rank + 4, 0, width, right)
    turned = permute(taps, [*range(rank), *(rank + k for k in (0, 3, 4, 1, 2))])
    return reshape(turned, (*batch, channels * height * width, blocks[0] * blocks[1]))


def _two(number: Any) -> tuple[int, int]:
    first, second = number if isinstance(number, (tuple, list)) and len(number) == 2 else (number, number)
    if isinstance(first, (tuple, list)):
        return _two(first[0])
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
        raise refused(f"interpolate in mode {mode!r}")
    import torch

    for axis in range(2, x.ndim):
        # PyTorch itself resizes an array of positions along one axis.
        positions = torch.arange(x.shape[axis], dtype=torch.float64).reshape(1, 1, *_alone(x, axis, x.shape[axis]))
        output_sizes = None if size is None else _alone(x, axis, _each(size, axis - 2))
        scales = None if scale_factor is None else [float(n) for n in _alone(x, axis, _each(scale_factor, axis - 2))]
        if scales and recompute_scale_factor:
            output_sizes, scales = [math.floor(n * by) for n, by in zip(positions.shape[2:], scales, strict=True)], None
        try:
            chosen = torch.nn.functional.interpolate(positions, output_sizes, scales, mode)
        except RuntimeError as error:
            raise broken(f"interpolate: {error}") from None
        table = chosen.reshape(-1).numpy().astype(np.int64)
        times = len(table) // x.shape[axis]
        if times and np.array_equal(table, np.repeat(np.arange(x.shape[axis]), times)):
            x = repeat_each(x, times, axis)
        else:
            x = pick(x, table, axis)
    return x


def _alone(x: TracedArray, axis: int, number: Any) -> list[Any]:
    """Return a list with a number for one axis of an image, and 1 for the others."""
    return [number if k == axis else 1 for k in range(2, x.ndim)]


def _each(numbers: Any, k: int) -> Any:
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
        (n - 1) * _each(kernel_size if stride is None else stride, k) + _each(kernel_size, k) - 2 * _each(padding, k)
        for k, n in enumerate(x.shape[-rank:])
    ]
    if output_size is not None:
        sizes = whole_numbers(output_size)[-rank:]
    lead = x.shape[:-rank]
    places = [*map(Along, range(len(lead))), At(from_zero(x.trace.array(indices)))]
    return reshape(put(fill(x, (*lead, math.prod(sizes))), x, places), (*lead, *sizes))
