"""Operations that repeat elements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from anydml.tracing import axes, integers, joins, shaping
from anydml.tracing.refusing import broken, refused
from anydml.tracing.trace import TracedArray


def tile(x: TracedArray, reps: Any) -> TracedArray:
    """Like numpy.tile."""
    counts = integers.wholes(reps)
    rank = max(len(counts), x.ndim)
    counts = [1] * (rank - len(counts)) + counts
    sizes = [1] * (rank - x.ndim) + [*x.shape]
    apart = shaping.reshaped(x, [n for size in sizes for n in (1, size)])
    repeated = shaping.broadcast(apart, [n for pair in zip(counts, sizes, strict=True) for n in pair])
    return shaping.reshaped(repeated, [count * size for count, size in zip(counts, sizes, strict=True)])


def tiled(x: TracedArray, repeats: Sequence[int]) -> TracedArray:
    """Like torch.Tensor.repeat."""
    if len(repeats) < x.ndim:
        raise broken(f"{len(repeats)} counts for {x!r}, but there must be at least one per dimension")
    return tile(x, repeats)


def repeat(x: TracedArray, repeats: Any, axis: Any = None) -> TracedArray:
    """Like numpy.repeat."""
    if isinstance(repeats, TracedArray):
        raise refused("a repetition by traced counts", "the result's shape would depend on elements")
    x = axes.ravel(x) if axis is None else x
    axis = normalize_axis_index(0 if axis is None else axis, x.ndim)
    if not integers.is_list(repeats):
        return each(x, repeats, axis)
    counts = integers.known(repeats)
    shaping.check_known(counts)
    if counts.size == 1:
        return each(x, counts.reshape(-1)[0], axis)
    return shaping.picked(x, np.repeat(np.arange(x.shape[axis]), counts), axis)


def each(x: TracedArray, count: Any, axis: int) -> TracedArray:
    """Repeat every element along an axis `count` times."""
    count = integers.whole(count)
    if count < 0:
        raise broken("repeats may not contain negative values.")
    apart = shaping.reshaped(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
    repeated = shaping.broadcast(apart, (*x.shape[: axis + 1], count, *x.shape[axis + 1 :]))
    return shaping.reshaped(repeated, (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :]))


def expand(x: TracedArray, size: Sequence[int]) -> TracedArray:
    """Like torch.Tensor.expand; −1 keeps a size."""
    sizes = integers.wholes(size)
    new = len(sizes) - x.ndim
    if new < 0 or -1 in sizes[:new]:
        raise broken(f"{x!r} does not expand to {sizes}")
    own = (*(0,) * new, *x.shape)
    return shaping.broadcast_to(x, [now if n == -1 else n for n, now in zip(sizes, own, strict=True)])


def expand_as(x: TracedArray, other: TracedArray) -> TracedArray:
    """Like torch.Tensor.expand_as."""
    return expand(x, other.shape)


def broadcast_arrays(arrays: Sequence[TracedArray]) -> tuple[TracedArray, ...]:
    """Like numpy.broadcast_arrays and torch.broadcast_tensors."""
    shape = shaping.common_shape([array.shape for array in arrays])
    return tuple(shaping.broadcast(array, shape) for array in arrays)


def meshgrid(
    arrays: Sequence[TracedArray], indexing: Any = "xy", sparse: bool = False, kind: Any = tuple
) -> list[TracedArray] | tuple[TracedArray, ...]:
    """Like numpy.meshgrid and torch.meshgrid; `kind` is list or tuple."""
    if indexing not in ("xy", "ij"):
        raise broken("Valid values for `indexing` are 'xy' and 'ij'.")
    rank = len(arrays)
    sizes = [array.count for array in arrays]
    grids = []
    for k, array in enumerate(arrays):
        grid = shaping.reshaped(array, [size if k == axis else 1 for axis, size in enumerate(sizes)])
        grid = grid if sparse else shaping.broadcast(grid, sizes)
        grids.append(axes.swapaxes(grid, 0, 1) if indexing == "xy" and rank > 1 else grid)
    return kind(grids)  # type: ignore[no-any-return]


def cartesian_prod(tensors: Sequence[TracedArray]) -> TracedArray:
    """Like torch.cartesian_prod."""
    if any(tensor.ndim != 1 for tensor in tensors):
        raise broken("tensors of a cartesian_prod must have one dimension")
    if len(tensors) == 1:
        return tensors[0]
    return joins.stack([axes.ravel(grid) for grid in meshgrid(tensors, "ij")], 1)


def combinations(x: TracedArray, r: int = 2, with_replacement: bool = False) -> TracedArray:
    """Like torch.combinations."""
    if x.ndim != 1 or r < 0:
        raise broken(f"combinations of {r} elements of {x!r}: it must have one dimension, and r must be 0 or more")
    if not r:
        return shaping.cut(x, 0, 0, 0)
    ways = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    found = np.array([*ways(range(x.shape[0]), r)], np.int64).reshape(-1, r)
    return shaping.picked(x, found, 0)
