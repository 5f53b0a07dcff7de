"""Operations that replace some elements of an array."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from anydml.errors import FuseIndexError
from anydml.moves.compose import SCRATCH, operand_of
from anydml.moves.move import Access, Lookup, Move, Outside
from anydml.tensor import Layout
from anydml.tracing import axes, integers, making, padding, picks, shaping
from anydml.tracing.refusing import broken, refused
from anydml.tracing.trace import TracedArray

REASON = "elements are written over others"


class Along(NamedTuple):
    """Coordinates ``start + step·c``, where c is the part's coordinate along a dimension."""

    dim: int
    start: int = 0
    step: int = 1


class At(NamedTuple):
    """Coordinates given by indices of the part's shape."""

    indices: TracedArray
    outside: Outside


def placed(x: TracedArray, part: TracedArray, places: Sequence[Along | At]) -> TracedArray:
    """Replace elements of an array; the last of several elements for one place, in row-major order, wins.

    Args:
        x: the array.
        part: the new elements.
        places: the new elements' coordinates along each axis of x.

    Raises:
        FuseError: the indices' dtype is not supported, they would move before they are checked, or dtypes differ.
    """
    if part.element != x.element:
        raise refused(f"{part!r} put into {x!r}", "convert them to one dtype first")
    if not part.count:
        return x
    found = [place for place in places if isinstance(place, At)]
    for axis, place in enumerate(places):
        if isinstance(place, At):
            _check(place, x.shape[axis])

    def lower(inputs: Sequence[Layout], target: Layout) -> Sequence[Move]:
        strides, offset = [0] * part.ndim, 0
        lookups: list[Lookup] = []
        for size, stride, place in zip(target.sizes, target.strides, places, strict=True):
            if isinstance(place, Along):
                offset += place.start * stride
                strides[place.dim] += place.step * stride
                continue
            number = 1 + len(lookups)
            dtype, own = place.indices.element.name, inputs[number].strides
            lookups.append(Lookup(number, dtype, 0, own, size, stride, place.outside))
        to = Access(len(inputs), offset, tuple(strides), tuple(lookups))
        return (Move(part.shape, to, Access(0, 0, inputs[0].strides), part.itemsize),)

    parts = [part.value, *(place.indices.value for place in found)]
    return x.made(x.trace.composer.overwritten(x.value, parts, lower, REASON))


def _check(place: At, size: int) -> None:
    shaping.check_looked_up(place.indices, "clamp")
    if not size:
        raise broken("an axis is empty, but there are indices", FuseIndexError)
    own = operand_of(place.indices.value)
    if place.outside == "refuse" and (own is None or own[0] >= SCRATCH):
        hint = "pass them as an argument"
        raise broken(f"indices are checked before anything moves, but these would have to move first: {hint}")


def put_at(x: TracedArray, indices: Mapping[int, Any], values: TracedArray, is_from_zero: bool = False) -> TracedArray:
    """``x[:, indices, …] = values``, for indices along adjacent axes.

    Args:
        x: the array.
        indices: traced or NumPy arrays, by axis in ascending order; they broadcast to each other.
        values: the new elements, which broadcast.
        is_from_zero: whether negative indices are out of range.
    """
    shape = shaping.common_shape([each.shape for each in indices.values()])
    first, behind = min(indices), x.ndim - max(indices) - 1
    sizes = [*x.shape[:first], *shape, *x.shape[x.ndim - behind :]]
    places: list[Along | At] = [*map(Along, range(first))]
    for axis, given in indices.items():
        by = picks.from_zero(given) if is_from_zero else given
        is_traced = isinstance(by, TracedArray)
        index: TracedArray = by if is_traced else x.trace.array(shaping.known_indices(by, x.shape[axis]))
        fitted = shaping.reshaped(index, (*index.shape, *(1,) * behind))
        places.append(At(shaping.broadcast(fitted, sizes), "refuse" if is_traced else "skip"))
    places += [Along(len(sizes) - behind + k) for k in range(behind)]
    return placed(x, shaping.broadcast_to(values, sizes), places)


def number(x: TracedArray, value: Any) -> TracedArray:
    """Convert a value to an array of x's dtype: a number that fits, or a traced array of this dtype."""
    if isinstance(value, TracedArray) or integers.is_list(value):
        return x.trace.array(value)
    return shaping.filled(x, (), None, value.item() if hasattr(value, "item") else value)


def scatter(x: TracedArray, dim: int, index: Any, src: Any, reduce: Any = None) -> TracedArray:
    """Like torch.scatter; the last of several elements for one place wins."""
    if reduce is not None:
        raise refused(f"scatter with reduce={reduce!r}")
    by, place = index if isinstance(index, TracedArray) else picks.known_array(index), axes.dimension(x, dim)
    if 0 in by.shape:
        return x
    by, whole = by.reshape(by.shape or (1,)), axes.raised(x, 1)
    box = picks.within(whole, by.shape, place)
    part = number(x, src)
    if part.ndim:
        fitted = [[0] * by.ndim, by.shape, [1] * by.ndim]
        if part.ndim != by.ndim or any(n > own for n, own in zip(by.shape, part.shape, strict=True)):
            raise broken(f"indices of shape {tuple(by.shape)} are larger than src, of shape {part.shape}")
        part = shaping.sliced(part, *fitted)
    outside: Outside = "refuse" if isinstance(by, TracedArray) else "skip"
    at = At(picks.index_array(x, by, box.shape[place]), outside)
    places = [at if axis == place else Along(axis) for axis in range(whole.ndim)]
    return shaping.reshaped(placed(whole, shaping.broadcast_to(part, by.shape), places), x.shape)


def index_copy(x: TracedArray, dim: int, index: Any, source: TracedArray) -> TracedArray:
    """Like torch.index_copy."""
    by = index if isinstance(index, TracedArray) else picks.known_array(index)
    whole, part, place = axes.raised(x, 1), axes.raised(source, 1), axes.dimension(x, dim)
    if part.shape != (*whole.shape[:place], by.reshape(-1).shape[0], *whole.shape[place + 1 :]):
        raise broken(f"source has shape {source.shape}: it must be x's, {x.shape}, with one element per index")
    return shaping.reshaped(put_at(whole, {place: by.reshape(-1)}, part, is_from_zero=True), x.shape)


def index_fill(x: TracedArray, dim: int, index: Any, value: Any) -> TracedArray:
    """Like torch.index_fill."""
    by = index if isinstance(index, TracedArray) else picks.known_array(index)
    found = put_at(axes.raised(x, 1), {axes.dimension(x, dim): by.reshape(-1)}, number(x, value))
    return shaping.reshaped(found, x.shape)


def put(x: TracedArray, index: Any, source: TracedArray, accumulate: bool = False) -> TracedArray:
    """Like torch.put."""
    if accumulate:
        raise refused("put with accumulate")
    by = index if isinstance(index, TracedArray) else picks.known_array(index)
    found = put_at(axes.ravel(x), {0: by.reshape(-1)}, axes.ravel(source))
    return shaping.reshaped(found, x.shape)


def slice_scatter(
    x: TracedArray, src: TracedArray, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> TracedArray:
    """Like torch.slice_scatter."""
    place = axes.dimension(x, dim)
    first, last, by = slice(start, end, step).indices(x.shape[place])
    count = max(0, -(-(last - first) // by))
    shape = (*x.shape[:place], count, *x.shape[place + 1 :])
    part = shaping.broadcast_to(src, shape)
    if by == 1 or not count:
        end = first + count
        around = [shaping.cut(x, place, 0, first), shaping.cut(x, place, end, x.shape[place] - end)]
        return shaping.joined([around[0], part, around[1]], place)
    places = [Along(axis, first, by) if axis == place else Along(axis) for axis in range(x.ndim)]
    return placed(x, part, places)


def select_scatter(x: TracedArray, src: TracedArray, dim: int, index: int) -> TracedArray:
    """Like torch.select_scatter."""
    place, at = axes.dimension(x, dim), integers.whole(index)
    if not -x.shape[place] <= at < x.shape[place]:
        raise broken(f"index {at} is out of range for a dimension of size {x.shape[place]}", FuseIndexError)
    at = at + x.shape[place] if at < 0 else at
    return slice_scatter(x, axes.expand_dims(src, place), place, at, at + 1)


def diagonal_scatter(x: TracedArray, src: TracedArray, offset: int = 0, dim1: int = 0, dim2: int = 1) -> TracedArray:
    """Like torch.diagonal_scatter."""
    ordered = axes.moveaxis(x, (dim1, dim2), (-2, -1))
    row, column, size = picks.diagonal_at(ordered.shape[-2], ordered.shape[-1], offset)
    if src.shape != (*ordered.shape[:-2], size):
        raise broken(f"src has shape {src.shape}, but the diagonal {(*ordered.shape[:-2], size)}")
    lead = x.ndim - 2
    found = placed(ordered, src, [*map(Along, range(lead)), Along(lead, row), Along(lead, column)])
    return axes.moveaxis(found, (-2, -1), (dim1, dim2))


def diag_embed(x: TracedArray, offset: int = 0, dim1: int = -2, dim2: int = -1) -> TracedArray:
    """Like torch.diag_embed."""
    if not x.ndim:
        raise broken(f"diag_embed of {x!r}: it must have at least one dimension")
    size = x.shape[-1] + abs(offset)
    zeros = making.filled(x, (*x.shape[:-1], size, size))
    return axes.moveaxis(diagonal_scatter(zeros, x, offset, -2, -1), (-2, -1), (dim1, dim2))


def diag(x: TracedArray, k: int = 0) -> TracedArray:
    """Like numpy.diag and torch.diag: the matrix of a diagonal, or the diagonal of a matrix."""
    if x.ndim not in (1, 2):
        raise broken("Input must be 1- or 2-d.")
    return diag_embed(x, k) if x.ndim == 1 else picks.diagonal(x, k)


def diagflat(x: TracedArray, k: int = 0) -> TracedArray:
    """Like numpy.diagflat and torch.diagflat."""
    return diag_embed(axes.ravel(x), k)


def one_hot(x: TracedArray, num_classes: int = -1) -> TracedArray:
    """Like torch.nn.functional.one_hot; `num_classes` is required."""
    if num_classes < 0:
        raise refused(f"one_hot of {x!r} without num_classes", "the result's shape would depend on elements")
    zeros = making.filled(x, (*x.shape, num_classes))
    ones = making.filled(x, x.shape, 1)
    return placed(zeros, ones, [*map(Along, range(x.ndim)), At(picks.from_zero(x), "refuse")])


def insert(x: TracedArray, obj: Any, values: Any, axis: Any = None) -> TracedArray:
    """Like numpy.insert, with constant positions."""
    picks.known_object(obj)
    if axis is None:
        x, axis = axes.ravel(x), 0
    place = normalize_axis_index(axis, x.ndim)
    size = x.shape[place]
    is_traced = isinstance(values, TracedArray)
    new: TracedArray = values if is_traced else x.trace.array(np.asarray(values).astype(x.element))
    new = shaping.reshaped(new, (*(1,) * (x.ndim - new.ndim), *new.shape))
    is_one = not isinstance(obj, slice) and not integers.is_list(obj)
    if is_one:
        new = axes.moveaxis(new, 0, place)
    at = np.arange(size)[obj] if isinstance(obj, slice) else np.atleast_1d(np.asarray(obj))
    at = np.flatnonzero(at) if at.dtype == bool else at.astype(np.int64)
    count = new.shape[place] if is_one or len(at) == 1 else len(at)
    part = shaping.broadcast_to(new, (*x.shape[:place], count, *x.shape[place + 1 :]))
    # Inserting the numbers of the new elements into those of the old ones gives the sources.
    table = np.insert(np.arange(size), obj if len(at) != 1 else int(at[0]), np.arange(size, size + count))
    return shaping.picked(shaping.joined([x, part], place), table, place)


def resize(x: TracedArray, new_shape: Any) -> TracedArray:
    """Like numpy.resize."""
    sizes = integers.wholes(new_shape)
    if any(size < 0 for size in sizes):
        raise broken("all elements of `new_shape` must be non-negative")
    if not x.count or 0 in sizes:
        return making.filled(x, sizes)
    count = math.prod(sizes)
    return shaping.reshaped(padding.again(axes.ravel(x), 0, 0, count), sizes)
