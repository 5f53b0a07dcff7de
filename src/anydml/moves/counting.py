"""Numbers that count: values of INT64 elements that no memory has, since each follows from where it stands.

Their pieces read `COUNTING`, an operand that is in no program, whose element at byte 8·n is the number n. Looking
elements up by such numbers is a slice; wherever else the numbers are needed, a constant has them.
"""

from __future__ import annotations

import numpy as np

from anydml.moves.move import Access, Fill, Lookup
from anydml.moves.pieces import Factor, Piece

COUNTING = 4 << 32
"""The operand that every number can be read from."""

ITEM = 8


def counting(start: int, count: int, step: int) -> Piece:
    """``start + step·k`` for each k below a count."""
    return Piece((0,), (Factor(0, count, 1),), Access(COUNTING, start * ITEM, (step * ITEM,)))


def is_counting(source: Access | Fill) -> bool:
    """Whether elements are numbers that count."""
    return isinstance(source, Access) and source.operand == COUNTING and not source.lookups


def numbers(piece: Piece) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """The elements of a piece that counts, by its factors."""
    assert isinstance(piece.source, Access), "it counts"
    found = np.full([int(factor.size) for factor in piece.factors], int(piece.source.offset) // ITEM, np.int64)
    for k, (factor, stride) in enumerate(zip(piece.factors, piece.source.strides, strict=True)):
        along = np.arange(int(factor.size)) * (int(stride) // ITEM)
        found += along.reshape(-1, *(1,) * (len(piece.factors) - k - 1))
    return found


def walked(piece: Piece, index: Piece, axis: int, size: int) -> Access | Fill:
    """The source of a piece whose axis is looked up by numbers that count; their factors are put last.

    Raises:
        IndexError: one of them lies outside the axis.
    """
    by = index.source
    assert isinstance(by, Access), "it counts"
    steps = [stride // ITEM for stride in by.strides]
    least = most = first = by.offset // ITEM
    for factor, step in zip(index.factors, steps, strict=True):
        way = (factor.size - 1) * step
        least, most = (least + way, most) if way < 0 else (least, most + way)
    if most < 0:
        least, most, first = least + size, most + size, first + size
    if least < 0 or most >= size:
        raise IndexError(f"indices {least} to {most} are out of range for an axis of size {size}")
    if isinstance(piece.source, Fill):
        return piece.source
    kept = [k for k, factor in enumerate(piece.factors) if factor.axis != axis]
    own = next((k for k, factor in enumerate(piece.factors) if factor.axis == axis and factor.size > 1), None)

    def along(offset: int, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        stride = 0 if own is None else strides[own]
        return offset + first * stride, (*(strides[k] for k in kept), *(step * stride for step in steps))

    def behind(lookups: tuple[Lookup, ...]) -> tuple[Lookup, ...]:
        found = []
        for each in lookups:
            offset, strides = along(each.offset, each.strides)
            found.append(each._replace(offset=offset, strides=strides, lookups=behind(each.lookups)))
        return tuple(found)

    offset, strides = along(piece.source.offset, piece.source.strides)
    return Access(piece.source.operand, offset, strides, behind(piece.source.lookups))
