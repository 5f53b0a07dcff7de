"""NumPy's functions of traced arrays: those that move. Arguments are NumPy's own, but for `out`.

An `order` of copies is ignored, as results are packed.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from anydml.tracing import numpy_axes, numpy_joins, shaping
from anydml.tracing.padding import pad
from anydml.tracing.refusing import CLAMPING, broken, named, refused
from anydml.tracing.trace import Trace, TracedArray


def called(trace: Trace, function: Any, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """What one of NumPy's functions gives.

    Raises:
        FuseError: it computes, or its arguments do not fit.
    """
    name = f"{getattr(function, '__module__', 'numpy')}.{getattr(function, '__name__', function)}"
    known = _KNOWN.get(function)
    if known is None:
        raise refused(f"{name} of a traced array", "it is none of the functions that move elements only")
    with named(name):
        return known(trace, *arguments, **keywords)


def _array(call: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose first argument is an array."""

    def given(trace: Trace, a: Any, *arguments: Any, **keywords: Any) -> Any:
        return call(trace.array(a), *arguments, **keywords)

    return given


def _where(trace: Trace, condition: Any, *chosen: Any) -> TracedArray:
    """As NumPy's of two arrays of one dtype, or of one and a number that it holds."""
    if len(chosen) != 2:
        raise refused("numpy.where of a condition alone", "shapes would depend on elements")
    x, y = (
        np.asarray(each, other.dtype) if type(each) in (bool, int, float, complex) and _holds(other, each) else each
        for each, other in (chosen, chosen[::-1])
    )
    traced: Any = next(each for each in (condition, x, y) if isinstance(each, TracedArray))
    found: TracedArray = traced.anydml_functions.where(condition, x, y)
    return found


def _holds(array: Any, number: Any) -> bool:
    return hasattr(array, "dtype") and np.result_type(array.dtype, number) == array.dtype


def _named(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The same, where callers may give the array by name."""

    def given(trace: Trace, *arguments: Any, **keywords: Any) -> Any:
        x, *rest = arguments or (keywords.pop(name),)
        return call(trace.array(x), *rest, **keywords)

    return given


def _at_least(rank: int) -> Callable[..., Any]:
    def atleast(trace: Trace, *arrays: Any) -> Any:
        found = tuple(numpy_axes.raised(trace.array(array), rank) for array in arrays)
        return found[0] if len(found) == 1 else found

    return atleast


def roll(x: TracedArray, shift: Any, axis: Any = None) -> TracedArray:
    """As NumPy's."""
    if axis is None:
        return shaping.reshaped(roll(numpy_axes.ravel(x), np.sum(shift), 0), x.shape)
    axes = normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    pairs = np.broadcast(shift, axes)
    if pairs.ndim > 1:
        raise broken("'shift' and 'axis' should be scalars or 1D sequences")
    shifts = dict.fromkeys(axes, 0)
    for by, one in pairs:
        shifts[int(one)] += operator.index(by)
    for one, by in shifts.items():
        size = x.shape[one]
        if size and by % size:
            cut = size - by % size
            parts = [shaping.cut(x, one, cut, size - cut), shaping.cut(x, one, 0, cut)]
            x = shaping.joined(parts, one)
    return x


def tile(x: TracedArray, reps: Any) -> TracedArray:
    """As NumPy's."""
    counts = [*map(operator.index, reps)] if hasattr(reps, "__len__") else [operator.index(reps)]
    rank = max(len(counts), x.ndim)
    counts = [1] * (rank - len(counts)) + counts
    sizes = [1] * (rank - x.ndim) + [*x.shape]
    apart = shaping.reshaped(x, [n for size in sizes for n in (1, size)])
    repeated = shaping.broadcast(apart, [n for pair in zip(counts, sizes, strict=True) for n in pair])
    return shaping.reshaped(repeated, [count * size for count, size in zip(counts, sizes, strict=True)])


def repeat(x: TracedArray, repeats: Any, axis: Any = None) -> TracedArray:
    """As NumPy's."""
    if isinstance(repeats, TracedArray):
        raise refused("numpy.repeat by traced counts", "the result's shape would depend on elements")
    x = numpy_axes.ravel(x) if axis is None else x
    axis = normalize_axis_index(0 if axis is None else axis, x.ndim)
    counts = np.asarray(repeats)
    if counts.size == 1:
        count = operator.index(counts.reshape(-1)[0])
        apart = shaping.reshaped(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
        repeated = shaping.broadcast(apart, (*x.shape[: axis + 1], count, *x.shape[axis + 1 :]))
        return shaping.reshaped(repeated, (*x.shape[:axis], x.shape[axis] * count, *x.shape[axis + 1 :]))
    return shaping.picked(x, np.repeat(np.arange(x.shape[axis]), counts), axis)


def _take(trace: Trace, a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> TracedArray:
    numpy_axes.no_out(out)
    x = trace.array(a)
    x = numpy_axes.ravel(x) if axis is None else x
    axis = normalize_axis_index(0 if axis is None else axis, x.ndim)
    if mode not in ("raise", "wrap", "clip"):
        raise broken(f"mode is {mode!r}: one of 'raise', 'wrap' and 'clip'")
    if isinstance(indices, TracedArray) and mode != "raise":
        raise refused(f"indices that are traced, in mode {mode!r}", f"{CLAMPING} clamps, and counts back from the end")
    if mode != "raise":
        size = x.shape[axis]
        indices = np.asarray(indices) % size if mode == "wrap" else np.clip(indices, 0, size - 1)
    if shaping.is_known(indices) and not np.size(indices):
        indices = np.asarray(indices, np.int64)
    return shaping.picked(x, indices, axis)


def _take_along_axis(trace: Trace, arr: Any, indices: Any, axis: Any = -1) -> TracedArray:
    x = trace.array(arr)
    if axis is None:
        x, axis = numpy_axes.ravel(x), 0
    axis = normalize_axis_index(axis, x.ndim)
    outside, by = "refuse", indices
    if shaping.is_known(indices):
        outside, by = "clamp", shaping.known_indices(indices, x.shape[axis])
    index = trace.array(by)
    if index.ndim != x.ndim:
        raise broken("`indices` and `arr` must have the same number of dimensions")
    sizes = [*np.broadcast_shapes(*((*each.shape[:axis], 1, *each.shape[axis + 1 :]) for each in (x, index)))]
    wide, long = [*sizes], [*sizes]
    wide[axis], long[axis] = x.shape[axis], index.shape[axis]
    return shaping.along(shaping.broadcast(x, wide), shaping.broadcast(index, long), axis, outside)  # type: ignore[arg-type]


def rollaxis(x: TracedArray, axis: int, start: int = 0) -> TracedArray:
    """As NumPy's."""
    axis = normalize_axis_index(axis, x.ndim)
    # Counted back from the last axis, not from the place after it.
    if not -x.ndim <= start <= x.ndim:
        raise broken(f"start is {start}, but must be {-x.ndim} to {x.ndim}")
    start += x.ndim * (start < 0)
    return numpy_axes.moveaxis(x, axis, start - (axis < start))


def broadcast_to(x: TracedArray, shape: Any, subok: bool = False) -> TracedArray:
    """As NumPy's."""
    sizes = tuple(map(operator.index, shape)) if hasattr(shape, "__len__") else (operator.index(shape),)
    if np.broadcast_shapes(x.shape, sizes) != sizes:
        raise broken(f"{x!r} does not broadcast to {sizes}")
    return shaping.broadcast(x, sizes)


def _broadcast_arrays(trace: Trace, *args: Any, subok: bool = False) -> Any:
    arrays = [*map(trace.array, args)]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    return tuple(shaping.broadcast(array, shape) for array in arrays)


def _like(number: Any) -> Callable[..., Any]:
    def like(
        x: TracedArray,
        dtype: Any = None,
        order: Any = "K",
        subok: bool = True,
        shape: Any = None,
        *,
        device: Any = None,
    ) -> TracedArray:
        return _filled_like(x, number, dtype, shape)

    return like


def _full_like(
    x: TracedArray,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> TracedArray:
    found = x.element if dtype is None else np.dtype(dtype)
    if fill_value is None:
        raise broken("nothing is given to fill in")
    if np.ndim(fill_value):
        known = fill_value if isinstance(fill_value, TracedArray) else np.asarray(fill_value).astype(found)
        return broadcast_to(x.trace.array(known).astype(found), _sizes_like(x, shape))
    number = fill_value if isinstance(fill_value, TracedArray) else np.full((), fill_value, found)
    return _filled_like(x, number, found, shape)


def _filled_like(x: TracedArray, number: Any, dtype: Any, shape: Any) -> TracedArray:
    return shaping.filled(x, _sizes_like(x, shape), dtype, number)


def _sizes_like(x: TracedArray, shape: Any) -> Any:
    return x.shape if shape is None else shape if hasattr(shape, "__len__") else (shape,)


def _copy(x: TracedArray, order: Any = "K", subok: bool = False) -> TracedArray:
    return x


def _contiguous(trace: Trace, a: Any, dtype: Any = None) -> TracedArray:
    x = numpy_axes.raised(trace.array(a), 1)
    return x if dtype is None else x.astype(dtype)


def _size(x: TracedArray, axis: Any = None) -> int:
    axes = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim)
    return math.prod(x.shape[k] for k in axes)


_KNOWN: dict[Any, Callable[..., Any]] = {
    np.reshape: _named(numpy_axes.reshape, "a"),
    np.ravel: _named(numpy_axes.ravel, "a"),
    np.transpose: _named(numpy_axes.transpose, "a"),
    np.swapaxes: _named(numpy_axes.swapaxes, "a"),
    np.matrix_transpose: _array(numpy_axes.matrix_transpose),
    np.moveaxis: _named(numpy_axes.moveaxis, "a"),
    np.squeeze: _named(numpy_axes.squeeze, "a"),
    np.expand_dims: _named(numpy_axes.expand_dims, "a"),
    np.atleast_1d: _at_least(1),
    np.atleast_2d: _at_least(2),
    np.atleast_3d: _at_least(3),
    np.flip: _named(numpy_axes.flip, "m"),
    np.fliplr: _named(lambda x: numpy_axes.flip(x, 1), "m"),
    np.flipud: _named(lambda x: numpy_axes.flip(x, 0), "m"),
    np.rot90: _named(numpy_axes.rot90, "m"),
    np.roll: _named(roll, "a"),
    np.tile: _named(tile, "A"),
    np.repeat: _named(repeat, "a"),
    np.pad: _named(pad, "array"),
    np.take: _take,
    np.take_along_axis: _take_along_axis,
    np.concatenate: numpy_joins.concatenate,
    np.stack: numpy_joins.stack,
    np.hstack: numpy_joins.stacked(1, 1),
    np.vstack: numpy_joins.stacked(2, 0),
    np.dstack: numpy_joins.stacked(3, 2),
    np.column_stack: numpy_joins.column_stack,
    np.append: numpy_joins.append,
    np.rollaxis: _named(rollaxis, "a"),
    np.array_split: _named(numpy_joins.array_split, "ary"),
    np.split: _named(numpy_joins.split, "ary"),
    np.hsplit: _named(numpy_joins.split_at(1), "ary"),
    np.vsplit: _named(numpy_joins.split_at(0), "ary"),
    np.dsplit: _named(numpy_joins.split_at(2), "ary"),
    np.broadcast_to: _named(broadcast_to, "array"),
    np.broadcast_arrays: _broadcast_arrays,
    np.zeros_like: _named(_like(None), "a"),
    np.ones_like: _named(_like(1), "a"),
    # Nothing can be written into it, so its elements may as well be known.
    np.empty_like: _named(_like(None), "prototype"),
    np.full_like: _named(_full_like, "a"),
    np.copy: _named(_copy, "a"),
    np.where: _where,
    np.ascontiguousarray: _contiguous,
    np.shape: _named(lambda x: x.shape, "a"),
    np.ndim: _named(lambda x: x.ndim, "a"),
    np.size: _named(_size, "a"),
}
if hasattr(np, "unstack"):
    _KNOWN[np.unstack] = _named(lambda x, /, *, axis=0: tuple(numpy_axes.moveaxis(x, axis, 0)), "x")
