"""PyTorch's operations on images: pixel shuffles, unfolding, nearest-neighbour interpolation, unpooling."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from anydml.tracing import axes, integers, making, picks, placing, repeating, shaping
from anydml.tracing.padding import pad_last
from anydml.tracing.refusing import broken, refused
from anydml.tracing.trace import TracedArray


def pixel_shuffle(x: TracedArray, upscale_factor: int) -> TracedArray:
    """Like torch.nn.functional.pixel_shuffle: ``(…, C·r², H, W)`` becomes ``(…, C, H·r, W·r)``."""
    by = operator.index(upscale_factor)
    *batch, channels, height, width = _image(x)
    if by <= 0 or channels % (by * by):
        raise broken(f"{channels} channels are not divisible by {by} · {by}")
    rank = len(batch)
    apart = shaping.reshaped(x, (*batch, channels // (by * by), by, by, height, width))
    turned = shaping.permuted(apart, [*range(rank), *(rank + k for k in (0, 3, 1, 4, 2))])
    return shaping.reshaped(turned, (*batch, channels // (by * by), height * by, width * by))


def pixel_unshuffle(x: TracedArray, downscale_factor: int) -> TracedArray:
    """Like torch.nn.functional.pixel_unshuffle: ``(…, C, H·r, W·r)`` becomes ``(…, C·r², H, W)``."""
    by = operator.index(downscale_factor)
    *batch, channels, height, width = _image(x)
    if by <= 0 or height % by or width % by:
        raise broken(f"{height} rows and {width} columns do not divide into blocks of {by} by {by}")
    rank = len(batch)
    apart = shaping.reshaped(x, (*batch, channels, height // by, by, width // by, by))
    turned = shaping.permuted(apart, [*range(rank), *(rank + k for k in (0, 2, 4, 1, 3))])
    return shaping.reshaped(turned, (*batch, channels * by * by, height // by, width // by))


def channel_shuffle(x: TracedArray, groups: int) -> TracedArray:
    """Like torch.nn.functional.channel_shuffle."""
    by = operator.index(groups)
    if x.ndim < 3 or by <= 0 or x.shape[1] % by:
        raise broken(f"the channels of {x!r} do not divide into {groups} groups")
    apart = shaping.reshaped(x, (x.shape[0], by, x.shape[1] // by, *x.shape[2:]))
    return shaping.reshaped(axes.swapaxes(apart, 1, 2), x.shape)


def _image(x: TracedArray) -> tuple[int, ...]:
    sizes: tuple[int, ...] = x.shape
    if x.ndim < 3:
        raise broken(f"{x!r} has no channels, rows and columns")
    return sizes


def columns(x: TracedArray, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> TracedArray:
    """Like torch.nn.functional.unfold."""
    (height, width), (down, right), (top, side), (by, across) = map(_two, (kernel_size, dilation, padding, stride))
    if x.ndim not in (3, 4) or min(height, width, down, right, by, across) < 1 or min(top, side) < 0:
        raise broken(f"unfold of {x!r} takes three or four dimensions, and sizes of at least 1")
    if x.ndim == 3:
        found = columns(axes.expand_dims(x, 0), kernel_size, dilation, padding, stride)
        return shaping.reshaped(found, found.shape[1:])
    padded = pad_last(x, (side, side, top, top))
    batch, channels, rows, places = padded.shape
    blocks = ((rows - down * (height - 1) - 1) // by + 1, (places - right * (width - 1) - 1) // across + 1)
    if min(blocks) < 1:
        raise broken(f"a window of {height} by {width} does not fit into {x!r}")
    tall = picks.windows(padded, 2, down * (height - 1) + 1, by)
    wide = picks.windows(tall, 3, right * (width - 1) + 1, across)
    taps = shaping.cut(shaping.cut(wide, 4, 0, height, down), 5, 0, width, right)
    turned = shaping.permuted(taps, (0, 1, 4, 5, 2, 3))
    return shaping.reshaped(turned, (batch, channels * height * width, blocks[0] * blocks[1]))


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
    """Like torch.nn.functional.interpolate, in the nearest-neighbour modes."""
    if mode not in ("nearest", "nearest-exact"):
        raise refused(f"interpolate in mode {mode!r}")
    import torch

    for axis in range(2, x.ndim):
        # PyTorch itself resizes an array of positions along one axis.
        positions = torch.arange(x.shape[axis], dtype=torch.float64).reshape(1, 1, *_alone(x, axis, x.shape[axis]))
        wanted = None if size is None else _alone(x, axis, _each(size, axis - 2))
        scales = None if scale_factor is None else [float(n) for n in _alone(x, axis, _each(scale_factor, axis - 2))]
        if scales and recompute_scale_factor:
            wanted, scales = [math.floor(n * by) for n, by in zip(positions.shape[2:], scales, strict=True)], None
        try:
            found = torch.nn.functional.interpolate(positions, wanted, scales, mode)
        except RuntimeError as error:
            raise broken(f"interpolate: {error}") from None
        table = found.reshape(-1).numpy().astype(np.int64)
        times = len(table) // x.shape[axis]
        if times and np.array_equal(table, np.repeat(np.arange(x.shape[axis]), times)):
            x = repeating.each(x, times, axis)
        else:
            x = shaping.picked(x, table, axis)
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
    """Like torch.nn.functional.max_unpool1d and so on: elements at the places of indices, zeros elsewhere."""
    sizes = [
        (n - 1) * _each(kernel_size if stride is None else stride, k) + _each(kernel_size, k) - 2 * _each(padding, k)
        for k, n in enumerate(x.shape[-rank:])
    ]
    if output_size is not None:
        sizes = integers.wholes(output_size)[-rank:]
    lead = x.shape[:-rank]
    zeros = making.filled(x, (*lead, math.prod(sizes)))
    at = placing.At(picks.from_zero(x.trace.array(indices)), "refuse")
    found = placing.placed(zeros, x, [*map(placing.Along, range(len(lead))), at])
    return shaping.reshaped(found, (*lead, *sizes))
