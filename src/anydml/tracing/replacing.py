"""Words that replace elements of an array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from anydml.errors import FuseIndexError
from anydml.moves.wrapped_indices import out_of_range
from anydml.tracing.array_verbs import (
    axis_of,
    broadcast,
    cast,
    common_shape,
    cut,
    fill,
    join,
    native,
    reshape,
    shape_with,
    sizes_of,
)
from anydml.tracing.axes import at_least, expand_dims, moveaxis, ravel
from anydml.tracing.constants import (
    TORCH_KEY_DTYPES,
    check_torch_mask,
    constant_array,
    is_list,
    refuse_negative,
    require_untraced,
    torch_indices,
    traced_or_constant,
    whole_number,
)
from anydml.tracing.padding import wrapped_slice
from anydml.tracing.picking import index_array, pick
from anydml.tracing.putting import AtIndices, StridedCoordinates, check_same_dtype, choose_by_mask, put, put_at_indices
from anydml.tracing.refusing import fuse_error, refusal
from anydml.tracing.selecting import diagonal, diagonal_at, within
from anydml.tracing.trace import TracedArray


def scatter(x: TracedArray, dim: int, index: Any, src: Any, reduce: Any = None) -> TracedArray:
    """Replace elements at indices of 0 or more along a dimension; of several elements for one place, the last one wins.

    As in PyTorch, the dtype of empty indices is ignored.
    """
    if reduce is not None:
        raise refusal(f"scatter with reduce={reduce!r}")
    axis = axis_of(x, dim)
    if 0 in traced_or_constant(index).shape:
        return x
    given_indices = torch_indices(index)
    given_indices, array, part = given_indices.reshape(given_indices.shape or (1,)), at_least(x, 1), cast(x, src)
    within(array, given_indices.shape, axis)
    if part.ndim:
        if part.ndim != given_indices.ndim or any(
            n > part_size for n, part_size in zip(given_indices.shape, part.shape, strict=True)
        ):
            raise fuse_error(
                f"indices of shape {tuple(given_indices.shape)} are larger than src, of shape {part.shape}"
            )
        for k, size in enumerate(given_indices.shape):
            part = cut(part, k, 0, size)
    indices, is_checked = index_array(x, refuse_negative(given_indices), array.shape[axis])
    at = AtIndices(indices, "skip" if is_checked else "error")
    places = [at if k == axis else StridedCoordinates(k) for k in range(array.ndim)]
    return reshape(put(array, broadcast(part, given_indices.shape), places), x.shape)


def index_copy(x: TracedArray, dim: int, index: Any, source: TracedArray) -> TracedArray:
    """Replace slices of a dimension at indices of 0 or more."""
    given_indices = refuse_negative(torch_indices(index, ("int64",))).reshape(-1)
    array, part, axis = at_least(x, 1), at_least(source, 1), axis_of(x, dim)
    if [*part.shape] != shape_with(array, axis, given_indices.shape[0]):
        raise fuse_error(f"source has shape {source.shape}: it must be x's, {x.shape}, with one element per index")
    return reshape(put_at_indices(array, {axis: given_indices}, part), x.shape)


def index_fill(x: TracedArray, dim: int, index: Any, value: Any) -> TracedArray:
    """Fill slices of a dimension."""
    given_indices = torch_indices(index, ("int64",)).reshape(-1)
    return reshape(put_at_indices(at_least(x, 1), {axis_of(x, dim): given_indices}, cast(x, value)), x.shape)


def put_flat(x: TracedArray, index: Any, source: TracedArray, accumulate: bool = False) -> TracedArray:
    """Replace elements of the flattened tensor."""
    if accumulate:
        raise refusal("put with accumulate")
    return reshape(put_at_indices(ravel(x), {0: torch_indices(index, ("int64",)).reshape(-1)}, ravel(source)), x.shape)


def index_put(x: TracedArray, indices: Any, values: TracedArray, accumulate: bool = False) -> TracedArray:
    """``x[indices] = values``; a traced mask fills with one value."""
    if accumulate:
        raise refusal("index_put with accumulate")
    index_arrays: list[Any] = []
    for index in indices:
        given_indices = torch_indices(index, TORCH_KEY_DTYPES)
        is_mask = getattr(given_indices, "element", given_indices.dtype) in (np.bool_, np.uint8)
        array_axis = len(index_arrays)
        if is_mask and given_indices.shape != x.shape[array_axis : array_axis + given_indices.ndim]:
            raise fuse_error(
                f"a mask of shape {tuple(given_indices.shape)} does not fit {x!r} from dimension {array_axis} on",
                FuseIndexError,
            )
        if is_mask and isinstance(given_indices, TracedArray):
            if values.count != 1 or len(indices) != 1:
                raise refusal(
                    "index_put by a traced mask",
                    "the places of elements would depend on elements: assign outside the fused function",
                )
            mask = reshape(given_indices, (*given_indices.shape, *(1,) * (x.ndim - given_indices.ndim)))
            return choose_by_mask(mask, reshape(values, ()), x)
        index_arrays += given_indices.nonzero() if is_mask else [given_indices]
    return put_at_indices(x, dict(enumerate(index_arrays)), values)


def masked_fill(x: TracedArray, mask: TracedArray, value: Any) -> TracedArray:
    """Fill where a mask holds."""
    check_torch_mask(mask)
    return choose_by_mask(mask, cast(x, value), x)


def masked_scatter(x: TracedArray, mask: Any, source: TracedArray) -> TracedArray:
    """Replace the elements where a constant mask is true by the elements of a source, in order."""
    if isinstance(mask, TracedArray):
        raise refusal(
            "masked_scatter by a traced mask",
            "the places of elements would depend on elements: assign outside the fused function",
        )
    check_torch_mask(mask)
    check_same_dtype(x, source)
    flags = constant_array(mask)
    shape = common_shape([x.shape, flags.shape])
    array, at = broadcast(x, shape), np.flatnonzero(np.broadcast_to(flags, shape))
    if len(at) > source.count:
        raise fuse_error(f"the mask selects {len(at)} elements, but source has {source.count}")
    table = np.arange(array.count)
    table[at] = np.arange(len(at)) + array.count
    return reshape(pick(join([ravel(array), ravel(source)], 0), table, 0), shape)


def slice_scatter(
    x: TracedArray, src: TracedArray, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> TracedArray:
    """Replace a slice of a dimension."""
    axis = axis_of(x, dim)
    size = x.shape[axis]
    first, last, given_indices = slice(start, end, step).indices(size)
    count = max(0, -(-(last - first) // given_indices))
    _check_src(src, shape_with(x, axis, count))
    if given_indices != 1 and count:
        return put(
            x,
            src,
            [
                StridedCoordinates(k, first, given_indices) if k == axis else StridedCoordinates(k)
                for k in range(x.ndim)
            ],
        )
    end = first + count
    return join([cut(x, axis, 0, first), src, cut(x, axis, end, size - end)], axis)


def select_scatter(x: TracedArray, src: TracedArray, dim: int, index: int) -> TracedArray:
    """Replace the slice at an index of a dimension."""
    axis, at = axis_of(x, dim), whole_number(index)
    if not -x.shape[axis] <= at < x.shape[axis]:
        raise fuse_error(out_of_range(at, x.shape[axis], axis=f"axis {axis}"), FuseIndexError)
    at = at + x.shape[axis] if at < 0 else at
    return slice_scatter(x, expand_dims(src, axis), axis, at, at + 1)


def diagonal_scatter(x: TracedArray, src: TracedArray, offset: int = 0, dim1: int = 0, dim2: int = 1) -> TracedArray:
    """Replace a diagonal."""
    ordered = moveaxis(x, (dim1, dim2), (-2, -1))
    row, column, size = diagonal_at(ordered.shape[-2], ordered.shape[-1], offset)
    _check_src(src, (*ordered.shape[:-2], size))
    outer_axes = x.ndim - 2
    replaced = put(
        ordered,
        src,
        [
            *map(StridedCoordinates, range(outer_axes)),
            StridedCoordinates(outer_axes, row),
            StridedCoordinates(outer_axes, column),
        ],
    )
    return moveaxis(replaced, (-2, -1), (dim1, dim2))


def _check_src(src: TracedArray, shape: Sequence[int]) -> None:
    if src.shape != tuple(shape):
        raise fuse_error(f"src has shape {src.shape}, but what it replaces has {tuple(shape)}")


def diag_embed(x: TracedArray, offset: int = 0, dim1: int = -2, dim2: int = -1) -> TracedArray:
    """Return matrices of zeros with the elements of the last axis along a diagonal."""
    if not x.ndim:
        raise fuse_error(f"diag_embed of {x!r}: it must have at least one dimension")
    diagonal_offset = whole_number(offset)
    size = x.shape[-1] + abs(diagonal_offset)
    return moveaxis(
        diagonal_scatter(fill(x, (*x.shape[:-1], size, size)), x, diagonal_offset, -2, -1), (-2, -1), (dim1, dim2)
    )


def diag(x: TracedArray, k: int = 0) -> TracedArray:
    """Return the matrix of a diagonal, or the diagonal of a matrix."""
    if x.ndim not in (1, 2):
        raise fuse_error("Input must be 1- or 2-d.")
    return diag_embed(x, k) if x.ndim == 1 else diagonal(x, k)


def one_hot(x: TracedArray, num_classes: int = -1) -> TracedArray:
    """Return zeros with a one at each index, along a new last axis; `num_classes` is required."""
    torch_indices(x, ("int64",))
    if num_classes < 0:
        raise refusal(
            f"one_hot of {x!r} without num_classes", "the result's shape would depend on elements: pass num_classes"
        )
    places = [*map(StridedCoordinates, range(x.ndim)), AtIndices(refuse_negative(x))]
    return put(fill(x, (*x.shape, num_classes)), fill(x, x.shape, 1), places)


def insert(x: TracedArray, obj: Any, values: Any, axis: Any = None) -> TracedArray:
    """Insert elements at constant positions of an axis, by default of the flattened array."""
    x, axis = (ravel(x), 0) if axis is None else (x, normalize_axis_index(axis, x.ndim))
    size, new = x.shape[axis], cast(x, values)
    new = reshape(new, (*(1,) * (x.ndim - new.ndim), *new.shape))
    is_one = not isinstance(require_untraced(obj), slice) and not is_list(obj)
    if is_one:
        new = moveaxis(new, 0, axis)
    at = np.arange(size)[obj] if isinstance(obj, slice) else np.atleast_1d(np.asarray(obj))
    if at.dtype.kind not in ("iu" if is_one else "iub") and at.size:
        raise fuse_error(f"positions are {at.dtype}, not integers", FuseIndexError)
    at = np.flatnonzero(at) if at.dtype == bool else at
    count = new.shape[axis] if is_one or len(at) == 1 else len(at)
    part = broadcast(new, shape_with(x, axis, count))
    # The sources are the numbers of the old elements, with the numbers of the new elements inserted.
    table = np.insert(np.arange(size), obj if len(at) != 1 else int(at[0]), np.arange(size, size + count))
    return pick(join([x, part], axis), table, axis)


def resize(x: TracedArray, new_shape: Any) -> TracedArray:
    """Repeat the flattened array until a shape is filled."""
    sizes = sizes_of(new_shape)
    if not x.count or 0 in sizes:
        return fill(x, sizes)
    return native(reshape(wrapped_slice(ravel(x), 0, 0, math.prod(sizes)), sizes))
