"""Words that join, split and repeat arrays."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from anydml.fields import MAX_ITEMS
from anydml.moves.sizing import Integers
from anydml.operators.repeating import repeat_rule
from anydml.operators.tile import tile_rule
from anydml.tracing.array_verbs import (
    apply_rule,
    astype,
    axis_of,
    broadcast,
    cut,
    fill,
    join,
    join_native,
    reshape,
    shape_with,
    split_axis,
)
from anydml.tracing.axes import at_least, expand_dims, ravel, swapaxes, transpose
from anydml.tracing.constants import arrays_of, constant_array, dtype_of, is_list, trace_of, whole_number, whole_numbers
from anydml.tracing.indexing import at
from anydml.tracing.refusing import fuse_error, refusal
from anydml.tracing.structure import leaves
from anydml.tracing.trace import TracedArray, with_needed_argument


def concatenate(arrays: Sequence[TracedArray], axis: Any = 0, dtype: Any = None) -> TracedArray:
    """Join arrays along an axis; flattened if it is None."""
    parts = arrays if axis is not None else [ravel(array) for array in arrays]
    if parts and dtype is not None and all(part.element == dtype_of(part, dtype) for part in parts):
        return join(parts, axis or 0)
    return astype(join_native(parts, axis or 0), dtype)


def cat(tensors: Sequence[TracedArray], dim: int = 0) -> TracedArray:
    """Join tensors along a dimension, except those of shape (0,)."""
    nonempty = [tensor for tensor in tensors if tensor.ndim != 1 or tensor.shape[0] != 0] or tensors
    if any(not tensor.ndim for tensor in tensors):
        raise fuse_error("tensors without dimensions cannot be joined")
    return join(tensors if all(tensor.ndim == 1 for tensor in nonempty) else nonempty, operator.index(dim))


def stack(arrays: Sequence[TracedArray], axis: int = 0, dtype: Any = None) -> TracedArray:
    """Join arrays along a new axis."""
    for k, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            raise fuse_error(
                f"array {k} has shape {array.shape}, but array 0 has {arrays[0].shape}: shapes must be equal"
            )
    new_axis = normalize_axis_index(axis, arrays[0].ndim + 1) if arrays else 0
    return concatenate([expand_dims(array, new_axis) for array in arrays], new_axis, dtype)


def stack_named_axis(arrays: Sequence[TracedArray], dtype: Any = None, rank: int = 1, axis: int = 0) -> TracedArray:
    """Join arrays of at least `rank` dimensions along an axis; those of one dimension along axis 0."""
    parts = [at_least(array, rank) for array in arrays]
    return concatenate(parts, 0 if rank == 1 and parts and parts[0].ndim == 1 else axis, dtype)


def column_stack(arrays: Sequence[TracedArray]) -> TracedArray:
    """Join columns; arrays of fewer than two dimensions are columns."""
    return join_native([transpose(at_least(array, 2)) if array.ndim < 2 else array for array in arrays], 1)


def append(arr: Any, values: Any, axis: Any = None) -> TracedArray:
    """Join two arrays, one of which may be a constant."""
    return concatenate(arrays_of(trace_of((arr, values)), (arr, values)), axis)


def block(arrays: Any) -> TracedArray:
    """Join nested lists of arrays: the innermost lists along the last axis."""
    depth, arrays_given = _depth(arrays), leaves(arrays)
    trace, rank = trace_of(arrays_given), max(depth, *(np.ndim(item) for item in arrays_given))

    def joined(tree: Any, axis: int) -> TracedArray:
        if isinstance(tree, list):
            return join_native([joined(item, axis + 1) for item in tree], axis)
        array = trace.array(tree)
        return reshape(array, (*(1,) * (rank - array.ndim), *array.shape))

    return joined(arrays, rank - depth)


def _depth(tree: Any) -> int:
    if not isinstance(tree, list):
        return 0
    depths = {_depth(item) for item in tree}
    if len(depths) != 1:
        raise fuse_error("the lists of a block must have one depth, and none may be empty")
    return 1 + depths.pop()


def block_diag(tensors: Sequence[TracedArray]) -> TracedArray:
    """Join matrices along a diagonal, with zeros around them."""
    if any(tensor.ndim > 2 for tensor in tensors):
        raise fuse_error("block_diag takes tensors of at most 2 dimensions")
    blocks = [at_least(tensor, 2) for tensor in tensors]
    width, before, rows = sum(matrix.shape[1] for matrix in blocks), 0, []
    for matrix in blocks:
        height, columns = matrix.shape
        rows.append(join([fill(matrix, (height, before)), matrix, fill(matrix, (height, width - before - columns))], 1))
        before += columns
    return join(rows, 0)


def chunk_cat(tensors: Sequence[TracedArray], dim: int, num_chunks: int) -> TracedArray:
    """Join chunks of equal sizes, padded with zeros and flattened, chunk by chunk."""
    rows = []
    for tensor in tensors:
        axis = axis_of(tensor, dim)
        size, inner_sizes = tensor.shape[axis], tensor.shape[axis + 1 :]
        chunk_size = -(-size // num_chunks)
        padded = join([tensor, fill(tensor, shape_with(tensor, axis, chunk_size * num_chunks - size))], axis)
        rows.append(reshape(padded, (*tensor.shape[:axis], num_chunks, chunk_size * math.prod(inner_sizes))))
    return join(rows, -1)


def array_split(x: TracedArray, indices_or_sections: Any, axis: int = 0, container: Any = list) -> Any:
    """Split an axis at indices, or into parts of almost equal sizes."""
    axis = axis_of(x, axis)
    if isinstance(indices_or_sections, TracedArray):
        raise refusal(
            "a split by a traced array", "shapes would depend on elements: call it outside the fused function"
        )
    size = x.shape[axis]
    if is_list(indices_or_sections):
        ends = [0, *whole_numbers(indices_or_sections), size]
        return container(at(x, axis, slice(*pair)) for pair in itertools.pairwise(ends))
    count = operator.index(indices_or_sections)
    if count <= 0:
        raise fuse_error(f"{count} parts, but the number of parts must be larger than 0")
    if count > MAX_ITEMS:
        raise fuse_error(f"{count} parts, but at most {MAX_ITEMS} are supported")
    part_size, longer_parts = divmod(size, count)
    return container(split_axis(x, axis, [part_size + (k < longer_parts) for k in range(count)]))


def split(x: TracedArray, indices_or_sections: Any, axis: int = 0, container: Any = list) -> Any:
    """Split an axis at indices, or into parts of equal sizes."""
    axis = axis_of(x, axis)
    if not is_list(indices_or_sections):
        count, size = operator.index(indices_or_sections), x.shape[axis]
        if 0 < count <= MAX_ITEMS:
            if size % count:
                raise fuse_error(
                    f"axis {axis} has size {size}, which {count} equal parts do not divide: use array_split"
                )
            return container(split_axis(x, axis, [size // count] * count))
    return array_split(x, indices_or_sections, axis, container)


def split_named_axis(x: TracedArray, indices_or_sections: Any, axis: int = 0, container: Any = list) -> Any:
    """Split along axis 0, 1 or 2, which x must have; the columns of 1-D arrays are their elements."""
    least_rank = (2, 1, 3)[axis]
    if x.ndim < least_rank:
        raise fuse_error(f"{'vhd'[axis]}split only works on arrays of {least_rank} or more dimensions")
    return split(x, indices_or_sections, 0 if axis == 1 and x.ndim == 1 else axis, container)


def unstack(x: TracedArray, axis: int = 0) -> tuple[TracedArray, ...]:
    """Return the slices at each index of an axis, without the axis."""
    axis = normalize_axis_index(axis, x.ndim)
    return tuple(reshape(cut(x, axis, k, 1), shape_with(x, axis)) for k in range(x.shape[axis]))


def chunk(x: TracedArray, chunks: int, dim: int = 0) -> tuple[TracedArray, ...]:
    """Split a dimension into parts of size ⌈size / chunks⌉, which may be fewer than `chunks`."""
    count, size = operator.index(chunks), x.shape[axis_of(x, dim)]
    if count <= 0:
        raise fuse_error(f"chunks is {count}, but must be at least 1")
    return split_sizes(x, [0] * count if size == 0 else -(-size // count), dim)


def split_sizes(x: TracedArray, sizes: Any, dim: int = 0) -> tuple[TracedArray, ...]:
    """Split a dimension into parts of given sizes, or of one size, of which the last part may have less."""
    axis = axis_of(x, dim)
    total, part_sizes = x.shape[axis], whole_numbers(sizes)
    if not is_list(sizes):
        size = part_sizes[0]
        if size < 0 or (total and size == 0):
            raise fuse_error(f"a part cannot have {size} elements")
        count = -(-total // size) if total else 1
        part_sizes = [*[size] * (count - 1), total - size * (count - 1)]
    if any(part < 0 for part in part_sizes) or sum(part_sizes) != total:
        raise fuse_error(f"sizes {part_sizes} do not add up to {total}")
    return tuple(split_axis(x, axis, part_sizes))


def tile(x: TracedArray, reps: Any) -> TracedArray:
    """Repeat an array along its axes."""
    counts = whole_numbers(reps)
    counts = [1] * (x.ndim - len(counts)) + counts
    return apply_rule(tile_rule, x, Integers(counts))[0]


def tile_like_torch(x: TracedArray, repeats: Sequence[int]) -> TracedArray:
    """Like `tile`, with at least one count per dimension."""
    if len(repeats) < x.ndim:
        raise fuse_error(f"{len(repeats)} counts for {x!r}, but there must be at least one per dimension")
    return tile(x, repeats)


def repeat(x: TracedArray, repeats: Any, axis: Any = None) -> TracedArray:
    """Repeat each element along an axis, by default of the flattened array: one count, or one per element."""
    if isinstance(repeats, TracedArray):
        raise with_needed_argument(
            refusal(
                "a repetition by traced counts",
                "the result's shape would depend on elements: call it outside the fused function",
            ),
            repeats,
        )
    x, axis = (ravel(x), 0) if axis is None else (x, normalize_axis_index(axis, x.ndim))
    if not is_list(repeats):
        return repeat_elements(x, repeats, axis)
    counts = constant_array(repeats)
    if counts.size == 1:
        return repeat_elements(x, counts.reshape(-1)[0], axis)
    from anydml.tracing.picking import pick

    return pick(x, np.repeat(np.arange(x.shape[axis]), counts), axis)


def repeat_elements(x: TracedArray, count: Any, axis: int) -> TracedArray:
    """Repeat every element along an axis `count` times."""
    count = whole_number(count)
    if count < 0:
        raise fuse_error(f"repeats is {count}: it must be 0 or more")
    return apply_rule(repeat_rule, x, Integers((count,)), axis)[0]


def expand(x: TracedArray, size: Sequence[int]) -> TracedArray:
    """Broadcast to sizes, of which −1 keeps a size."""
    sizes = whole_numbers(size)
    new_axes = len(sizes) - x.ndim
    if new_axes < 0 or -1 in sizes[:new_axes]:
        raise fuse_error(f"{x!r} does not expand to {sizes}")
    return broadcast(
        x, [*sizes[:new_axes], *(now if n == -1 else n for n, now in zip(sizes[new_axes:], x.shape, strict=True))]
    )


def meshgrid(arrays: Sequence[TracedArray], indexing: Any = "xy", sparse: bool = False) -> tuple[TracedArray, ...]:
    """Return one grid per array of coordinates."""
    if indexing not in ("xy", "ij"):
        raise fuse_error("Valid values for `indexing` are 'xy' and 'ij'.")
    rank, sizes = len(arrays), [array.count for array in arrays]
    grids = []
    for k, array in enumerate(arrays):
        grid = reshape(array, [size if k == axis else 1 for axis, size in enumerate(sizes)])
        grid = grid if sparse else broadcast(grid, sizes)
        grids.append(swapaxes(grid, 0, 1) if indexing == "xy" and rank > 1 else grid)
    return tuple(grids)


def cartesian_prod(tensors: Sequence[TracedArray]) -> TracedArray:
    """Return all tuples of elements, one row each."""
    if any(tensor.ndim != 1 for tensor in tensors):
        raise fuse_error("tensors of a cartesian_prod must have one dimension")
    return tensors[0] if len(tensors) == 1 else stack([ravel(grid) for grid in meshgrid(tensors, "ij")], 1)


def combinations(x: TracedArray, r: int = 2, with_replacement: bool = False) -> TracedArray:
    """Return all combinations of `r` elements, one row each."""
    if x.ndim != 1 or r < 0:
        raise fuse_error(f"combinations of {r} elements of {x!r}: it must have one dimension, and r must be 0 or more")
    if not r:
        return cut(x, 0, 0, 0)
    choose_positions = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    from anydml.tracing.picking import pick

    return pick(x, np.array([*choose_positions(range(x.shape[0]), r)], np.int64).reshape(-1, r), 0)
