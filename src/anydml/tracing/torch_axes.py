"""PyTorch's functions that give the dimensions of a traced tensor another order, direction or size."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from anydml.tracing import numpy_axes, numpy_calls, shaping
from anydml.tracing.refusing import broken, refused
from anydml.tracing.trace import Trace, TracedArray


def dimension(x: TracedArray, dim: Any) -> int:
    """A dimension from 0 on; a tensor without any has dimension 0."""
    return normalize_axis_index(operator.index(dim), max(x.ndim, 1))


def permute(x: TracedArray, dims: Sequence[int]) -> TracedArray:
    """As torch.permute."""
    return numpy_axes.transpose(x, tuple(dims))


def transpose(x: TracedArray, dim0: int, dim1: int) -> TracedArray:
    """As torch.transpose."""
    return numpy_axes.swapaxes(x, dim0, dim1) if x.ndim else x


def t(x: TracedArray) -> TracedArray:
    """As torch.t."""
    if x.ndim > 2:
        raise broken(f"t() of {x!r}: it has more than 2 dimensions")
    return transpose(x, 0, 1) if x.ndim == 2 else x


def flip(x: TracedArray, dims: Any) -> TracedArray:
    """As torch.flip."""
    return numpy_axes.flip(x, tuple(dims))


def roll(x: TracedArray, shifts: Any, dims: Any = None) -> TracedArray:
    """As torch.roll."""
    by, along = (
        [*each] if isinstance(each, (list, tuple)) else [each] for each in (shifts, () if dims is None else dims)
    )
    if len(by) != (len(along) or 1):
        raise broken(f"torch.roll by {len(by)} shifts along {len(along)} dims: there must be one shift a dim")
    return numpy_calls.roll(x, by, along) if along else numpy_calls.roll(x, by[0])


def rot90(x: TracedArray, k: int = 1, dims: Sequence[int] = (0, 1)) -> TracedArray:
    """As torch.rot90."""
    return numpy_axes.rot90(x, k, tuple(dims))


def tile(x: TracedArray, dims: Sequence[int]) -> TracedArray:
    """As torch.tile."""
    return numpy_calls.tile(x, dims)


def repeat(x: TracedArray, repeats: Sequence[int]) -> TracedArray:
    """As torch.Tensor.repeat."""
    if len(repeats) < x.ndim:
        raise broken(f"{len(repeats)} counts for {x!r}, but there is at least one a dimension")
    return numpy_calls.tile(x, repeats)


def repeat_interleave(x: TracedArray, repeats: Any, dim: Any = None, *, output_size: Any = None) -> TracedArray:
    """As torch.repeat_interleave; counts are known."""
    if isinstance(repeats, TracedArray):
        raise refused("repeat_interleave by traced counts", "the result's shape would depend on elements")
    return numpy_calls.repeat(x, np.asarray(repeats), dim)


def expand(x: TracedArray, size: Sequence[int], *, implicit: bool = False) -> TracedArray:
    """As torch.Tensor.expand: −1 leaves a size as it is."""
    sizes = [*map(operator.index, size)]
    new = len(sizes) - x.ndim
    if new < 0 or -1 in sizes[:new]:
        raise broken(f"{x!r} does not expand to {sizes}")
    wanted = [own if n == -1 else n for n, own in zip(sizes, (*(0,) * new, *x.shape), strict=True)]
    return numpy_calls.broadcast_to(x, wanted)


def broadcast_tensors(trace: Trace, *tensors: Any) -> Any:
    """As torch.broadcast_tensors."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    arrays = [*map(trace.array, given)]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    return tuple(shaping.broadcast(array, shape) for array in arrays)


def at_least(rank: int) -> Callable[..., Any]:
    """torch.atleast_1d and so on, of one or several tensors."""

    def atleast(trace: Trace, *tensors: Any) -> Any:
        is_list = len(tensors) == 1 and isinstance(tensors[0], (list, tuple))
        found = tuple(numpy_axes.raised(trace.array(each), rank) for each in (tensors[0] if is_list else tensors))
        return found if is_list or len(found) > 1 else found[0]

    return atleast


def reshape(x: TracedArray, shape: Sequence[Any]) -> TracedArray:
    """As torch.reshape. Of another type of elements, it computes."""
    if len(shape) == 1 and type(shape[0]).__name__ == "dtype":
        raise refused(f"{x!r} viewed as {shape[0]}")
    found: TracedArray = numpy_axes.reshape(x, tuple(shape))
    return found


def flatten(x: TracedArray, start_dim: int = 0, end_dim: int = -1) -> TracedArray:
    """As torch.flatten."""
    first, last = dimension(x, start_dim), dimension(x, end_dim)
    if first > last:
        raise broken(f"start_dim {start_dim} comes after end_dim {end_dim}")
    sizes = x.shape or (1,)
    return shaping.reshaped(x, (*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :]))


def unflatten(x: TracedArray, dim: int, sizes: Sequence[int]) -> TracedArray:
    """As torch.unflatten: one size may be −1."""
    place = dimension(x, dim)
    own, parts = x.shape[place], [*map(operator.index, sizes)]
    rest = math.prod(n for n in parts if n != -1)
    if parts.count(-1) == 1 and rest > 0 and own % rest == 0:
        parts[parts.index(-1)] = own // rest
    if min(parts, default=-1) < 0 or math.prod(parts) != own:
        raise broken(f"unflatten: sizes {[*sizes]} do not multiply to {own}")
    return shaping.reshaped(x, (*x.shape[:place], *parts, *x.shape[place + 1 :]))


def squeeze(x: TracedArray, dim: Any = None) -> TracedArray:
    """As torch.squeeze: dimensions of other sizes than 1 stay."""
    if dim is None:
        return numpy_axes.squeeze(x)
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    if not x.ndim:
        return x
    gone = {k for k in normalize_axis_tuple(tuple(dims), x.ndim) if x.shape[k] == 1}
    return shaping.reshaped(x, [n for k, n in enumerate(x.shape) if k not in gone])


def unsqueeze(x: TracedArray, dim: int) -> TracedArray:
    """As torch.unsqueeze."""
    return numpy_axes.expand_dims(x, operator.index(dim))


def pixel_shuffle(x: TracedArray, upscale_factor: int) -> TracedArray:
    """As torch.nn.functional.pixel_shuffle: ``(…, C·r², H, W)`` becomes ``(…, C, H·r, W·r)``."""
    by = operator.index(upscale_factor)
    *batch, channels, height, width = _image(x)
    if by <= 0 or channels % (by * by):
        raise broken(f"{channels} channels are not made of {by} times {by}")
    rank = len(batch)
    apart = shaping.reshaped(x, (*batch, channels // (by * by), by, by, height, width))
    turned = shaping.permuted(apart, [*range(rank), *(rank + k for k in (0, 3, 1, 4, 2))])
    return shaping.reshaped(turned, (*batch, channels // (by * by), height * by, width * by))


def pixel_unshuffle(x: TracedArray, downscale_factor: int) -> TracedArray:
    """As torch.nn.functional.pixel_unshuffle: ``(…, C, H·r, W·r)`` becomes ``(…, C·r², H, W)``."""
    by = operator.index(downscale_factor)
    *batch, channels, height, width = _image(x)
    if by <= 0 or height % by or width % by:
        raise broken(f"{height} rows and {width} columns are not made of blocks of {by} by {by}")
    rank = len(batch)
    apart = shaping.reshaped(x, (*batch, channels, height // by, by, width // by, by))
    turned = shaping.permuted(apart, [*range(rank), *(rank + k for k in (0, 2, 4, 1, 3))])
    return shaping.reshaped(turned, (*batch, channels * by * by, height // by, width // by))


def channel_shuffle(x: TracedArray, groups: int) -> TracedArray:
    """As torch.nn.functional.channel_shuffle."""
    by = operator.index(groups)
    if x.ndim < 3 or by <= 0 or x.shape[1] % by:
        raise broken(f"channels of {x!r} in {groups} groups")
    apart = shaping.reshaped(x, (x.shape[0], by, x.shape[1] // by, *x.shape[2:]))
    return shaping.reshaped(numpy_axes.swapaxes(apart, 1, 2), x.shape)


def _image(x: TracedArray) -> tuple[int, ...]:
    sizes: tuple[int, ...] = x.shape
    if x.ndim < 3:
        raise broken(f"{x!r} has no channels, rows and columns")
    return sizes
