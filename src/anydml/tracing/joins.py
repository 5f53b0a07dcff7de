"""Operations that join and split arrays."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from anydml.fields import MOST_ITEMS
from anydml.tracing import axes, integers, making, shaping
from anydml.tracing.indexing import bounds
from anydml.tracing.refusing import broken, refused
from anydml.tracing.trace import TracedArray


def concatenate(arrays: Sequence[TracedArray], axis: Any = 0, dtype: Any = None) -> TracedArray:
    """Like numpy.concatenate and numpy.concat."""
    if axis is None:
        arrays, axis = [axes.ravel(array) for array in arrays], 0
    found = shaping.joined(arrays, axis)
    return found if dtype is None else found.astype(dtype)


def cat(tensors: Sequence[TracedArray], dim: int = 0) -> TracedArray:
    """Like torch.cat, which skips tensors of shape (0,)."""
    others = [tensor for tensor in tensors if tensor.ndim != 1 or tensor.shape[0] != 0] or tensors
    if any(not tensor.ndim for tensor in tensors):
        raise broken("tensors without dimensions cannot be joined")
    found = tensors if all(tensor.ndim == 1 for tensor in others) else others
    return shaping.joined(found, operator.index(dim))


def stack(arrays: Sequence[TracedArray], axis: int = 0, dtype: Any = None) -> TracedArray:
    """Like numpy.stack and torch.stack."""
    if any(array.shape != arrays[0].shape for array in arrays):
        raise broken("all arrays to stack must have the same shape")
    place = normalize_axis_index(axis, arrays[0].ndim + 1) if arrays else 0
    return concatenate([axes.expand_dims(array, place) for array in arrays], place, dtype)


def stacked(arrays: Sequence[TracedArray], dtype: Any = None, rank: int = 1, axis: int = 0) -> TracedArray:
    """Like numpy.hstack, vstack and dstack: join arrays of at least `rank` dimensions along an axis."""
    parts = [axes.raised(array, rank) for array in arrays]
    along = 0 if rank == 1 and parts and parts[0].ndim == 1 else axis
    return concatenate(parts, along, dtype)


def append(arr: Any, values: Any, axis: Any = None) -> TracedArray:
    """Like numpy.append."""
    trace = next(each.trace for each in (arr, values) if isinstance(each, TracedArray))
    return concatenate(shaping.arrays_of(trace, (arr, values)), axis)


def column_stack(arrays: Sequence[TracedArray]) -> TracedArray:
    """Like numpy.column_stack and torch.column_stack."""
    parts = [axes.raised(array, 1) for array in arrays]
    return concatenate([axes.expand_dims(part, 1) if part.ndim == 1 else part for part in parts], 1)


def block(arrays: Any) -> TracedArray:
    """Like numpy.block, for nested lists of arrays."""
    depth, leaf = 0, arrays
    while isinstance(leaf, list):
        depth, leaf = depth + 1, leaf[0] if leaf else None
    every = [*_leaves(arrays, depth)]
    trace = next(each.trace for each in every if isinstance(each, TracedArray))
    rank = max(depth, *(np.ndim(each) for each in every), 0)

    def put_together(tree: Any, level: int) -> TracedArray:
        if level == depth:
            array = trace.array(tree)
            return shaping.reshaped(array, (*(1,) * (rank - array.ndim), *array.shape))
        return shaping.joined([put_together(each, level + 1) for each in tree], rank - depth + level)

    return put_together(arrays, 0)


def _leaves(tree: Any, depth: int) -> Sequence[Any]:
    if isinstance(tree, list) is not bool(depth):
        raise broken("List depths are mismatched.")
    if not depth:
        return [tree]
    if not tree:
        raise broken("List at a depth cannot be empty")
    return [leaf for each in tree for leaf in _leaves(each, depth - 1)]


def block_diag(tensors: Sequence[TracedArray]) -> TracedArray:
    """Like torch.block_diag."""
    if any(tensor.ndim > 2 for tensor in tensors):
        raise broken("block_diag takes tensors of at most 2 dimensions")
    blocks = [axes.raised(tensor, 2) for tensor in tensors]
    width, before, rows = sum(each.shape[1] for each in blocks), 0, []
    for each in blocks:
        height, own = each.shape
        zeros = [making.filled(each, (height, n)) for n in (before, width - before - own)]
        rows.append(shaping.joined([zeros[0], each, zeros[1]], 1))
        before += own
    return shaping.joined(rows, 0)


def array_split(x: TracedArray, indices_or_sections: Any, axis: int = 0, kind: Any = list) -> Any:
    """Like numpy.array_split and torch.tensor_split."""
    axis = normalize_axis_index(axis, max(x.ndim, 1))
    if isinstance(indices_or_sections, TracedArray):
        raise refused("a split by a traced array", "shapes would depend on elements")
    size = x.shape[axis]
    if integers.is_list(indices_or_sections):
        shaping.check_known(np.asarray(indices_or_sections))
        ends = [0, *integers.wholes(indices_or_sections), size]
    else:
        count = operator.index(indices_or_sections)
        if count <= 0:
            raise broken("number sections must be larger than 0.")
        if count > MOST_ITEMS:
            raise broken(f"{count} parts, but at most {MOST_ITEMS} are supported")
        each, more = divmod(size, count)
        ends = [k * each + min(k, more) for k in range(count + 1)]
    places = [bounds(slice(*pair), size) for pair in itertools.pairwise(ends)]
    return kind(shaping.cut(x, axis, first, count) for first, count, _ in places)


def split(x: TracedArray, indices_or_sections: Any, axis: int = 0, kind: Any = list) -> Any:
    """Like numpy.split."""
    size = x.shape[normalize_axis_index(axis, x.ndim)]
    if not integers.is_list(indices_or_sections):
        count = operator.index(indices_or_sections)
        if count > 0 and size % count:
            raise broken("array split does not result in an equal division")
    return array_split(x, indices_or_sections, axis, kind)


def split_along(x: TracedArray, indices_or_sections: Any, axis: int = 0, kind: Any = list) -> Any:
    """Like numpy.hsplit, vsplit and dsplit."""
    least = (2, 1, 3)[axis]
    if x.ndim < least:
        raise broken(f"{'vhd'[axis]}split only works on arrays of {least} or more dimensions")
    return split(x, indices_or_sections, 0 if axis == 1 and x.ndim == 1 else axis, kind)


def unstack(x: TracedArray, axis: int = 0) -> tuple[TracedArray, ...]:
    """Like numpy.unstack and torch.unbind."""
    place = normalize_axis_index(axis, x.ndim)
    rest = (*x.shape[:place], *x.shape[place + 1 :])
    return tuple(shaping.reshaped(shaping.cut(x, place, k, 1), rest) for k in range(x.shape[place]))


def chunk(x: TracedArray, chunks: int, dim: int = 0) -> tuple[TracedArray, ...]:
    """Like torch.chunk: parts of size ⌈size / chunks⌉, which may be fewer than `chunks`."""
    count, place = operator.index(chunks), axes.dimension(x, dim)
    if count <= 0:
        raise broken(f"chunks is {count}, but must be at least 1")
    size = x.shape[place]
    return parts(x, [0] * count, dim) if size == 0 else parts(x, -(-size // count), dim)


def parts(x: TracedArray, sizes: Any, dim: int = 0) -> tuple[TracedArray, ...]:
    """Like torch.split and torch.split_with_sizes."""
    place = axes.dimension(x, dim)
    whole, given = x.shape[place], integers.wholes(sizes)
    if not integers.is_list(sizes):
        size = given[0]
        if size < 0 or (whole and size == 0):
            raise broken(f"a part cannot have {size} elements")
        count = -(-whole // size) if whole else 1
        given = [*[size] * (count - 1), whole - size * (count - 1)]
    if any(part < 0 for part in given) or sum(given) != whole:
        raise broken(f"sizes {given} do not add up to {whole}")
    starts = itertools.accumulate(given, initial=0)
    return tuple(shaping.cut(x, place, first if part else 0, part) for first, part in zip(starts, given, strict=False))


def chunk_cat(tensors: Sequence[TracedArray], dim: int, num_chunks: int) -> TracedArray:
    """Like torch._chunk_cat: chunks of equal sizes, padded with zeros, flattened and joined chunk by chunk."""
    rows = []
    for tensor in tensors:
        place = axes.dimension(tensor, dim)
        lead, size, rest = tensor.shape[:place], tensor.shape[place], tensor.shape[place + 1 :]
        most = -(-size // num_chunks)
        zeros = making.filled(tensor, (*lead, most * num_chunks - size, *rest))
        whole = shaping.joined([tensor, zeros], place)
        rows.append(shaping.reshaped(whole, (*lead, num_chunks, most * math.prod(rest))))
    return shaping.joined(rows, -1)
