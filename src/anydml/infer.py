"""Checks of arguments and shapes that several functions share: axes, equal and given parts, broadcasting.

The functions on arrays and PyTorch's fake kernels use the same checks, so that errors are identical whether a program
runs or is compiled. Sizes may be PyTorch's symbols. Every error is a `DescError`.
"""

from __future__ import annotations

import functools
from operator import sub
from typing import Any

import numpy as np

from anydml.errors import DescError
from anydml.fields import MAX_ITEMS, ONE_OR_LIST, check_dimensions, integer
from anydml.symbols import are_at_least, holds, integers_or_symbols, is_one, is_symbol
from anydml.text import count_noun

Sizes = tuple[int, ...]


@functools.cache
def type_name(dtype: Any) -> str:
    """Return NumPy's name of a dtype. Cached: building it takes NumPy longer than all checks of a call."""
    return str(dtype.name)


def axis_of(name: str, rank: int, axis: Any) -> int:
    """Normalize an axis to 0 … rank − 1.

    Args:
        name: the function's name in errors.
        rank: the array's number of dimensions.
        axis: −rank to rank − 1.

    Raises:
        DescError: `axis` is not an integer, or is out of range.
    """
    return normalize_axis(name, rank, axis if type(axis) is int else integer(name, "axis", axis))


def normalize_axis(name: str, rank: int, axis: int) -> int:
    """Normalize an axis that is an integer, as `axis_of` does."""
    if not -rank <= axis < rank:
        message = f"{name}: axis is {axis}, but the array has {count_noun(rank, 'dimension')}"
        if not rank and name in ("join", "ConcatTraining"):
            message += ": pass a list of arrays, each with at least one dimension"
        rule = f"axis must be {-rank} to {rank - 1}" if rank else "the array must have at least one axis"
        raise DescError(message, name, "axis", rule)
    return axis + rank if axis < 0 else axis


def part_sizes(name: str, sizes_or_sections: Any, axis_size: int, axis: int, field: str = "sizes_or_sections") -> Sizes:
    """Return the parts' sizes along an axis of size `axis_size`.

    Args:
        name: the function's name in errors.
        sizes_or_sections: a number of equal parts, or the parts' sizes.
        axis_size: the axis' size.
        axis: the axis' number in errors.
        field: the name of `sizes_or_sections` in errors.

    Raises:
        DescError: sizes are not integers, do not add up to the axis, one is negative, or the axis does not divide.
    """
    if is_single(sizes_or_sections):
        return equal_parts(name, integer(name, field, sizes_or_sections), axis_size, axis, field)
    sizes: Sizes = integers_or_symbols(name, field, sizes_or_sections, requirement=ONE_OR_LIST)
    if len(sizes) == 0:
        raise DescError(f"{name}: {field} is empty: there are no parts", name, field, "at least one part")
    if not are_at_least(0, sizes):
        message = f"{name}: {field} has the sizes {_join_values(sizes)}, with a negative entry"
        raise DescError(message, name, field, "a part must have 0 or more elements along axis")
    if not holds(sum(sizes) == axis_size):
        added = f"{field} has the sizes {_join_values(sizes)}, which add up to {sum(sizes)}"
        message = f"{name}: {added}, but axis {axis} has size {axis_size}"
        if field == "sizes_or_sections":
            message += _as_places(sizes, axis_size)
        raise DescError(message, name, field, "the parts' sizes must add up to the axis")
    return sizes


def is_single(value: Any) -> bool:
    """Whether a value is an integer where a list is allowed, too."""
    return isinstance(value, (int, np.integer))


def _as_places(sizes: Sizes, axis_size: int) -> str:
    """Return a hint if the sizes look like NumPy's cut points, or an empty string."""
    cuts = 0, *sizes, axis_size
    if len(sizes) > 16 or any(is_symbol(cut) for cut in cuts) or [*cuts] != sorted(cuts):
        return ""
    return f": if these are NumPy's cut points, the sizes are {[*map(sub, cuts[1:], cuts)]}"


def equal_parts(name: str, count: int, axis_size: int, axis: int, field: str) -> Sizes:
    """Return the sizes of `count` equal parts.

    Raises:
        DescError: the axis does not divide, or there are more than 2²⁴ parts.
    """
    if count > MAX_ITEMS:
        message = f"{name}: {field} is {count}, and each part is an array"
        raise DescError(message, name, field, "there must be at most 2²⁴ parts")
    if count < 1 or not holds(axis_size % count == 0):
        size = f"axis {axis} has size {axis_size}, which does not divide into {count} equal parts"
        message = f"{name}: {field} is {count}, but {size}"
        message += ": a number of parts is at least 1" if count < 1 else ": give the parts' sizes instead"
        raise DescError(message, name, field, "equal parts must divide the axis")
    return (axis_size // count,) * count


def vector(name: str, field: str, values: Any, rank: int) -> Sizes:
    """Convert a list of one integer per dimension.

    Raises:
        DescError: an entry is not an integer, or there are not exactly `rank` entries.
    """
    result: Sizes = integers_or_symbols(name, field, values)
    if len(result) != rank:
        message = f"{name}: {field} has {count_noun(len(result), 'entry')}, but x has {count_noun(rank, 'dimension')}"
        raise DescError(message, name, field, "one entry per dimension")
    return result


def wider_sizes(name: str, a: Sizes, b: Sizes) -> Sizes:
    """Return the shape that two shapes broadcast to: along each axis, the first size that is not known to be 1."""
    rank: int = max(len(a), len(b))
    return tuple([_wider_axis(a, b, d - rank + len(a), d - rank + len(b)) for d in range(rank)])


def _wider_axis(a: Sizes, b: Sizes, i: int, j: int) -> int:
    return b[j] if i < 0 or (j >= 0 and is_one(a[i])) else a[i]


def is_broadcast(shape: Sizes, target: Sizes) -> bool:
    """Whether an array of a shape broadcasts to another one by NumPy's rules; undecided sizes count as equal."""
    new_axes: int = len(target) - len(shape)
    if new_axes < 0:
        return False
    for d in range(len(shape)):  # noqa: SIM110  # compiled, too
        if not holds((shape[d] == target[new_axes + d]) | (shape[d] == 1)):
            return False
    return True


def are_equal_but(shape: Sizes, other_shape: Sizes, axis: int) -> bool:
    """Whether two arrays have the same rank and, except along one axis, the same sizes."""
    if len(shape) != len(other_shape):
        return False
    for d in range(len(shape)):  # noqa: SIM110  # compiled, too
        if d != axis and not holds(shape[d] == other_shape[d]):
            return False
    return True


def check_along(name: str, shape: Sizes, indices: Sizes, axis: Any) -> int:
    """Check the shapes of an operator with one index per element, and normalize its axis.

    Raises:
        DescError: ranks differ, the axis is out of range, or `indices` is longer than x along another axis.
    """
    if len(indices) != len(shape):
        message = f"{name}: indices have {count_noun(len(indices), 'dimension')}, but x has {len(shape)}"
        raise DescError(message, name, "indices", "indices must have x's dimensions")
    along: int = axis_of(name, len(shape), axis)
    for i in range(len(shape)):
        if i != along and not holds(indices[i] <= shape[i]):
            message = f"{name}: indices.shape[{i}] is {indices[i]}, but x.shape[{i}] is {shape[i]}"
            raise DescError(message, name, "indices", "indices must be no longer than x, except along axis")
    return along


def _join_values(values: Sizes) -> str:
    return str(list(values)) if len(values) <= 16 else f"[{', '.join(map(str, values[:16]))}, … {len(values)} in all]"


def picked_axis(
    name: str, shape: Sizes, axis: Any, index_rank: int, count: int, dtype: Any, is_integer: bool = True
) -> int:
    """Check indices along an axis and normalize the axis. In the result, the indices' sizes replace it.

    Args:
        name: the function's name in errors.
        shape: the shape of x.
        axis: −rank to rank − 1.
        index_rank: dimensions of the indices.
        count: number of indices.
        dtype: the dtype of the indices, for errors.
        is_integer: whether `dtype` is an integer type.

    Raises:
        DescError: indices are not integers, the axis is out of range, the axis is empty but `indices` is not, or the
            result has more than 64 dimensions.
    """
    if not is_integer:
        message = f"{name}: indices are {dtype}, but must be integers of at most 64 bits: convert them first"
        raise DescError(message, name, "indices", "indices must be integers of at most 64 bits")
    normalized: int = axis_of(name, len(shape), axis)
    check_dimensions(name, "the result", len(shape) - 1 + index_rank)
    if not holds((shape[normalized] >= 1) | (count == 0)):
        message = f"{name}: axis {normalized} of x is empty, but there are indices: {count_noun(count, 'index')}"
        raise DescError(message, name, "x", "there must be an element to read")
    return normalized
