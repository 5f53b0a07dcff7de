"""Moves with open sizes, strides and offsets, and their values in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anydml.moves.move import Access, Fill, Lookup, Move

Number = Callable[[Any], int]
"""Returns the value of an open number."""


def numbers_of(move: Move) -> list[Any]:
    """Return the numbers of a move that may be open."""
    ends = [move.destination] if isinstance(move.source, Fill) else [move.destination, move.source]
    numbers = [*move.sizes, move.element_size]
    for end in ends:
        numbers += end.strides
        numbers.append(end.offset)
    for lookup in move.every_lookup():
        numbers += [lookup.offset, *lookup.strides, lookup.size, lookup.stride]
    return numbers


def with_numbers(move: Move, number: Number) -> Move:
    """Replace a move's open numbers by integers.

    Examples:
        >>> from anydml import moves
        >>> from anydml.moves.numbers import with_numbers
        >>> row = moves.Move(("n",), moves.Access(1, 0, (4,)), moves.Access(0, 0, (4,)), 4)
        >>> print(with_numbers(row, lambda each: 3 if each == "n" else each))
        3 of 4 B: #1[4·c0] = #0[4·c0]
    """

    def end(access: Access) -> Access:
        strides = tuple(map(number, access.strides))
        return Access(access.operand, number(access.offset), strides, tuple(map(lookup, access.lookups)))

    def lookup(original: Lookup) -> Lookup:
        return original._replace(
            offset=number(original.offset),
            strides=tuple(map(number, original.strides)),
            size=number(original.size),
            stride=number(original.stride),
            lookups=tuple(map(lookup, original.lookups)),
        )

    source = move.source if isinstance(move.source, Fill) else end(move.source)
    return Move(tuple(map(number, move.sizes)), end(move.destination), source, number(move.element_size))
