"""The numbers of moves: of their operands, and sizes, strides and offsets, which may be open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anydml.moves.move import Access, Fill, Lookup, Move, make_tuple

ValueOf = Callable[[Any], int]
"""Returns the value of an open number."""


def open_numbers_of(move: Move) -> list[Any]:
    """Return the numbers of a move that may be open."""
    ends = [move.destination] if isinstance(move.source, Fill) else [move.destination, move.source]
    numbers = [*move.sizes, move.element_size]
    for end in ends:
        numbers += end.strides
        numbers.append(end.offset)
    for lookup in move.all_lookups():
        numbers += [lookup.offset, *lookup.strides, lookup.size, lookup.stride]
    return numbers


def with_integers(move: Move, value_of: ValueOf) -> Move:
    """Replace a move's open numbers by integers.

    Examples:
        >>> from anydml import moves
        >>> from anydml.moves.move_numbers import with_integers
        >>> row = moves.Move(("n",), moves.Access(1, 0, (4,)), moves.Access(0, 0, (4,)), 4)
        >>> print(with_integers(row, lambda each: 3 if each == "n" else each))
        3 of 4 B: #1[4·c0] = #0[4·c0]
    """

    def end(access: Access) -> Access:
        strides = tuple(map(value_of, access.strides))
        return Access(access.operand, value_of(access.offset), strides, tuple(map(lookup, access.lookups)))

    def lookup(original: Lookup) -> Lookup:
        return original._replace(
            offset=value_of(original.offset),
            strides=tuple(map(value_of, original.strides)),
            size=value_of(original.size),
            stride=value_of(original.stride),
            lookups=tuple(map(lookup, original.lookups)),
        )

    source = move.source if isinstance(move.source, Fill) else end(move.source)
    return Move(tuple(map(value_of, move.sizes)), end(move.destination), source, value_of(move.element_size))


def renumber_operands(move: Move, numbers: Mapping[int, int]) -> Move:
    """Replace a move's operand numbers."""

    def at(access: Access) -> Access:
        operand, offset, strides, lookups = access
        fields = numbers[operand], offset, strides, tuple(map(inside, lookups)) if lookups else ()
        return make_tuple(Access, fields)  # type: ignore[no-any-return]

    def inside(lookup: Lookup) -> Lookup:
        return lookup._replace(operand=numbers[lookup.operand], lookups=tuple(map(inside, lookup.lookups)))

    sizes, to, source, element = move
    fields = sizes, at(to), source if isinstance(source, Fill) else at(source), element
    return make_tuple(Move, fields)  # type: ignore[no-any-return]
