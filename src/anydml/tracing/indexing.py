"""Indexing of traced arrays by NumPy's rules."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import FuseIndexError
from anydml.moves.open_numbers import larger, smaller
from anydml.moves.wrapped_indices import out_of_range
from anydml.text import count_noun
from anydml.tracing.array_verbs import broadcast, common_shape, native_element, permute, reshape, window
from anydml.tracing.constants import TORCH_KEY_DTYPES, Array, constant_array, torch_indices, whole_number
from anydml.tracing.open_sizes import OpenSize
from anydml.tracing.refusing import fuse_error, named_errors, refusal
from anydml.tracing.short_integers import ShortInteger
from anydml.tracing.trace import TracedArray


def indexed(x: TracedArray, key: Any) -> TracedArray:
    """Return ``x[key]`` for ints, slices, ``...``, None, and index arrays that broadcast to each other.

    Raises:
        FuseError: the key does not fit x's shape, or depends on elements.
    """
    x = x.trace.array(x)
    with named_errors("indexing"):
        result = _select(x, _key_items(x, key))
        return native_element(result) if not x.element.isnative and is_element(result, key) else result


def at(x: TracedArray, axis: int, key: Any) -> TracedArray:
    """Index one axis."""
    return indexed(x, (*(slice(None),) * axis, key))


def _key_items(x: TracedArray, key: Any) -> list[Any]:
    """Return the key's items: one per axis, None for new axes; arrays are NumPy's or traced."""
    items: list[Any] = []
    consumed, ellipsis_place = 0, -1
    for item in key if isinstance(key, tuple) else (key,):
        if type(item) is ShortInteger:
            item = item.open_size  # noqa: PLW2901
        class_ = type(item)
        if item is Ellipsis:
            if ellipsis_place >= 0:
                raise fuse_error("an index can only have a single ellipsis ('...')", FuseIndexError)
            ellipsis_place = len(items)
            continue
        if class_ is slice or class_ is int or class_ is OpenSize or item is None:
            items.append(item)
            consumed += item is not None
            continue
        if isinstance(item, TracedArray):
            if item.element.kind == "b":
                raise refusal(
                    "a mask as an index",
                    "the number of selected elements is unknown: select outside the fused function, or use where",
                )
            item_arrays = [x.trace.array(item)]
        else:
            if item is key and x.INDEXES_LIKE_TORCH:
                _check_list(item)
            item_arrays = _constant_items(x, item)
        items += item_arrays
        consumed += len(item_arrays)
    rank = len(x.value.sizes)
    if consumed > rank:
        raise fuse_error(
            f"too many indices: {x!r} has {count_noun(rank, 'dimension')}, but {consumed} were indexed", FuseIndexError
        )
    at = len(items) if ellipsis_place < 0 else ellipsis_place
    items[at:at] = [_WHOLE_AXIS] * (rank - consumed)
    return items


_WHOLE_AXIS = slice(None)


class _MaskAxis(NamedTuple):
    """The coordinates of a mask's true elements along one of its axes, and the axis' size."""

    indices: Array
    size: int


def _check_list(key: Any) -> None:
    """Check that a key is not a list with parts, which only some versions of PyTorch treat as a tuple.

    Raises:
        FuseError: the key is a list with parts.
    """
    if isinstance(key, Sequence) and not all(isinstance(entry, _NUMBER_TYPES) for entry in key):
        raise fuse_error("a list as an index with more than numbers in it: pass a tuple, or a tensor")


_NUMBER_TYPES = (bool, int, float, OpenSize, ShortInteger, np.generic)


def _constant_items(x: TracedArray, item: Any) -> list[Any]:
    """Convert a constant index to an int, an array of ints, or, for a mask, one array of ints per axis."""
    array = constant_array(item)
    if array.dtype.kind == "U":
        raise fuse_error(f"{item!r} of {x!r}: a fused function cannot select fields: pass the field as an argument")
    if x.INDEXES_LIKE_TORCH and array.ndim:
        torch_indices(item, TORCH_KEY_DTYPES)
    # PyTorch reads bytes as a mask.
    is_bytes = array.dtype == np.uint8 and not isinstance(item, np.generic) and x.INDEXES_LIKE_TORCH
    if array.dtype == bool or is_bytes:
        if not array.ndim:
            raise fuse_error(f"a single {array.dtype} is not an index", FuseIndexError)
        return [_MaskAxis(places, size) for places, size in zip(array.nonzero(), array.shape, strict=True)]
    if not array.ndim:
        return [operator.index(array.item())]
    return [array.astype(np.int64) if not array.size and not isinstance(item, np.ndarray) else array]


def selected_box(x: TracedArray, key: Any) -> tuple[list[Any], list[Any], list[Any], list[Any], list[tuple[int, Any]]]:
    """Return the starts, sizes and steps of the box that a key selects, the box's shape, and index arrays by axis."""
    starts, sizes, steps, shape, arrays, _ = _selected_box(x, _key_items(x, key))
    return starts, sizes, steps, shape, arrays


def is_basic(key: Any) -> bool:
    """Whether a key consists of integers, slices, ``...`` and None, so that the result shares the array's memory."""
    return all(
        entry is None
        or entry is Ellipsis
        or type(entry) in _BASIC_TYPES
        or (isinstance(entry, np.integer) and not entry.ndim)
        for entry in (key if isinstance(key, tuple) else (key,))
    )


def is_element(result: TracedArray, key: Any) -> bool:
    """Whether a key selects a single element, which NumPy copies, and not a view without dimensions."""
    return not (result.ndim or result.MIN_RANK or any(item is ... for item in (key if type(key) is tuple else (key,))))


_BASIC_TYPES = frozenset((int, OpenSize, ShortInteger, slice))


def _selected_box(x: TracedArray, items: list[Any]) -> tuple[Any, ...]:
    starts, sizes, steps = [], [], []
    shape: list[int] = []
    arrays: list[tuple[int, Any]] = []
    advanced: list[tuple[int, int]] = []
    axis, axis_sizes = 0, x.value.sizes
    for item_number, item in enumerate(items):
        if item is None:
            shape.append(1)
            continue
        start, size, step = 0, axis_sizes[axis], 1
        class_ = type(item)
        if class_ is slice:
            start, size, step = slice_bounds(item, size)
            if x.INDEXES_LIKE_TORCH and step < 1:
                raise ValueError("slice step must be positive, as in PyTorch: call flip")
            shape.append(size)
        elif class_ is int or class_ is OpenSize:
            if not -size <= item < size:
                raise fuse_error(out_of_range(item, size, axis=f"axis {axis}"), FuseIndexError)
            start, size = item + size if item < 0 else item, 1
            advanced.append((item_number, len(shape)))
        else:
            if isinstance(item, _MaskAxis) and item.size != size:
                message = f"a mask of size {item.size} does not fit axis {axis}, whose size is {size}"
                raise fuse_error(message, FuseIndexError)
            arrays.append((len(shape), item.indices if isinstance(item, _MaskAxis) else item))
            advanced.append((item_number, len(shape)))
            shape.append(size)
        starts.append(start)
        sizes.append(size)
        steps.append(step)
        axis += 1
    return starts, sizes, steps, shape, arrays, advanced


def _select(x: TracedArray, items: list[Any]) -> TracedArray:
    starts, sizes, steps, shape, arrays, advanced = _selected_box(x, items)
    result = window(x, starts, sizes, steps)
    if len(shape) != len(starts) or advanced:
        result = reshape(result, shape)
    if not arrays:
        return result
    numbers = [item_number for item_number, _ in advanced]
    are_separated = numbers != [*range(numbers[0], numbers[0] + len(numbers))]
    return _pick_by_arrays(result, arrays, 0 if are_separated else advanced[0][1])


def slice_bounds(item: slice, size: int) -> tuple[Any, Any, Any]:
    """Resolve a slice of an axis to start, count and step; an empty slice may start anywhere.

    Raises:
        TypeError: the slice has parts other than integers and None.
        ValueError: the step is 0.
    """
    first, last, by = item.start, item.stop, item.step
    if first is None and last is None and by is None:
        return 0, size, 1
    first, last, by = [end.open_size if type(end) is ShortInteger else end for end in (first, last, by)]
    open_end: Any = size
    for end in (first, last, by):
        open_end = open_end if type(open_end) is OpenSize else end
    if type(open_end) is not OpenSize:
        start, stop, step = item.indices(size)
        count = len(range(start, stop, step))
        return (start, count, step) if count else (0, 0, 1)
    step = 1 if by is None else whole_number(by)
    if not step:
        raise ValueError("slice step cannot be zero")
    if type(step) is OpenSize and first is None and last is None:
        # If the step is negative, the axis is read from the end.
        is_backwards = larger(0, smaller(1, -step))
        return is_backwards * (size - 1), (size - 1) // larger(step, -step) + 1, step
    is_forwards = step > 0
    low, high = (0, size) if is_forwards else (-1, size - 1)
    start = (low if is_forwards else high) if first is None else _from_the_start(first, size, low)
    stop = (high if is_forwards else low) if last is None else _from_the_start(last, size, low)
    # A slice that starts beyond the axis becomes empty if it stops at the end of the axis.
    if is_forwards:
        stop = smaller(stop, high)
    else:
        start = smaller(start, high)
    distance: Any = stop - start if is_forwards else start - stop
    count = distance if type(step) is int and step in (1, -1) else (distance - 1) // abs(step) + 1
    if type(distance) is OpenSize:
        return start, larger(0, count), step
    return (start, count, step) if distance > 0 else (0, 0, 1)


def _from_the_start(bound: Any, size: Any, low: Any) -> Any:
    """Return the start or stop of a slice, `low` or more."""
    index: Any = whole_number(bound)
    return larger(index + size, low) if index < 0 else index


def _pick_by_arrays(x: TracedArray, arrays: list[tuple[int, Any]], result_axis: int) -> TracedArray:
    """Select elements by one array per indexed axis; the arrays' axes go to `result_axis`."""
    from anydml.tracing.picking import index_array, pick, pick_points

    first = arrays[0][0]
    if len(arrays) == 1:
        count, result = arrays[0][1].ndim, pick(x, arrays[0][1], first)
    else:
        sizes = common_shape([indices.shape for _, indices in arrays])
        index_arrays = [(axis, *index_array(x, indices, x.shape[axis])) for axis, indices in arrays]
        picks = [(axis, broadcast(indices, sizes)) for axis, indices, _ in index_arrays]
        are_checked = all(is_checked for _, _, is_checked in index_arrays)
        count, result = len(sizes), pick_points(x, picks, "clamp" if are_checked else "error")
    axes = [axis for axis in range(result.ndim) if not first <= axis < first + count]
    axes[result_axis:result_axis] = range(first, first + count)
    return permute(result, axes)
