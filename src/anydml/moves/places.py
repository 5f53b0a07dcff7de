"""Places of a tensor's elements in another tensor: along its axes, or at coordinates that indices select."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anydml.moves.move import Access, Fill, Lookup, Move, Outside
from anydml.tensor import Layout


class Along(NamedTuple):
    """Coordinates ``start + step·c``, where c is the part's coordinate along a dimension."""

    dim: int
    start: int = 0
    step: int = 1


class At(NamedTuple):
    """Coordinates given by indices.

    Attributes:
        by: access to the indices, with one stride per dimension of the part.
        dtype: NumPy's name of their type.
        outside: treatment of indices out of range.
    """

    by: Access
    dtype: str
    outside: Outside = "refuse"


def put(
    source: Access | Fill, sizes: Sequence[int], operand: int, target: Layout, places: Sequence[Along | At]
) -> Move:
    """Return the move that replaces elements of a target by those of a part.

    Args:
        source: access to the part, with one stride per dimension.
        sizes: the part's sizes.
        operand: the target's operand number.
        target: the target's layout.
        places: the coordinates of the part's elements along each axis of the target.
    """
    offset, strides = 0, [0] * len(sizes)
    lookups: list[Lookup] = []
    for size, stride, place in zip(target.sizes, target.strides, places, strict=True):
        if isinstance(place, Along):
            offset += place.start * stride
            strides[place.dim] += place.step * stride
        else:
            by = place.by
            lookups.append(Lookup(by.operand, place.dtype, by.offset, by.strides, size, stride, place.outside))
    to = Access(operand, offset, tuple(strides), tuple(lookups))
    return Move(tuple(sizes), to, source, target.element_size)
