"""Words that change shapes, or the order, direction, place or number of axes."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.errors import FuseIndexError
from anydml.fields import UNORDERED
from anydml.moves.accesses import strided
from anydml.moves.sizing import Integers
from anydml.operators.axis_functions import roll_rule, shift_along
from anydml.text import count_noun
from anydml.tracing import array_verbs
from anydml.tracing.array_verbs import apply_rule, axes_of, axis_of, cut, distinct_axes, permute, shape_with
from anydml.tracing.constants import whole_numbers
from anydml.tracing.refusing import fuse_error, refusal
from anydml.tracing.trace import TracedArray


def reshape(x: TracedArray, shape: Any, order: Any = "C", newshape: Any = None, copy: Any = None) -> TracedArray:
    """Like NumPy's function, in order 'C' or 'F'."""
    if order not in (None, "C", "F"):
        raise fuse_error(f"order {order!r} depends on an argument's memory layout: pass 'C' or 'F'")
    new_shape = shape if shape is not None else newshape
    sizes = _with_inferred_size(new_shape, x.count)
    if sizes is None:
        raise fuse_error(f"cannot reshape {x!r} into shape {new_shape}: {_misfit(new_shape, x.count)}")
    if copy is not None and not copy and not _is_view(x, sizes, order):
        raise fuse_error(f"{x!r} cannot be reshaped into {new_shape} without a copy: leave copy=False out")
    return transpose(array_verbs.reshape(transpose(x), sizes[::-1])) if order == "F" else array_verbs.reshape(x, sizes)


def _misfit(shape: Any, count: int) -> str:
    """Return why elements do not fill a shape, which may have one size of −1."""
    sizes = whole_numbers(shape)
    if sizes.count(-1) > 1:
        return "only one size may be -1"
    filled = math.prod(size for size in sizes if size != -1)
    if -1 in sizes:
        return f"its {count_noun(count, 'element')} do not divide by {filled}"
    return f"it has {count_noun(count, 'element')}, and that shape {filled}"


def _with_inferred_size(shape: Any, count: int) -> list[int] | None:
    """Replace a size of −1 so that the product is `count`; return None if that is impossible."""
    sizes = whole_numbers(shape)
    known_count = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known_count > 0 and count % known_count == 0:
        sizes[sizes.index(-1)] = count // known_count
    return None if any(size < 0 for size in sizes) or math.prod(sizes) != count else sizes


def _is_view(x: TracedArray, sizes: Sequence[int], order: Any) -> bool:
    """Whether NumPy would reshape the array without a copy, as far as its memory layout is known."""
    if (strided_source := strided(x.value)) is None:
        return not x.count
    # Only the layout matters; no element is read.
    like = np.lib.stride_tricks.as_strided(np.empty(1, f"V{x.itemsize}"), x.shape, strided_source[1].strides)
    try:
        like.reshape(sizes, order=order, copy=False)
    except ValueError:
        return False
    return True


def ravel(x: TracedArray, order: Any = "C") -> TracedArray:
    """Flatten an array, in order 'C' or 'F'."""
    return reshape(x, (x.count,), order)


def flatten(x: TracedArray, start_dim: int = 0, end_dim: int = -1) -> TracedArray:
    """Merge adjacent dimensions."""
    first, last = axis_of(x, start_dim), axis_of(x, end_dim)
    if first > last:
        raise fuse_error(f"start_dim {start_dim} comes after end_dim {end_dim}")
    if first == last and x.ndim:
        return x
    sizes = x.shape or (1,)
    return array_verbs.reshape(x, (*sizes[:first], math.prod(sizes[first : last + 1]), *sizes[last + 1 :]))


def unflatten(x: TracedArray, dim: int, sizes: Sequence[int]) -> TracedArray:
    """Divide a dimension into several; one size may be −1."""
    axis = axis_of(x, dim)
    parts = _with_inferred_size(sizes, x.shape[axis])
    if not parts:
        raise fuse_error(f"unflatten: sizes {[*sizes]} do not multiply to {x.shape[axis]}")
    return array_verbs.reshape(x, shape_with(x, axis, *parts))


def transpose(x: TracedArray, axes: Any = None) -> TracedArray:
    """Permute axes; reverse them by default."""
    rank = len(x.value.sizes)
    order = axes_of(x, axes) if axes is not None else range(rank)[::-1]
    if len(order) != rank or isinstance(axes, UNORDERED):
        raise fuse_error(f"axes {axes} do not match {x!r}")
    return permute(x, order)


def swapaxes(x: TracedArray, axis1: int, axis2: int) -> TracedArray:
    """Swap two axes."""
    first, second = axis_of(x, axis1), axis_of(x, axis2)
    return permute(x, [{first: second, second: first}.get(axis, axis) for axis in range(x.ndim)])


def moveaxis(x: TracedArray, source: Any, destination: Any) -> TracedArray:
    """Move axes to other places; the others stay in order."""
    sources = distinct_axes(source, x.ndim, "source")
    places = distinct_axes(destination, x.ndim, "destination")
    if len(sources) != len(places):
        raise fuse_error("`source` and `destination` arguments must have the same number of elements")
    axes = [axis for axis in range(x.ndim) if axis not in sources]
    for new_axis, axis in sorted(zip(places, sources, strict=True)):
        axes.insert(new_axis, axis)
    return permute(x, axes)


def rollaxis(x: TracedArray, axis: int, start: int = 0) -> TracedArray:
    """Move an axis before another one."""
    axis, start = axis_of(x, axis), operator.index(start)
    # A negative start counts from the last axis, not from the end of the shape.
    if not -x.ndim <= start <= x.ndim:
        raise fuse_error(f"start is {start}, but must be {-x.ndim} to {x.ndim}")
    start += x.ndim * (start < 0)
    return moveaxis(x, axis, start - (axis < start))


def t(x: TracedArray) -> TracedArray:
    """Transpose a matrix."""
    if x.ndim > 2:
        raise fuse_error(f"t() of {x!r}: it has more than 2 dimensions")
    return transpose(x)


def hermitian_transpose(x: TracedArray) -> TracedArray:
    """Transpose a matrix of real elements."""
    if x.ndim not in (0, 2):
        raise fuse_error(f".H of {x!r}: use .mH for batches of matrices")
    return transpose(conjugate(x))


def conjugate(x: TracedArray) -> TracedArray:
    """Return x, whose elements must be real."""
    if x.element.kind == "c":
        raise refusal(f"a conjugate of {x!r}")
    return x


def real(x: TracedArray) -> TracedArray:
    """Return x, whose elements must be real."""
    if x.element.kind == "c":
        raise fuse_error(
            f"the real parts of {x!r}: a fused function cannot change the size of elements: pass a view of the argument"
        )
    return x


def squeeze(x: TracedArray, axis: Any = None, is_strict: bool = True) -> TracedArray:
    """Remove axes of size 1; unless `is_strict`, named axes of other sizes stay."""
    if is_strict and isinstance(axis, list):
        raise TypeError("axis must be an integer or a tuple, not a list")
    axes = axes_of(x, axis)
    removed = {k for k in axes if k < x.ndim and x.shape[k] == 1}
    if is_strict and axis is not None and len(removed) < len(axes):
        raise fuse_error(f"cannot squeeze axis {axis} of {x!r}: its size is not 1")
    return array_verbs.reshape(x, [n for k, n in enumerate(x.shape) if k not in removed])


def expand_dims(x: TracedArray, axis: Any) -> TracedArray:
    """Insert axes of size 1."""
    if type(axis) is int and 0 <= axis <= x.ndim:
        return x.new_array(x.value.with_axis(axis))
    rank, sizes = x.ndim + (len(axis) if isinstance(axis, (tuple, list)) else 1), iter(x.shape)
    new_axes = distinct_axes(axis, rank)
    return array_verbs.reshape(x, [1 if k in new_axes else next(sizes) for k in range(rank)])


def at_least(x: TracedArray, rank: int) -> TracedArray:
    """Prepend axes of size 1 up to a rank; to a matrix, a third axis is appended, as NumPy does."""
    if rank == 3 and x.ndim in (1, 2):
        return array_verbs.reshape(x, (*(1,) * (2 - x.ndim), *x.shape, 1))
    return array_verbs.reshape(x, (*(1,) * (rank - x.ndim), *x.shape))


def at_least_each(arrays: Sequence[Any], rank: int) -> Any:
    """Apply `at_least` to one array, several, or a list of them."""
    is_list = len(arrays) == 1 and isinstance(arrays[0], (list, tuple))
    results = tuple(at_least(array, rank) for array in (arrays[0] if is_list else arrays))
    return results if is_list or len(results) != 1 else results[0]


def flip(x: TracedArray, axis: Any = None) -> TracedArray:
    """Reverse the order of elements along axes."""
    for k in axes_of(x, axis)[: x.ndim]:
        x = cut(x, k, x.shape[k] - 1, x.shape[k], -1)
    return x


def flip_axis(x: TracedArray, axis: int) -> TracedArray:
    """Reverse an axis, which must exist."""
    if x.ndim <= axis:
        raise fuse_error(f"Input must be >= {axis + 1}-d.")
    return flip(x, axis)


def rot90(x: TracedArray, k: int = 1, axes: Sequence[int] = (0, 1)) -> TracedArray:
    """Rotate by 90 degrees, `k` times."""
    first, second = axes_of(x, axes)
    turns = operator.index(k) % 4
    if turns % 2 == 0:
        return flip(x, (first, second)) if turns else x
    return flip(swapaxes(x, first, second), first if turns == 1 else second)


def roll(x: TracedArray, shift_middle: Any, axis: Any = None) -> TracedArray:
    """Roll elements along axes with wrap-around; a flattened array by default."""
    by = whole_numbers(shift_middle)
    if axis is None:
        return apply_rule(roll_rule, x, Integers((sum(by),)), True)[0]
    axes = axes_of(x, axis, are_distinct=False)
    if len({1, len(by), len(axes)}) > 2:
        raise fuse_error(f"{len(by)} shifts along {len(axes)} axes")
    along = axes * len(by) if len(axes) == 1 else axes
    return apply_rule(roll_rule, x, Integers([shift_along(tuple(by), along, d) for d in range(x.ndim)]), False)[0]


def roll_like_torch(x: TracedArray, shifts: Any, dims: Any = None) -> TracedArray:
    """Like `roll`, with one shift per dimension."""
    by, along = whole_numbers(shifts), whole_numbers([] if dims is None else dims)
    if len(by) != max(len(along), 1):
        raise fuse_error(f"torch.roll by {len(by)} shifts along {len(along)} dims: there must be one shift per dim")
    if along and not x.ndim:
        raise fuse_error(f"Dimension specified as {along[0]} but tensor has no dimensions", FuseIndexError)
    return roll(x, by, tuple(along) if along else None)


def shift_middle(x: TracedArray, axes: Any = None, by: int = 1) -> TracedArray:
    """Move the middle of each axis to its start; with `by` of −1, move it back."""
    along = range(x.ndim) if axes is None else whole_numbers(axes)
    return roll(x, [by * (x.shape[k] // 2) for k in along], tuple(along))
