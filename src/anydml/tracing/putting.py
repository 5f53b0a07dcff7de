"""The verbs that replace elements: at coordinates, and by masks. The array is stored in scratch first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import FuseIndexError
from anydml.moves.accesses import strided
from anydml.moves.compose import SCRATCH
from anydml.moves.move import Access, Lookup, Move, Outside, unless
from anydml.tensor import Layout
from anydml.tracing.picking import check_dtype_of, index_array
from anydml.tracing.refusing import broken, refused
from anydml.tracing.trace import TracedArray
from anydml.tracing.verbs import broadcast, broadcast_all, common_shape, fill, native, reshape

REASON = "elements are written over others"

_MASKS = frozenset(map(np.dtype, ("bool", "int8", "uint8")))


class Along(NamedTuple):
    """Coordinates ``start + step·c``, where c is the part's coordinate along a dimension."""

    dim: int
    start: int = 0
    step: int = 1


class At(NamedTuple):
    """Coordinates given by indices of the part's shape."""

    indices: TracedArray
    outside: Outside = "refuse"


def put(x: TracedArray, part: TracedArray, places: Sequence[Any]) -> TracedArray:
    """Replace elements of an array; the last of several elements for one place, in row-major order, wins.

    Args:
        x: the array.
        part: the new elements.
        places: the new elements' coordinates along each axis of x, `Along` or `At`.

    Raises:
        FuseError: the indices' dtype is not supported, they would move before they are checked, or dtypes differ.
    """
    check_same(x, part)
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


def check_same(x: TracedArray, part: TracedArray) -> None:
    """Check that elements can replace others.

    Raises:
        FuseError: their dtypes differ.
    """
    if part.element != x.element:
        raise refused(f"{part!r} put into {x!r}", "convert them to one dtype first")


def _check(place: At, size: int) -> None:
    check_dtype_of(place.indices)
    if not size:
        raise broken("an axis is empty, but there are indices", FuseIndexError)
    own = strided(place.indices.value)
    if place.outside == "refuse" and (own is None or own[0].operand >= SCRATCH):
        hint = "pass them as an argument"
        raise broken(f"indices are checked before anything moves, but these would have to move first: {hint}")


def put_at(x: TracedArray, indices: Mapping[int, Any], values: TracedArray) -> TracedArray:
    """``x[:, indices, …] = values``, for indices along adjacent axes.

    Args:
        x: the array.
        indices: traced or NumPy arrays, by axis in ascending order; they broadcast to each other.
        values: the new elements, which broadcast.
    """
    shape = common_shape([each.shape for each in indices.values()])
    first, behind = min(indices), x.ndim - max(indices) - 1
    sizes = [*x.shape[:first], *shape, *x.shape[x.ndim - behind :]]
    places: list[Any] = [*map(Along, range(first))]
    for axis, given in indices.items():
        index, is_checked = index_array(x, given, x.shape[axis])
        fitted = reshape(index, (*index.shape, *(1,) * behind))
        places.append(At(broadcast(fitted, sizes), "skip" if is_checked else "refuse"))
    places += [Along(len(sizes) - behind + k) for k in range(behind)]
    return put(x, broadcast(values, sizes), places)


def choose(mask: TracedArray, x: TracedArray, y: TracedArray) -> TracedArray:
    """Select elements of x where a mask is not 0, else of y; the three are broadcast.

    Raises:
        FuseError: the mask's elements are not bytes, or the dtypes of x and y differ.
    """
    if mask.element not in _MASKS:
        raise refused(f"{mask!r} as a mask", "pass the result of comparing it with 0")
    if x.element != y.element:
        raise refused(f"{x!r} and {y!r} in one array", "convert them to one dtype first")
    by, x, y = broadcast_all([mask, x, y])

    def lower(inputs: Sequence[Layout], target: Layout) -> Sequence[Move]:
        source = Access(0, 0, inputs[0].strides, (unless(1, inputs[1].strides),))
        return (Move(target.sizes, Access(2, 0, target.strides), source, x.itemsize),)

    return x.made(x.trace.composer.overwritten(x.value, [y.value, by.value], lower, REASON))


def triangle(x: TracedArray, k: int, is_upper: bool = False) -> TracedArray:
    """Set elements on one side of a diagonal to zero: above diagonal k of matrices, or below it if `is_upper`."""
    x = native(x)
    if x.ndim == 1:
        x = broadcast(x, (x.shape[0], x.shape[0]))
    if x.ndim < 2:
        raise broken(f"a triangle of {x!r}: it must have at least two dimensions")
    rows, columns = x.shape[-2:]
    # One byte per diagonal, from the lower left on: 0 on diagonals that become zero.
    diagonals = np.arange(1 - rows, columns)
    kept = x.trace.array((diagonals >= k if is_upper else diagonals <= k).astype(np.uint8))
    zero = broadcast(fill(x, ()), x.shape)

    def lower(inputs: Sequence[Layout], target: Layout) -> Sequence[Move]:
        (along,) = inputs[1].strides
        strides = (*(0,) * (x.ndim - 2), -along, along)
        mask = Lookup(1, "uint8", (rows - 1) * along, strides, 1, 0, "skip")
        return (Move(x.shape, Access(2, 0, target.strides), Access(0, 0, inputs[0].strides, (mask,)), x.itemsize),)

    if not x.count:
        return x
    return x.made(x.trace.composer.overwritten(x.value, [zero.value, kept.value], lower, REASON))
