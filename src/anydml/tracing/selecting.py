"""Words that select elements: by indices and masks, in windows, along diagonals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from anydml.errors import FuseIndexError
from anydml.text import count_noun
from anydml.tracing import array_verbs
from anydml.tracing.array_verbs import (
    axes_of,
    axis_of,
    broadcast,
    broadcast_all,
    common_shape,
    cut,
    fill,
    native_element,
    reshape,
    shape_with,
)
from anydml.tracing.axes import at_least, expand_dims, moveaxis, ravel
from anydml.tracing.constants import (
    arrays_of,
    refuse_negative,
    require_untraced,
    torch_indices,
    trace_of,
    traced_or_constant,
    whole_number,
    whole_numbers,
)
from anydml.tracing.indexing import at
from anydml.tracing.join_split import stack
from anydml.tracing.picking import index_array, pick, pick_along
from anydml.tracing.putting import choose_by_mask
from anydml.tracing.refusing import CLAMPING_TAKE, fuse_error, refusal
from anydml.tracing.trace import TracedArray


def take(x: TracedArray, indices: Any, axis: Any = None, mode: str = "raise") -> TracedArray:
    """Select elements along an axis, by default of the flattened array."""
    x, axis = (ravel(x), 0) if axis is None else (x, normalize_axis_index(axis, x.ndim))
    if isinstance(indices, TracedArray) and mode != "raise":
        hint = f"{CLAMPING_TAKE} clamps, and counts back from the end"
        raise fuse_error(f"traced indices in mode {mode!r}: {hint}")
    by = traced_or_constant(indices)
    by = _bounded(by, x.shape[axis], mode)
    result = pick(x, by if isinstance(by, TracedArray) or by.size else by.astype(np.int64), axis)
    return result if result.ndim or result.MIN_RANK else native_element(result)


def _bounded(indices: Any, size: int, mode: str) -> Any:
    """Bring constant indices into the range of an axis, in one of NumPy's modes."""
    if mode not in ("raise", "wrap", "clip"):
        raise fuse_error(f"mode is {mode!r}, but must be 'raise', 'wrap' or 'clip'")
    if mode == "raise":
        return indices
    if indices.dtype.kind not in "iub" and indices.size:
        raise fuse_error(f"indices are {indices.dtype}, not integers", FuseIndexError)
    return indices % size if mode == "wrap" else np.clip(indices, 0, size - 1)


def take_along_axis(x: TracedArray, indices: Any, axis: Any = -1) -> TracedArray:
    """Select by an index per element along an axis, by default of the flattened array."""
    x, axis = (ravel(x), 0) if axis is None else (x, axis_of(x, axis))
    index, is_checked = index_array(x, indices, x.shape[axis])
    if index.ndim != x.ndim:
        raise fuse_error(
            f"indices of {count_noun(index.ndim, 'dimension')} for an array of {x.ndim}: they must have as many"
        )
    sizes = common_shape([shape_with(array, axis, 1) for array in (x, index)])
    x, index = (broadcast(array, (*sizes[:axis], array.shape[axis], *sizes[axis + 1 :])) for array in (x, index))
    return pick_along(x, index, axis, "clamp" if is_checked else "error")


def take_along_dim(x: TracedArray, indices: Any, dim: Any = None) -> TracedArray:
    """Like `take_along_axis`, but without a dimension, the indices are flattened, too."""
    by = torch_indices(indices, ("int64",))
    return take_along_axis(x, by.reshape(-1), None) if dim is None else take_along_axis(x, by, dim)


def select_along(x: TracedArray, dim: int, index: Any) -> TracedArray:
    """Select by one index, of 0 or more, per element; along other dimensions, there may be fewer indices.

    As in PyTorch, the dtype of empty indices is ignored.
    """
    axis = axis_of(x, dim)
    shape = tuple(traced_or_constant(index).shape)
    if 0 in shape:
        return fill(x, shape)
    by = torch_indices(index)
    if max(x.ndim, 1) != max(by.ndim, 1):
        raise fuse_error(f"indices of {count_noun(by.ndim, 'dimension')} pick from {x.ndim}")
    by, x = by.reshape(shape or (1,)), within(at_least(x, 1), shape or (1,), axis)
    indices, is_checked = index_array(x, refuse_negative(by), x.shape[axis])
    return reshape(pick_along(x, indices, axis, "clamp" if is_checked else "error"), shape)


def within(x: TracedArray, sizes: Sequence[int], axis: int) -> TracedArray:
    """Crop every dimension but one to `sizes`.

    Raises:
        FuseError: x is smaller.
    """
    for k, size in enumerate(sizes):
        if k != axis:
            if size > x.shape[k]:
                raise fuse_error(f"indices of shape {tuple(sizes)} exceed {x.shape} in a dimension other than {axis}")
            x = cut(x, k, 0, size)
    return x


def index_select(x: TracedArray, dim: int, index: Any) -> TracedArray:
    """Select along a dimension by one index of 0 or more, or by a list of such indices."""
    by = refuse_negative(torch_indices(index))
    if by.ndim > 1:
        raise fuse_error("index must have one dimension")
    picked = pick(at_least(x, 1), by.reshape(-1), axis_of(x, dim))
    return picked if x.ndim else reshape(picked, ())


def embedding(input: Any, weight: TracedArray, padding_idx: Any = None, max_norm: Any = None) -> TracedArray:
    """Select rows by indices of 0 or more."""
    if max_norm is not None:
        raise refusal("embedding with max_norm")
    if weight.ndim != 2:
        raise fuse_error(f"weight has {count_noun(weight.ndim, 'dimension')}, but must have 2")
    return pick(weight, refuse_negative(torch_indices(input)), 0)


def narrow(x: TracedArray, dim: int, start: Any, length: int) -> TracedArray:
    """Cut a dimension; a traced start is 0 or more."""
    axis, size = axis_of(x, dim), whole_number(length)
    total = x.shape[axis]
    if isinstance(start, TracedArray):
        # A traced start indexes the windows of this length.
        if not 0 <= size <= total:
            raise fuse_error(f"length {size} exceeds a dimension of size {total}")
        if start.ndim or start.element.kind == "b":
            raise fuse_error(f"start is {start!r}, but must be a tensor of integers without dimensions")
        narrowed = at(array_verbs.windows(x, axis, size, 1), axis, refuse_negative(start))
        return moveaxis(narrowed, -1, axis)
    if getattr(start, "ndim", 0):
        raise fuse_error("start must be an integer, or a tensor without dimensions")
    first = whole_number(start)
    if not -total <= first <= total:
        raise fuse_error(
            f"start {first} is out of range for axis {axis} of size {total}: it must be {-total} to {total}",
            FuseIndexError,
        )
    first = first + total if first < 0 else first
    if size < 0 or first + size > total:
        raise fuse_error(f"start {first} and length {size} exceed a dimension of size {total}")
    return cut(x, axis, first, size)


def select(x: TracedArray, dim: int, index: Any) -> TracedArray:
    """Return the slice at an index of a dimension, without it."""
    return at(x, axis_of(x, dim), index.reshape(()) if isinstance(index, TracedArray) else whole_number(index))


def slice_dim(x: TracedArray, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> TracedArray:
    """Slice a dimension."""
    return at(x, axis_of(x, dim), slice(start, end, step))


def sliding_window_view(x: TracedArray, window_shape: Any, axis: Any = None) -> TracedArray:
    """Return the windows along axes."""
    lengths, along = whole_numbers(window_shape), axes_of(x, axis, are_distinct=False)
    if len(lengths) != len(along):
        raise fuse_error("Must provide matching length window_shape and axis")
    for window_axis, length in zip(along, lengths, strict=True):
        x = array_verbs.windows(x, window_axis, length, 1)
    return x


def diagonal(x: TracedArray, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TracedArray:
    """Return the elements whose coordinates along two axes differ by `offset`, along a new last axis."""
    first, second = (normalize_axis_index(axis, x.ndim) for axis in (axis1, axis2))
    if first == second:
        raise fuse_error("axis1 and axis2 cannot be the same")
    row, column, size = diagonal_at(x.shape[first], x.shape[second], offset)
    square = moveaxis(cut(cut(x, first, row, size), second, column, size), (first, second), (-2, -1))
    return square.new_array(x.trace.composer.diagonal(square.value, x.ndim - 2, x.ndim - 1))


def diagonal_at(rows: int, columns: int, offset: int) -> tuple[int, int, int]:
    """Return the start row and column of a matrix' diagonal, and its length."""
    below = whole_number(offset)
    row, column = max(-below, 0), max(below, 0)
    return row, column, max(min(rows - row, columns - column), 0)


def delete(x: TracedArray, obj: Any, axis: Any = None) -> TracedArray:
    """Leave out constant positions of an axis, by default of the flattened array."""
    x, axis = (ravel(x), 0) if axis is None else (x, normalize_axis_index(axis, x.ndim))
    return pick(x, np.delete(np.arange(x.shape[axis]), require_untraced(obj)), axis)


def compress(condition: Any, x: TracedArray, axis: Any = None) -> TracedArray:
    """Select along an axis where a constant condition holds; by default, elements of the flattened array."""
    if np.ndim(require_untraced(condition)) != 1:
        raise fuse_error("condition must be a 1-d array")
    return take(x, np.flatnonzero(condition), axis)


def extract(condition: Any, x: TracedArray) -> TracedArray:
    """Select elements of the flattened array where a constant condition holds."""
    return take(x, np.flatnonzero(require_untraced(condition)))


def where(mask: TracedArray, x: Any = None, y: Any = None) -> TracedArray:
    """Choose between two arrays of one dtype, or an array and a number that its dtype holds."""
    if x is None or y is None:
        raise refusal(
            "where of a condition alone", "shapes would depend on elements: call it outside the fused function"
        )
    chosen = arrays_of(mask.trace, (x, y), is_weak=True)
    if mask.INDEXES_LIKE_TORCH:
        for number, array in zip((x, y), chosen, strict=True):
            _check_held(number, array.element)
    return choose_by_mask(mask, *map(array_verbs.native, chosen))


def _check_held(number: Any, dtype: np.dtype[Any]) -> None:
    """Check that a number fits a dtype, since NumPy would wrap it; unsigned types take negative ones, as in PyTorch.

    Raises:
        FuseError: the number does not fit.
    """
    if type(number) is int and dtype.kind in "iu":
        greatest = int(np.iinfo(dtype).max)
        lowest = -greatest if dtype.kind == "u" else -greatest - 1
        if not lowest <= number <= greatest:
            raise fuse_error(f"{number} in an array of {dtype}: it must be {lowest} to {greatest}")
    elif type(number) in (int, float) and dtype.kind not in "biu" and math.isfinite(number):
        # PyTorch refuses some of these numbers, and its versions convert the others differently.
        with np.errstate(over="ignore"):
            is_held = math.isfinite(np.asarray(number, dtype).real)
        if not is_held:
            raise fuse_error(f"{number} in an array of {dtype}: it is too large")


def select_first(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> TracedArray:
    """Choose by the first condition that holds."""
    if len(condlist) != len(choicelist) or not condlist:
        raise fuse_error("list of cases must be same length as list of conditions, and not empty")
    trace = trace_of([*condlist, *choicelist, default])
    conditions = [trace.array(condition) for condition in condlist]
    if any(condition.element.kind != "b" for condition in conditions):
        raise fuse_error("conditions must be arrays of bools")
    *choices, chosen = map(array_verbs.native, arrays_of(trace, (*choicelist, default), is_weak=True))
    shape = common_shape([array.shape for array in (*conditions, *choices, chosen)])
    for condition, choice in [*zip(conditions, choices, strict=True)][::-1]:
        chosen = choose_by_mask(condition, choice, chosen)
    return broadcast(chosen, shape)


def choose_from(a: Any, choices: Any, mode: str = "raise") -> TracedArray:
    """Choose each element from the array whose number an index gives."""
    trace = trace_of([a, *choices])
    arrays = [trace.array(choice) for choice in choices]
    if isinstance(a, TracedArray) and mode != "raise":
        raise fuse_error(f"traced choices in mode {mode!r}: only 'raise' is supported")
    by = refuse_negative(_bounded(traced_or_constant(a), len(arrays), mode))
    index, is_checked = index_array(arrays[0], by, len(arrays))
    index, *arrays = broadcast_all([index, *arrays])
    return at(pick_along(stack(arrays), expand_dims(index, 0), 0, "clamp" if is_checked else "error"), 0, 0)
