"""NumPy's functions that give the axes of a traced array another order, direction or size."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from anydml.moves.compose import strided
from anydml.tracing import shaping
from anydml.tracing.refusing import broken, refused
from anydml.tracing.trace import TracedArray


def no_out(out: Any) -> None:
    """Nothing is written while a function is traced.

    Raises:
        FuseError: something should be.
    """
    if out is not None:
        raise refused("an assignment into out", "take the result instead")


def is_column_major(order: Any) -> bool:
    """Whether elements are counted in column-major order; else in row-major order.

    Raises:
        FuseError: they are to be counted in the order in which an argument happens to lie.
    """
    if order not in (None, "C", "F"):
        raise broken(f"order {order!r} depends on how an argument lies: elements are counted in order 'C' or 'F'")
    return bool(order == "F")


def reshape(x: TracedArray, /, shape: Any = None, order: Any = "C", *, copy: Any = None, newshape: Any = None) -> Any:
    """As NumPy's, in order 'C' or 'F'."""
    is_turned = is_column_major(order)
    wanted = shape if shape is not None else newshape
    sizes = [*map(operator.index, wanted)] if hasattr(wanted, "__len__") else [operator.index(wanted)]
    rest = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and rest > 0 and x.count % rest == 0:
        sizes[sizes.index(-1)] = x.count // rest
    if min(sizes, default=0) < 0 or math.prod(sizes) != x.count:
        raise broken(f"cannot reshape {x!r} into shape {wanted}")
    if copy is not None and not copy and not _is_view(x, sizes, order):
        raise broken(f"{x!r} cannot be reshaped into {wanted} without a copy: leave copy=False out")
    return transpose(shaping.reshaped(transpose(x), sizes[::-1])) if is_turned else shaping.reshaped(x, sizes)


def _is_view(x: TracedArray, sizes: Sequence[int], order: Any) -> bool:
    """Whether NumPy would reshape an array without a copy, as far as it is known how its elements lie."""
    if (found := strided(x.value)) is None:
        return not x.count
    # Nothing is read: only its layout counts.
    like = np.lib.stride_tricks.as_strided(np.empty(1, f"V{x.itemsize}"), x.shape, found[1].strides)
    try:
        like.reshape(sizes, order=order, copy=False)
    except ValueError:
        return False
    return True


def ravel(x: TracedArray, order: Any = "C") -> TracedArray:
    """As NumPy's, in order 'C' or 'F'."""
    return shaping.reshaped(transpose(x) if is_column_major(order) else x, (x.count,))


def transpose(x: TracedArray, axes: Any = None) -> TracedArray:
    """As NumPy's."""
    if axes is None:
        return shaping.permuted(x, range(x.ndim)[::-1])
    found = normalize_axis_tuple(axes, x.ndim)
    if len(found) != x.ndim:
        raise broken(f"axes {axes} do not match {x!r}")
    return shaping.permuted(x, found)


def swapaxes(x: TracedArray, axis1: int, axis2: int) -> TracedArray:
    """As NumPy's."""
    axes = [*range(x.ndim)]
    one, other = normalize_axis_index(axis1, x.ndim), normalize_axis_index(axis2, x.ndim)
    axes[one], axes[other] = axes[other], axes[one]
    return shaping.permuted(x, axes)


def matrix_transpose(x: TracedArray, /) -> TracedArray:
    """As NumPy's."""
    return swapaxes(x, -1, -2)


def moveaxis(x: TracedArray, source: Any, destination: Any) -> TracedArray:
    """As NumPy's."""
    sources = normalize_axis_tuple(source, x.ndim, "source")
    places = normalize_axis_tuple(destination, x.ndim, "destination")
    if len(sources) != len(places):
        raise broken("`source` and `destination` arguments must have the same number of elements")
    axes = [axis for axis in range(x.ndim) if axis not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        axes.insert(place, axis)
    return shaping.permuted(x, axes)


def squeeze(x: TracedArray, axis: Any = None) -> TracedArray:
    """As NumPy's."""
    gone = [k for k, n in enumerate(x.shape) if n == 1] if axis is None else normalize_axis_tuple(axis, x.ndim)
    if any(x.shape[k] != 1 for k in gone):
        raise broken(f"cannot squeeze axis {axis} of {x!r}: its size is not 1")
    return shaping.reshaped(x, [n for k, n in enumerate(x.shape) if k not in gone])


def expand_dims(x: TracedArray, axis: Any) -> TracedArray:
    """As NumPy's."""
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = x.ndim + len(axes)
    new = normalize_axis_tuple(axes, rank)
    sizes = iter(x.shape)
    return shaping.reshaped(x, [1 if k in new else next(sizes) for k in range(rank)])


def raised(x: TracedArray, rank: int) -> TracedArray:
    """As NumPy's atleast_1d, atleast_2d and atleast_3d: 3-D ones have the new axis last."""
    if x.ndim >= rank:
        return x
    if rank == 3 and x.ndim:
        return shaping.reshaped(x, (1, *x.shape, 1) if x.ndim == 1 else (*x.shape, 1))
    return shaping.reshaped(x, (*(1,) * (rank - x.ndim), *x.shape))


def flip(x: TracedArray, axis: Any = None) -> TracedArray:
    """As NumPy's."""
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    starts = [x.shape[k] - 1 if k in axes and x.shape[k] else 0 for k in range(x.ndim)]
    return shaping.sliced(x, starts, x.shape, [-1 if k in axes and x.shape[k] else 1 for k in range(x.ndim)])


def rot90(x: TracedArray, k: int = 1, axes: Sequence[int] = (0, 1)) -> TracedArray:
    """As NumPy's."""
    first, second = normalize_axis_tuple(axes, x.ndim)
    turns = operator.index(k) % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, (first, second))
    if turns == 1:
        return swapaxes(flip(x, second), first, second)
    return flip(swapaxes(x, first, second), second)
