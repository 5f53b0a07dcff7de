"""The launches of a program's moves, and their order.

Launches run in sequence on a stream. Moves of one stage (see `anydml.moves.dependencies`) share a launch if none has
lookups. If several coordinates of a scatter may write one element, three launches make the last one in row-major order
win: one clears a table of winners, one records in it, per element, the largest number of a coordinate that writes it,
and one moves the elements of these coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anydml.moves import Access, Lookup, Move, byte_range, stages
from anydml.moves.move import all_lookups, components
from anydml.moves.simplify import is_injective

WINNERS = -1
"""Number of the operand with the table of winners; negative, as the engine's own operands are numbered from the end."""

ONES = -2
"""Number of the operand with a block of bytes, all of whose bits are set."""

FINDINGS = -3
"""Number of the operand with the results of checks of indices."""

BLOCK = 4096
"""Bytes of the block that clears tables: all bits are set, so entries are −1, less than any coordinate's number."""

MAX_ENTRIES = 1 << 26
"""Maximum number of entries of a table: larger destinations are processed in rounds."""

NARROW_ENTRY, WIDE_ENTRY = 4, 8
NARROW_NUMBERS = 2**31
"""Boxes with fewer coordinates have entries of 4 bytes, others of 8."""


class LastWriteTable(NamedTuple):
    """A table with one entry per element that a scatter may write several times: the last coordinate that writes it.

    Attributes:
        operand: operand number of the table.
        offset: entry of coordinate 0.
        strides: strides in entries, one per dimension of the move.
        steps: strides in entries, one per lookup, in the order of `all_lookups`; 0 unless it is the destination's own.
        entries: number of entries.
        entry: bytes per entry, 4 or 8.
        in_rounds: whether the table contains only the entries of one round.
        only_records: whether the launch fills the table and moves nothing; else it moves the winners' elements.
    """

    operand: int
    offset: int
    strides: tuple[int, ...]
    steps: tuple[int, ...]
    entries: int
    entry: int
    in_rounds: bool = False
    only_records: bool = False


class Launch(NamedTuple):
    """Moves of one rank that one launch runs, in any order. A move with lookups has a launch of its own.

    Attributes:
        moves: simple moves.
        winners: the table of last writers, if several coordinates may write one element.
    """

    moves: tuple[Move, ...]
    winners: LastWriteTable | None = None


def launches(moves: Sequence[Move]) -> list[Launch]:
    """Return the launches of a program's simple moves without fills, in order."""
    result: list[Launch] = []
    for stage in stages(moves):
        plain = [move for move in stage if not move.has_lookups]
        if plain:
            rank = max(len(move.sizes) for move in plain)
            result.append(Launch(tuple(_pad_rank(move, rank) for move in plain)))
        for move in stage:
            if move.has_lookups:
                result += _scatter_launches(move) if _order_is_seen(move) else [Launch((move,))]
    return result


def clearing_launch(operand: int, size: int) -> Launch:
    """Return the launch that sets all bits of a table of `size` bytes, rounded up to whole blocks."""
    to, source = Access(operand, 0, (BLOCK,)), Access(ONES, 0, (0,))
    return Launch((Move((math.ceil(size / BLOCK),), to, source, BLOCK),))


def table_bytes(scheduled: Sequence[Launch], operand: int) -> int:
    """Return the bytes of the largest table that launches need, in whole blocks."""
    tables = [launch.winners for launch in scheduled if launch.winners and launch.winners.operand == operand]
    return max((BLOCK * math.ceil(table.entries * table.entry / BLOCK) for table in tables), default=0)


def _pad_rank(move: Move, rank: int) -> Move:
    missing = rank - len(move.sizes)
    if not missing:
        return move

    def access(side: Access) -> Access:
        return side._replace(strides=(0,) * missing + side.strides)

    return Move((1,) * missing + move.sizes, access(move.destination), access(source_access(move)), move.element_size)


def source_access(move: Move) -> Access:
    """Return the source of a move; fills have been replaced by constants."""
    assert isinstance(move.source, Access)
    return move.source


def _order_is_seen(move: Move) -> bool:
    """Whether coordinates of a move may write different values to one byte, so that their order matters."""
    sizes, to, source, element_size = move
    if not to.lookups:
        return False
    if not is_injective(components(to, sizes), element_size):
        return True
    # Coordinates that collide differ only in dimensions of stride 0 in the destination.
    repeated = [d for d, size in enumerate(sizes) if size > 1 and not to.strides[d]]
    ends: list[Access | Lookup] = []
    if isinstance(source, Access):
        ends += [source, *all_lookups(source.lookups)]
    return any(end.strides[d] for end in ends for d in repeated)


def _scatter_launches(move: Move) -> Iterator[Launch]:
    """Yield the launches of a move whose order of writes matters."""
    if is_injective(components(move.destination, move.sizes), move.element_size):
        winners = _by_coordinate(move)
    else:
        move = _in_cells(move)
        winners = _by_address(move)
    recording_move, count = _without_elements(move), winners.entries
    for start in range(0, count, MAX_ENTRIES):
        round_table = winners._replace(
            offset=winners.offset - start,
            entries=min(MAX_ENTRIES, count - start),
            in_rounds=count > MAX_ENTRIES,
        )
        yield clearing_launch(WINNERS, round_table.entries * round_table.entry)
        steps = round_table.steps[: len([*recording_move.all_lookups()])]
        yield Launch((recording_move,), round_table._replace(steps=steps, only_records=True))
        yield Launch((move,), round_table)


def _by_coordinate(move: Move) -> LastWriteTable:
    """Return a table for elements that do not overlap: one entry per element that the destination can reach."""
    sizes, to, _, _ = move
    strides, steps = [0] * len(sizes), [0] * len(to.lookups)
    varying = [(abs(stride), strides, d, size) for d, (size, stride) in enumerate(zip(sizes, to.strides, strict=True))]
    varying += [(abs(lookup.stride), steps, n, lookup.size) for n, lookup in enumerate(to.lookups)]
    count = 1
    # In the order of addresses, so that entries of adjacent elements are adjacent.
    for stride, weights, k, size in sorted(varying, key=lambda entry: entry[0]):
        if stride and size > 1:
            weights[k] = count
            count *= size
    return LastWriteTable(WINNERS, 0, tuple(strides), _steps(move, steps), count, _entry(move))


def _by_address(move: Move) -> LastWriteTable:
    """Return a table of all addresses between the first and the last element, which must coincide or not overlap."""
    sizes, to, _, cell = move
    first, end = byte_range(to, sizes, cell)
    strides = tuple(stride // cell if size > 1 else 0 for size, stride in zip(sizes, to.strides, strict=True))
    steps = _steps(move, [lookup.stride // cell if lookup.size > 1 else 0 for lookup in to.lookups])
    return LastWriteTable(WINNERS, (to.offset - first) // cell, strides, steps, (end - first) // cell, _entry(move))


def _in_cells(move: Move) -> Move:
    """Divide a move's elements so that all coincide or do not overlap; the last writer stays the same."""
    sizes, to, source, size = move
    cell = math.gcd(size, *(stride for length, stride in components(to, sizes) if length > 1))
    if cell == size:
        return move
    assert isinstance(source, Access)

    def longer(access: Access) -> Access:
        return access._replace(strides=(*access.strides, cell), lookups=tuple(map(with_cell_dimension, access.lookups)))

    def with_cell_dimension(lookup: Lookup) -> Lookup:
        nested = tuple(map(with_cell_dimension, lookup.lookups))
        return lookup._replace(strides=(*lookup.strides, 0), lookups=nested)

    return Move((*sizes, size // cell), longer(to), longer(source), cell)


def _without_elements(move: Move) -> Move:
    """Remove the elements from a move, for the launch that finds winners: only lookups that affect writes remain."""
    sizes, to, source, _ = move
    assert isinstance(source, Access)
    skipping = [lookup for lookup in source.lookups if any(inner.outside == "skip" for inner in all_lookups((lookup,)))]

    def only_lookups(lookups: Sequence[Lookup]) -> Access:
        return Access(WINNERS, 0, (0,) * len(sizes), tuple(lookup._replace(stride=0) for lookup in lookups))

    return Move(sizes, only_lookups(to.lookups), only_lookups(skipping), _entry(move))


def _steps(move: Move, index_steps: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of all lookups, in entries of the table, from the strides of the destination's lookups."""
    result: list[int] = []
    for lookup, step in zip(move.destination.lookups, index_steps, strict=True):
        result += [0] * len([*all_lookups(lookup.lookups)])
        result.append(step)
    return (*result, *[0] * (len([*move.all_lookups()]) - len(result)))


def _entry(move: Move) -> int:
    return NARROW_ENTRY if math.prod(move.sizes) < NARROW_NUMBERS else WIDE_ENTRY
