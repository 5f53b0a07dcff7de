"""Arithmetic sequences: INT64 values that occupy no memory, since each element is a linear function of its coordinates.

Their pieces read `SEQUENCE_OPERAND`, a virtual operand whose element at byte 8·n is the number n. A lookup by such a
sequence becomes a slice. For any other use, a constant replaces the sequence.
"""

from __future__ import annotations

import numpy as np

from anydml.moves.move import Access, Fill, Lookup
from anydml.moves.open_numbers import is_one
from anydml.moves.pieces import Factor, Piece
from anydml.moves.wrapped_indices import index_range

SEQUENCE_OPERAND = 4 << 32
"""Number of the virtual operand. No program contains it."""

ITEM = 8


def sequence_piece(start: int, count: int, step: int) -> Piece:
    """Return the piece ``start + step·k``, 0 ≤ k < count."""
    return Piece((0,), (Factor(0, count, 1),), Access(SEQUENCE_OPERAND, start * ITEM, (step * ITEM,)))


def is_arithmetic_sequence(source: Access | Fill) -> bool:
    """Whether a source is an arithmetic sequence."""
    return isinstance(source, Access) and source.operand == SEQUENCE_OPERAND and not source.lookups


def sequence_elements(piece: Piece) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Compute the elements of an arithmetic sequence, as an array with one axis per factor."""
    assert isinstance(piece.source, Access), "an arithmetic sequence"
    values = np.full([int(factor.size) for factor in piece.factors], int(piece.source.offset) // ITEM, np.int64)
    for k, (factor, stride) in enumerate(zip(piece.factors, piece.source.strides, strict=True)):
        along = np.arange(int(factor.size)) * (int(stride) // ITEM)
        values += along.reshape(-1, *(1,) * (len(piece.factors) - k - 1))
    return values


def sliced_source(piece: Piece, index: Piece, axis: int, size: int) -> Access | Fill:
    """Return the source of a piece whose axis is indexed by an arithmetic sequence; the index's factors are appended.

    Raises:
        IndexError: an index is out of range.
    """
    by = index.source
    assert isinstance(by, Access), "an arithmetic sequence"
    steps = [stride // ITEM for stride in by.strides]
    lowest = highest = first = by.offset // ITEM
    for factor, step in zip(index.factors, steps, strict=True):
        reach = (factor.size - 1) * step
        lowest, highest = (lowest + reach, highest) if reach < 0 else (lowest, highest + reach)
    if highest < 0:
        lowest, highest, first = lowest + size, highest + size, first + size
    if lowest < 0 or highest >= size:
        reached = f"indices {lowest} to {highest} are out of range for an axis of size {size}"
        raise IndexError(f"{reached}: {index_range(size)}")
    if isinstance(piece.source, Fill):
        return piece.source
    other_factors = [k for k, factor in enumerate(piece.factors) if factor.axis != axis]
    digit = next((k for k, factor in enumerate(piece.factors) if factor.axis == axis and not is_one(factor.size)), None)

    def along(offset: int, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        stride = 0 if digit is None else strides[digit]
        return offset + first * stride, (*(strides[k] for k in other_factors), *(step * stride for step in steps))

    def nested(lookups: tuple[Lookup, ...]) -> tuple[Lookup, ...]:
        moved = []
        for lookup in lookups:
            offset, strides = along(lookup.offset, lookup.strides)
            moved.append(lookup._replace(offset=offset, strides=strides, lookups=nested(lookup.lookups)))
        return tuple(moved)

    offset, strides = along(piece.source.offset, piece.source.strides)
    return Access(piece.source.operand, offset, strides, nested(piece.source.lookups))
