"""Operations that select elements: by indices, in windows, along diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from anydml.arrays import received
from anydml.errors import FuseIndexError
from anydml.moves.move import Outside
from anydml.text import counted
from anydml.tracing import axes, integers, shaping
from anydml.tracing.indexing import indexed
from anydml.tracing.refusing import CLAMPING, broken, refused
from anydml.tracing.trace import TracedArray

Array = np.ndarray[Any, Any]


def item(x: TracedArray, key: Any) -> TracedArray:
    """Return ``x[key]``."""
    return indexed(x, key)


def take(x: TracedArray, indices: Any, axis: Any = None, mode: str = "raise") -> TracedArray:
    """Like NumPy's method."""
    x = axes.ravel(x) if axis is None else x
    axis = normalize_axis_index(0 if axis is None else axis, x.ndim)
    if mode not in ("raise", "wrap", "clip"):
        raise broken(f"mode is {mode!r}, but must be 'raise', 'wrap' or 'clip'")
    if isinstance(indices, TracedArray):
        if mode != "raise":
            hint = f"{CLAMPING} clamps, and counts back from the end"
            raise broken(f"traced indices in mode {mode!r}: {hint}")
        return shaping.picked(x, indices, axis)
    known = known_array(indices)
    shaping.check_known(known)
    if mode != "raise":
        known = known % x.shape[axis] if mode == "wrap" else np.clip(known, 0, x.shape[axis] - 1)
    return shaping.picked(x, known if known.size else known.astype(np.int64), axis)


def take_along_axis(x: TracedArray, indices: Any, axis: Any = -1) -> TracedArray:
    """Like numpy.take_along_axis."""
    if axis is None:
        x, axis = axes.ravel(x), 0
    axis = normalize_axis_index(axis, x.ndim)
    is_traced = isinstance(indices, TracedArray)
    index = x.trace.array(indices if is_traced else shaping.known_indices(indices, x.shape[axis]))
    if index.ndim != x.ndim:
        raise broken("`indices` and `arr` must have the same number of dimensions")
    return _along_broadcast(x, index, axis, "refuse" if is_traced else "clamp")


def _along_broadcast(x: TracedArray, index: TracedArray, axis: int, outside: Outside) -> TracedArray:
    """Select along an axis after broadcasting both along all others."""
    sizes = [*shaping.common_shape([(*each.shape[:axis], 1, *each.shape[axis + 1 :]) for each in (x, index)])]
    wide, long = [*sizes], [*sizes]
    wide[axis], long[axis] = x.shape[axis], index.shape[axis]
    return shaping.along(shaping.broadcast(x, wide), shaping.broadcast(index, long), axis, outside)


def take_along_dim(x: TracedArray, indices: Any, dim: Any = None) -> TracedArray:
    """Like torch.take_along_dim."""
    by = indices if isinstance(indices, TracedArray) else known_array(indices)
    if dim is None:
        x, by, dim = axes.ravel(x), by.reshape(-1), 0
    if by.ndim != x.ndim:
        raise broken(f"indices of {counted(by.ndim, 'dimension')} pick from {x.ndim}")
    return take_along_axis(x, by, axes.dimension(x, dim))


def picked_along(x: TracedArray, dim: int, index: Any) -> TracedArray:
    """As PyTorch picks: indices are 0 or more, and their other sizes may be smaller than the tensor's."""
    by, place = index if isinstance(index, TracedArray) else known_array(index), axes.dimension(x, dim)
    shape = tuple(by.shape)
    if 0 in shape:
        return shaping.filled(x, shape, None, None)
    if max(x.ndim, 1) != max(by.ndim, 1):
        raise broken(f"indices of {counted(by.ndim, 'dimension')} pick from {x.ndim}")
    x, by = axes.raised(x, 1), by.reshape(shape or (1,))
    x = within(x, by.shape, place)
    outside: Outside = "refuse" if isinstance(by, TracedArray) else "clamp"
    return shaping.reshaped(shaping.along(x, index_array(x, by, x.shape[place]), place, outside), shape)


def within(x: TracedArray, sizes: Sequence[int], place: int) -> TracedArray:
    """Crop every dimension but one to `sizes`.

    Raises:
        FuseError: x is smaller.
    """
    if any(n > whole for k, (n, whole) in enumerate(zip(sizes, x.shape, strict=True)) if k != place):
        raise broken(f"indices of shape {tuple(sizes)} exceed {x.shape} in a dimension other than {place}")
    wanted = [x.shape[k] if k == place else n for k, n in enumerate(sizes)]
    return shaping.sliced(x, [0] * x.ndim, wanted, [1] * x.ndim)


def index_select(x: TracedArray, dim: int, index: Any) -> TracedArray:
    """Like torch.index_select; indices are 0 or more."""
    if np.ndim(index) > 1:
        raise broken("index must have one dimension")
    by = from_zero(axes.raised(index, 1) if isinstance(index, TracedArray) else np.atleast_1d(known_array(index)))
    found = shaping.picked(axes.raised(x, 1), by, axes.dimension(x, dim))
    return found if x.ndim else shaping.reshaped(found, ())


def element(x: TracedArray, index: Any) -> TracedArray:
    """Like torch.take: index the flattened tensor; negative indices count from the end."""
    by = index if isinstance(index, TracedArray) else known_array(index)
    return shaping.picked(axes.ravel(x), by, 0)


def embedding(input: Any, weight: TracedArray, padding_idx: Any = None, max_norm: Any = None) -> TracedArray:
    """Like torch.nn.functional.embedding, without max_norm."""
    if max_norm is not None:
        raise refused("embedding with max_norm")
    if weight.ndim != 2:
        raise broken(f"weight has {counted(weight.ndim, 'dimension')}, but must have 2")
    by = input if isinstance(input, TracedArray) else known_array(input)
    return shaping.picked(weight, from_zero(by), 0)


def narrow(x: TracedArray, dim: int, start: Any, length: int) -> TracedArray:
    """Like torch.narrow; a traced start is 0 or more."""
    place, size = axes.dimension(x, dim), integers.whole(length)
    whole = x.shape[place]
    if isinstance(start, TracedArray):
        # A traced start indexes the windows of this length.
        if not 0 <= size <= whole:
            raise broken(f"length {size} exceeds a dimension of size {whole}")
        found = windows(x, place, size, 1)
        found = shaping.picked(found, from_zero(axes.ravel(start)), place)
        return axes.moveaxis(shaping.reshaped(shaping.cut(found, place, 0, 1), _without(found.shape, place)), -1, place)
    first = integers.whole(start)
    if not -whole <= first <= whole:
        raise broken(f"start {first} is out of range for a dimension of size {whole}", FuseIndexError)
    first = first + whole if first < 0 else first
    if size < 0 or first + size > whole:
        raise broken(f"start {first} and length {size} exceed a dimension of size {whole}")
    return shaping.cut(x, place, first if size else 0, size)


def _without(sizes: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*sizes[:axis], *sizes[axis + 1 :])


def select(x: TracedArray, dim: int, index: int) -> TracedArray:
    """Like torch.select."""
    place = axes.dimension(x, dim)
    if isinstance(index, TracedArray):
        return shaping.reshaped(shaping.picked(x, axes.ravel(index), place), _without(x.shape, place))
    whole, at = x.shape[place], integers.whole(index)
    if not -whole <= at < whole:
        raise broken(f"index {at} is out of range for a dimension of size {whole}", FuseIndexError)
    return shaping.reshaped(shaping.cut(x, place, at + whole if at < 0 else at, 1), _without(x.shape, place))


def sliced(x: TracedArray, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> TracedArray:
    """Like torch.ops.aten.slice."""
    return indexed(x, (*(slice(None),) * axes.dimension(x, dim), slice(start, end, step)))


def windows(x: TracedArray, dimension: int, size: int, step: int) -> TracedArray:
    """Like torch.Tensor.unfold: windows along a dimension, whose elements become the last dimension."""
    if not x.ndim:
        # A scalar is one window of one element.
        found = windows(shaping.reshaped(x, (1,)), dimension, size, step)
        return shaping.reshaped(found, found.shape[1:])
    place, length = axes.dimension(x, dimension), integers.whole(size)
    if not 0 <= length <= x.shape[place] or step < 1:
        raise broken(f"windows of {size} by {step} along dimension {dimension} of {x!r}")
    count = (x.shape[place] - length) // step + 1
    return x.made(x.trace.composer.windows(x.value, place, count, length, step))


def sliding_window_view(x: TracedArray, window_shape: Any, axis: Any = None) -> TracedArray:
    """Like numpy.sliding_window_view."""
    lengths = integers.wholes(window_shape)
    along = range(x.ndim) if axis is None else normalize_axis_tuple(axis, x.ndim, allow_duplicate=True)
    if len(lengths) != len(along):
        raise broken("Must provide matching length window_shape and axis")
    for place, length in zip(along, lengths, strict=True):
        x = windows(x, place, length, 1)
    return x


def diagonal(x: TracedArray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TracedArray:
    """Like numpy.diagonal and torch.diagonal."""
    first, second = (normalize_axis_index(axis, x.ndim) for axis in (axis1, axis2))
    if first == second:
        raise broken("axis1 and axis2 cannot be the same")
    row, column, size = diagonal_at(x.shape[first], x.shape[second], offset)
    square = shaping.cut(shaping.cut(x, first, row if size else 0, size), second, column if size else 0, size)
    ordered = axes.moveaxis(square, (first, second), (-2, -1))
    return ordered.made(x.trace.composer.diagonal(ordered.value, x.ndim - 2, x.ndim - 1))


def diagonal_at(rows: int, columns: int, offset: int) -> tuple[int, int, int]:
    """Return the start row and column of a matrix' diagonal, and its length."""
    row, column = max(-offset, 0), max(offset, 0)
    return row, column, max(min(rows - row, columns - column), 0)


def delete(x: TracedArray, obj: Any, axis: Any = None) -> TracedArray:
    """Like numpy.delete, with constant positions."""
    if axis is None:
        x, axis = axes.ravel(x), 0
    place = normalize_axis_index(axis, x.ndim)
    known_object(obj)
    left = np.delete(np.arange(x.shape[place]), obj)
    return shaping.picked(x, left, place)


def compress(condition: Any, x: TracedArray, axis: Any = None) -> TracedArray:
    """Like numpy.compress, with a constant condition."""
    known_object(condition)
    if np.ndim(condition) != 1:
        raise broken("condition must be a 1-d array")
    return take(x, np.flatnonzero(condition), axis)


def extract(condition: Any, x: TracedArray) -> TracedArray:
    """Like numpy.extract, with a constant condition."""
    known_object(condition)
    return take(x, np.flatnonzero(condition))


def known_object(given: Any) -> None:
    """Check that an argument that determines a shape is constant.

    Raises:
        FuseError: it is traced.
    """
    if isinstance(given, TracedArray):
        raise refused(f"selection by {given!r}", "the result's shape would depend on elements")


def known_array(indices: Any) -> Array:
    """Return constant indices as a NumPy array."""
    return received("indices", indices)[0]


def index_array(x: TracedArray, index: Any, size: int) -> TracedArray:
    """Return indices of 0 or more as a traced array.

    Raises:
        FuseError: a constant index is out of range.
    """
    if isinstance(index, TracedArray):
        return from_zero(index)  # type: ignore[no-any-return]
    return x.trace.array(shaping.known_indices(from_zero(known_array(index)), size))


def from_zero(indices: Any) -> Any:
    """Mark negative indices as out of range."""
    if isinstance(indices, TracedArray):
        name = indices.element.name
        if name not in ("int32", "int64"):
            return indices
        # Read as unsigned, negative numbers exceed any size.
        indices.trace.are_unsigned(indices.value, 8 * indices.itemsize)
        return indices.trace.made(indices.value, np.dtype(f"u{name}"))
    shaping.check_known(indices)
    if indices.size and int(indices.min()) < 0:
        raise broken(f"index {int(indices.min())} is out of range", FuseIndexError)
    return indices
