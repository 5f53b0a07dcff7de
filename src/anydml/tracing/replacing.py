"""Words that replace elements of an array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from anydml.errors import FuseIndexError
from anydml.tracing.axes import at_least, expand_dims, moveaxis, ravel
from anydml.tracing.constants import (
    KEYS_OF_TORCH,
    check_mask_of_torch,
    from_zero,
    is_list,
    known_array,
    torch_indices,
    traced_or_known,
    untraced,
    whole_number,
)
from anydml.tracing.padding import wrapped_slice
from anydml.tracing.picking import index_array, pick
from anydml.tracing.putting import Along, At, check_same, choose, put, put_at
from anydml.tracing.refusing import broken, refused
from anydml.tracing.selecting import diagonal, diagonal_at, within
from anydml.tracing.trace import TracedArray
from anydml.tracing.verbs import (
    axis_of,
    broadcast,
    cast,
    common_shape,
    cut,
    fill,
    join,
    native,
    reshape,
    resized,
    sizes_of,
)


def scatter(x: TracedArray, dim: int, index: Any, src: Any, reduce: Any = None) -> TracedArray:
    """Replace elements at indices of 0 or more along a dimension; the last of several for one place wins.

    As in PyTorch, the dtype of empty indices is ignored.
    """
    if reduce is not None:
        raise refused(f"scatter with reduce={reduce!r}")
    axis = axis_of(x, dim)
    if 0 in traced_or_known(index).shape:
        return x
    by = torch_indices(index)
    by, total, part = by.reshape(by.shape or (1,)), at_least(x, 1), cast(x, src)
    within(total, by.shape, axis)
    if part.ndim:
        if part.ndim != by.ndim or any(n > part_size for n, part_size in zip(by.shape, part.shape, strict=True)):
            raise broken(f"indices of shape {tuple(by.shape)} are larger than src, of shape {part.shape}")
        for k, size in enumerate(by.shape):
            part = cut(part, k, 0, size)
    indices, is_checked = index_array(x, from_zero(by), total.shape[axis])
    at = At(indices, "skip" if is_checked else "refuse")
    places = [at if k == axis else Along(k) for k in range(total.ndim)]
    return reshape(put(total, broadcast(part, by.shape), places), x.shape)


def index_copy(x: TracedArray, dim: int, index: Any, source: TracedArray) -> TracedArray:
    """Replace slices of a dimension at indices of 0 or more."""
    by = from_zero(torch_indices(index, ("int64",))).reshape(-1)
    total, part, axis = at_least(x, 1), at_least(source, 1), axis_of(x, dim)
    if [*part.shape] != resized(total, axis, by.shape[0]):
        raise broken(f"source has shape {source.shape}: it must be x's, {x.shape}, with one element per index")
    return reshape(put_at(total, {axis: by}, part), x.shape)


def index_fill(x: TracedArray, dim: int, index: Any, value: Any) -> TracedArray:
    """Fill slices of a dimension."""
    by = torch_indices(index, ("int64",)).reshape(-1)
    return reshape(put_at(at_least(x, 1), {axis_of(x, dim): by}, cast(x, value)), x.shape)


def put_flat(x: TracedArray, index: Any, source: TracedArray, accumulate: bool = False) -> TracedArray:
    """Replace elements of the flattened tensor."""
    if accumulate:
        raise refused("put with accumulate")
    return reshape(put_at(ravel(x), {0: torch_indices(index, ("int64",)).reshape(-1)}, ravel(source)), x.shape)


def index_put(x: TracedArray, indices: Any, values: TracedArray, accumulate: bool = False) -> TracedArray:
    """``x[indices] = values``; a traced mask fills with one value."""
    if accumulate:
        raise refused("index_put with accumulate")
    indices_found: list[Any] = []
    for index in indices:
        by = torch_indices(index, KEYS_OF_TORCH)
        is_mask = getattr(by, "element", by.dtype) in (np.bool_, np.uint8)
        place = len(indices_found)
        if is_mask and by.shape != x.shape[place : place + by.ndim]:
            raise broken(
                f"a mask of shape {tuple(by.shape)} does not fit {x!r} from dimension {place} on", FuseIndexError
            )
        if is_mask and isinstance(by, TracedArray):
            if values.count != 1 or len(indices) != 1:
                raise refused("index_put by a traced mask", "the places of elements would depend on elements")
            mask = reshape(by, (*by.shape, *(1,) * (x.ndim - by.ndim)))
            return choose(mask, reshape(values, ()), x)
        indices_found += by.nonzero() if is_mask else [by]
    return put_at(x, dict(enumerate(indices_found)), values)


def masked_fill(x: TracedArray, mask: TracedArray, value: Any) -> TracedArray:
    """Fill where a mask holds."""
    check_mask_of_torch(mask)
    return choose(mask, cast(x, value), x)


def masked_scatter(x: TracedArray, mask: Any, source: TracedArray) -> TracedArray:
    """Replace elements where a constant mask holds by those of a source, in order."""
    if isinstance(mask, TracedArray):
        raise refused("masked_scatter by a traced mask", "the places of elements would depend on elements")
    check_mask_of_torch(mask)
    check_same(x, source)
    flags = known_array(mask)
    shape = common_shape([x.shape, flags.shape])
    total, at = broadcast(x, shape), np.flatnonzero(np.broadcast_to(flags, shape))
    if len(at) > source.count:
        raise broken(f"the mask selects {len(at)} elements, but source has {source.count}")
    table = np.arange(total.count)
    table[at] = np.arange(len(at)) + total.count
    return reshape(pick(join([ravel(total), ravel(source)], 0), table, 0), shape)


def slice_scatter(
    x: TracedArray, src: TracedArray, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> TracedArray:
    """Replace a slice of a dimension."""
    axis = axis_of(x, dim)
    size = x.shape[axis]
    first, last, by = slice(start, end, step).indices(size)
    count = max(0, -(-(last - first) // by))
    _check_src(src, resized(x, axis, count))
    if by != 1 and count:
        return put(x, src, [Along(k, first, by) if k == axis else Along(k) for k in range(x.ndim)])
    end = first + count
    return join([cut(x, axis, 0, first), src, cut(x, axis, end, size - end)], axis)


def select_scatter(x: TracedArray, src: TracedArray, dim: int, index: int) -> TracedArray:
    """Replace the slice at an index of a dimension."""
    axis, at = axis_of(x, dim), whole_number(index)
    if not -x.shape[axis] <= at < x.shape[axis]:
        raise broken(f"index {at} is out of range for a dimension of size {x.shape[axis]}", FuseIndexError)
    at = at + x.shape[axis] if at < 0 else at
    return slice_scatter(x, expand_dims(src, axis), axis, at, at + 1)


def diagonal_scatter(x: TracedArray, src: TracedArray, offset: int = 0, dim1: int = 0, dim2: int = 1) -> TracedArray:
    """Replace a diagonal."""
    ordered = moveaxis(x, (dim1, dim2), (-2, -1))
    row, column, size = diagonal_at(ordered.shape[-2], ordered.shape[-1], offset)
    _check_src(src, (*ordered.shape[:-2], size))
    lead = x.ndim - 2
    replaced = put(ordered, src, [*map(Along, range(lead)), Along(lead, row), Along(lead, column)])
    return moveaxis(replaced, (-2, -1), (dim1, dim2))


def _check_src(src: TracedArray, shape: Sequence[int]) -> None:
    if src.shape != tuple(shape):
        raise broken(f"src has shape {src.shape}, but what it replaces has {tuple(shape)}")


def diag_embed(x: TracedArray, offset: int = 0, dim1: int = -2, dim2: int = -1) -> TracedArray:
    """Return matrices of zeros with the elements of the last axis along a diagonal."""
    if not x.ndim:
        raise broken(f"diag_embed of {x!r}: it must have at least one dimension")
    beside = whole_number(offset)
    size = x.shape[-1] + abs(beside)
    return moveaxis(diagonal_scatter(fill(x, (*x.shape[:-1], size, size)), x, beside, -2, -1), (-2, -1), (dim1, dim2))


def diag(x: TracedArray, k: int = 0) -> TracedArray:
    """Return the matrix of a diagonal, or the diagonal of a matrix."""
    if x.ndim not in (1, 2):
        raise broken("Input must be 1- or 2-d.")
    return diag_embed(x, k) if x.ndim == 1 else diagonal(x, k)


def one_hot(x: TracedArray, num_classes: int = -1) -> TracedArray:
    """Return zeros with a one at each index, along a new last axis; `num_classes` is required."""
    torch_indices(x, ("int64",))
    if num_classes < 0:
        raise refused(f"one_hot of {x!r} without num_classes", "the result's shape would depend on elements")
    places = [*map(Along, range(x.ndim)), At(from_zero(x))]
    return put(fill(x, (*x.shape, num_classes)), fill(x, x.shape, 1), places)


def insert(x: TracedArray, obj: Any, values: Any, axis: Any = None) -> TracedArray:
    """Insert elements at constant positions of an axis, by default of the flattened array."""
    x, axis = (ravel(x), 0) if axis is None else (x, normalize_axis_index(axis, x.ndim))
    size, new = x.shape[axis], cast(x, values)
    new = reshape(new, (*(1,) * (x.ndim - new.ndim), *new.shape))
    is_one = not isinstance(untraced(obj), slice) and not is_list(obj)
    if is_one:
        new = moveaxis(new, 0, axis)
    at = np.arange(size)[obj] if isinstance(obj, slice) else np.atleast_1d(np.asarray(obj))
    if at.dtype.kind not in ("iu" if is_one else "iub") and at.size:
        raise broken(f"positions are {at.dtype}, not integers", FuseIndexError)
    at = np.flatnonzero(at) if at.dtype == bool else at
    count = new.shape[axis] if is_one or len(at) == 1 else len(at)
    part = broadcast(new, resized(x, axis, count))
    # Inserting the numbers of the new elements into those of the old ones gives the sources.
    table = np.insert(np.arange(size), obj if len(at) != 1 else int(at[0]), np.arange(size, size + count))
    return pick(join([x, part], axis), table, axis)


def resize(x: TracedArray, new_shape: Any) -> TracedArray:
    """Repeat the flattened array until a shape is filled."""
    sizes = sizes_of(new_shape)
    if not x.count or 0 in sizes:
        return fill(x, sizes)
    return native(reshape(wrapped_slice(ravel(x), 0, 0, math.prod(sizes)), sizes))
