"""The verbs that replace elements: at coordinates, and by masks. The array is stored in scratch first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import FuseIndexError
from anydml.moves.accesses import strided
from anydml.moves.composer import SCRATCH
from anydml.moves.move import OutOfRange
from anydml.moves.sizing import Integers
from anydml.moves.value_maker import ValueView
from anydml.operators.diagonal_matrix import BEYOND_DIAGONALS, diagonal_matrix_rule
from anydml.operators.element import Element
from anydml.operators.element_wise_if import where_rule
from anydml.operators.triangles import check_tril, check_triu
from anydml.tracing.array_verbs import apply_rule, broadcast, common_shape, maker, native, reshape
from anydml.tracing.constants import whole_number
from anydml.tracing.picking import check_dtype_of, index_array
from anydml.tracing.refusing import fuse_error, refusal
from anydml.tracing.trace import TracedArray

_MASKS = frozenset(map(np.dtype, ("bool", "int8", "uint8")))


class StridedCoordinates(NamedTuple):
    """Coordinates ``start + step·c``, where c is the part's coordinate along a dimension."""

    dim: int
    start: int = 0
    step: int = 1


class AtIndices(NamedTuple):
    """Coordinates given by indices of the part's shape."""

    indices: TracedArray
    outside: OutOfRange = "error"


def put(x: TracedArray, part: TracedArray, places: Sequence[Any]) -> TracedArray:
    """Replace elements of an array; of several elements for one place, the last one in row-major order wins.

    Args:
        x: the array.
        part: the new elements.
        places: the new elements' coordinates along each axis of x, `StridedCoordinates` or `AtIndices`.

    Raises:
        FuseError: the indices' dtype is not supported, they would move before they are checked, or dtypes differ.
    """
    check_same_dtype(x, part)
    if not part.count:
        return x
    for axis, put_axis_indices in enumerate(places):
        if isinstance(put_axis_indices, AtIndices):
            _check(put_axis_indices, x.shape[axis])

    make = maker(x)
    destination, part_dims = make.result_from(ValueView(x.value)), list[int]()
    for put_axis_indices in places:
        axis = len(part_dims)
        if isinstance(put_axis_indices, StridedCoordinates):
            destination = make.cut(
                destination, axis, put_axis_indices.start, part.shape[put_axis_indices.dim], put_axis_indices.step
            )
            part_dims.append(put_axis_indices.dim)
        else:
            destination = make.pick(
                destination,
                ValueView(put_axis_indices.indices.value, put_axis_indices.indices.element.name),
                axis,
                put_axis_indices.outside,
            )
            part_dims += range(part.ndim)
    for dim in range(part.ndim):
        while part_dims.count(dim) > 1:
            axis = part_dims.index(dim)
            second_axis = part_dims.index(dim, axis + 1)
            destination = make.diagonal(destination, axis, second_axis)
            del part_dims[second_axis]
    make.copy(make.permute(destination, Integers([*map(part_dims.index, range(part.ndim))])), ValueView(part.value))
    return x.new_array(*make.values())


def check_same_dtype(x: TracedArray, part: TracedArray) -> None:
    """Check that elements can replace others.

    Raises:
        FuseError: their dtypes differ.
    """
    if part.element != x.element:
        raise refusal(f"{part!r} put into {x!r}", "convert them to one dtype first")


def _check(place: AtIndices, size: int) -> None:
    check_dtype_of(place.indices)
    if not size:
        raise fuse_error("an axis is empty, but there are indices", FuseIndexError)
    strided_indices = strided(place.indices.value)
    if place.outside == "error" and (strided_indices is None or strided_indices[0].operand >= SCRATCH):
        hint = "pass them as an argument"
        raise fuse_error(f"indices are checked before anything moves, but these would have to move first: {hint}")


def put_at_indices(x: TracedArray, indices: Mapping[int, Any], values: TracedArray) -> TracedArray:
    """``x[:, indices, …] = values``, for indices along adjacent axes.

    Args:
        x: the array.
        indices: traced or NumPy arrays, by axis in ascending order; they broadcast to each other.
        values: the new elements, which broadcast.
    """
    shape = common_shape([array.shape for array in indices.values()])
    first, behind = min(indices), x.ndim - max(indices) - 1
    sizes = [*x.shape[:first], *shape, *x.shape[x.ndim - behind :]]
    places: list[Any] = [*map(StridedCoordinates, range(first))]
    for axis, indices_at in indices.items():
        index, is_checked = index_array(x, indices_at, x.shape[axis])
        fitted = reshape(index, (*index.shape, *(1,) * behind))
        places.append(AtIndices(broadcast(fitted, sizes), "skip" if is_checked else "error"))
    places += [StridedCoordinates(len(sizes) - behind + k) for k in range(behind)]
    return put(x, broadcast(values, sizes), places)


def choose_by_mask(mask: TracedArray, x: TracedArray, y: TracedArray) -> TracedArray:
    """Select elements of x where a mask is not 0, else of y; the three are broadcast.

    Raises:
        FuseError: the mask's elements are not bytes, or the dtypes of x and y differ.
    """
    if mask.element not in _MASKS:
        raise refusal(f"{mask!r} as a mask", "pass the result of comparing it with 0")
    if x.element != y.element:
        raise refusal(f"{x!r} and {y!r} in one array", "convert them to one dtype first")
    sizes = common_shape([mask.shape, x.shape, y.shape])
    return apply_rule(where_rule, x, ValueView(y.value), ValueView(mask.value), Integers(sizes))[0]


def triangle(x: TracedArray, k: int, is_upper: bool = False) -> TracedArray:
    """Set the elements of matrices above diagonal k to zero, or those below it if `is_upper`."""
    x, k = native(x), whole_number(k)
    if x.ndim == 1:
        x = broadcast(x, (x.shape[0], x.shape[0]))
    if x.ndim < 2:
        raise fuse_error(f"a triangle of {x!r}: it must have at least two dimensions")
    if not x.count:
        return x
    # Comparing an open diagonal adds a guard.
    k = max(min(k, BEYOND_DIAGONALS - 1), -BEYOND_DIAGONALS)
    zero, begin, end = (check_triu if is_upper else check_tril)("triangle", x.shape, k)
    if x.element.hasobject:
        # Strings are moved as positions in a list, in which zero is the first entry.
        zero = Element(x.trace.pattern(np.zeros((), x.element)))
    return apply_rule(diagonal_matrix_rule, x, zero, begin, end)[0]
