"""Which launches do the moves of a program, in which order.

Launches follow each other on a stream. Moves of one stage (see `anydml.moves.order`) share a launch where none has
lookups. Where coordinates of a scatter may write one element, three launches see to it that the last one in row-major
order does: one clears a table of winners, one enters in it, for every element, the largest number of a coordinate that
writes it, and one moves what those coordinates write.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anydml.moves import Access, Lookup, Move, extent, stages
from anydml.moves.move import components, every_lookup
from anydml.moves.simplify import is_injective

WINNERS, ONES, FINDINGS = -1, -2, -3
"""Operands of the engine's own, counted from the end of all: the table of winners, a block of bytes with all bits set,
and what checks of indices find."""

BLOCK = 4096
"""Bytes of the block that tables are cleared with: all bits are set, as in −1, less than any coordinate's number."""

MOST_ENTRIES = 1 << 26
"""Entries of a table at most: larger destinations have their turn one part after the other."""

NARROW_ENTRY, WIDE_ENTRY = 4, 8
NARROW_NUMBERS = 2**31
"""Bytes of an entry: boxes with fewer coordinates number them in the narrow one."""


class Winners(NamedTuple):
    """A table with one entry for each element that a scatter may write twice: the last coordinate that writes it.

    Attributes:
        operand: the table.
        offset: entry of coordinate 0.
        strides: entries from one coordinate to the next, for each dimension of the move.
        steps: the same for each lookup, in the order of `every_lookup`; 0 for those that are not the destination's own.
        entries: of the table.
        entry: bytes of one, 4 or 8.
        in_rounds: whether some coordinates' entries are not in the table.
        are_found: whether the launch fills the table, and moves nothing; else it moves what the winners write.
    """

    operand: int
    offset: int
    strides: tuple[int, ...]
    steps: tuple[int, ...]
    entries: int
    entry: int
    in_rounds: bool = False
    are_found: bool = False


class Launch(NamedTuple):
    """Moves of one rank that one launch does, in any order; a move with lookups is alone.

    Attributes:
        moves: simple moves between operands.
        winners: which coordinates write, where several may write one element.
    """

    moves: tuple[Move, ...]
    winners: Winners | None = None


def launches(moves: Sequence[Move]) -> list[Launch]:
    """The launches of a program's simple moves, in their order; no source is a fill."""
    result: list[Launch] = []
    for stage in stages(moves):
        plain = [move for move in stage if not move.has_lookups]
        if plain:
            rank = max(len(move.sizes) for move in plain)
            result.append(Launch(tuple(_padded(move, rank) for move in plain)))
        for move in stage:
            if move.has_lookups:
                result += _scattered(move) if _order_is_seen(move) else [Launch((move,))]
    return result


def cleared(operand: int, size: int) -> Launch:
    """The launch that sets all bits of a table of `size` bytes, rounded up to whole blocks."""
    to, source = Access(operand, 0, (BLOCK,)), Access(ONES, 0, (0,))
    return Launch((Move((math.ceil(size / BLOCK),), to, source, BLOCK),))


def table_bytes(scheduled: Sequence[Launch], operand: int) -> int:
    """Bytes of the largest table that launches need, in whole blocks."""
    tables = [launch.winners for launch in scheduled if launch.winners and launch.winners.operand == operand]
    return max((BLOCK * math.ceil(table.entries * table.entry / BLOCK) for table in tables), default=0)


def _padded(move: Move, rank: int) -> Move:
    more = rank - len(move.sizes)
    if not more:
        return move

    def access(side: Access) -> Access:
        return side._replace(strides=(0,) * more + side.strides)

    return Move((1,) * more + move.sizes, access(move.destination), access(accessed(move)), move.element_size)


def accessed(move: Move) -> Access:
    """The source of a move, which is no fill: those became constants."""
    assert isinstance(move.source, Access)
    return move.source


def _order_is_seen(move: Move) -> bool:
    """Whether coordinates of a move may write different values to one byte."""
    sizes, to, source, element_size = move
    if not to.lookups:
        return False
    if not is_injective(components(to, sizes), element_size):
        return True
    # Coordinates that meet differ only where the destination stands still.
    still = [d for d, size in enumerate(sizes) if size > 1 and not to.strides[d]]
    ends: list[Access | Lookup] = []
    if isinstance(source, Access):
        ends += [source, *every_lookup(source.lookups)]
    return any(end.strides[d] for end in ends for d in still)


def _scattered(move: Move) -> Iterator[Launch]:
    """The launches of a move whose order is seen."""
    if is_injective(components(move.destination, move.sizes), move.element_size):
        winners = _by_coordinate(move)
    else:
        move = _in_cells(move)
        winners = _by_address(move)
    finding, count = _without_elements(move), winners.entries
    for start in range(0, count, MOST_ENTRIES):
        turn = winners._replace(
            offset=winners.offset - start,
            entries=min(MOST_ENTRIES, count - start),
            in_rounds=count > MOST_ENTRIES,
        )
        yield cleared(WINNERS, turn.entries * turn.entry)
        steps = turn.steps[: len([*finding.every_lookup()])]
        yield Launch((finding,), turn._replace(steps=steps, are_found=True))
        yield Launch((move,), turn)


def _by_coordinate(move: Move) -> Winners:
    """A table where elements lie apart: an entry for every element that the destination's strides and axes reach."""
    sizes, to, _, _ = move
    strides, steps = [0] * len(sizes), [0] * len(to.lookups)
    varying = [(abs(stride), strides, d, size) for d, (size, stride) in enumerate(zip(sizes, to.strides, strict=True))]
    varying += [(abs(lookup.stride), steps, n, lookup.size) for n, lookup in enumerate(to.lookups)]
    count = 1
    # In the order of addresses, so that neighbours' entries are neighbours.
    for stride, weights, k, size in sorted(varying, key=lambda each: each[0]):
        if stride and size > 1:
            weights[k] = count
            count *= size
    return Winners(WINNERS, 0, tuple(strides), _steps(move, steps), count, _entry(move))


def _by_address(move: Move) -> Winners:
    """A table of all that lies between the first and the last element, for elements that coincide or lie apart."""
    sizes, to, _, cell = move
    first, end = extent(to, sizes, cell)
    strides = tuple(stride // cell if size > 1 else 0 for size, stride in zip(sizes, to.strides, strict=True))
    steps = _steps(move, [lookup.stride // cell if lookup.size > 1 else 0 for lookup in to.lookups])
    return Winners(WINNERS, (to.offset - first) // cell, strides, steps, (end - first) // cell, _entry(move))


def _in_cells(move: Move) -> Move:
    """A move of smaller elements, all of which coincide or lie apart; the later coordinate is the same."""
    sizes, to, source, size = move
    cell = math.gcd(size, *(stride for length, stride in components(to, sizes) if length > 1))
    if cell == size:
        return move
    assert isinstance(source, Access)

    def longer(access: Access) -> Access:
        return access._replace(strides=(*access.strides, cell), lookups=tuple(map(still, access.lookups)))

    def still(lookup: Lookup) -> Lookup:
        return lookup._replace(strides=(*lookup.strides, 0), lookups=tuple(map(still, lookup.lookups)))

    return Move((*sizes, size // cell), longer(to), longer(source), cell)


def _without_elements(move: Move) -> Move:
    """What a launch has to look up to find the winners: where elements go, and which are left as they are."""
    sizes, to, source, _ = move
    assert isinstance(source, Access)
    skipping = [each for each in source.lookups if any(inner.outside == "skip" for inner in every_lookup((each,)))]

    def nowhere(lookups: Sequence[Lookup]) -> Access:
        return Access(WINNERS, 0, (0,) * len(sizes), tuple(lookup._replace(stride=0) for lookup in lookups))

    return Move(sizes, nowhere(to.lookups), nowhere(skipping), _entry(move))


def _steps(move: Move, own: Sequence[int]) -> tuple[int, ...]:
    """Entries per index for each of `every_lookup`, from those of the destination's own lookups."""
    result: list[int] = []
    for lookup, step in zip(move.destination.lookups, own, strict=True):
        result += [0] * len([*every_lookup(lookup.lookups)])
        result.append(step)
    return (*result, *[0] * (len([*move.every_lookup()]) - len(result)))


def _entry(move: Move) -> int:
    return NARROW_ENTRY if math.prod(move.sizes) < NARROW_NUMBERS else WIDE_ENTRY
