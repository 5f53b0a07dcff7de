"""Dependencies between moves: which may run concurrently without a visible change of the result.

Two moves depend on each other if one writes bytes that the other reads or writes. This is decided from their accesses
alone; undecided pairs count as dependent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np

from anydml.memory.overlap import Lattice, TooManyPairsError, overlapping_pairs
from anydml.moves.move import Access, Lookup, Move, components

MAX_PAIRS = 20_000
"""Maximum number of pairs of accesses that are compared; a program with more runs its moves in sequence."""

ORIGIN = 1 << 46
"""The address of operands in comparisons."""


def stages(moves: Sequence[Move]) -> list[list[Move]]:
    """Partition moves into stages that run in sequence; the moves of one stage may run in any order or concurrently.

    Args:
        moves: the moves, in program order; distinct operands do not overlap.

    Returns:
        The stages, each in program order. The result equals that of running all moves in sequence.

    Examples:
        >>> from anydml import moves
        >>> copy = moves.Move((3,), moves.Access(1, 0, (4,)), moves.Access(0, 0, (4,)), 4)
        >>> then = moves.Move((3,), moves.Access(2, 0, (4,)), moves.Access(1, 0, (4,)), 4)
        >>> len(moves.stages([copy, then]))
        2
    """
    if len(moves) < 2:
        return [[*moves]] if moves else []
    if _write_different_operands(moves):
        return [[*moves]]
    try:
        earlier_moves = _dependencies(moves)
    except TooManyPairsError:
        return [[move] for move in moves]
    levels: list[int] = []
    for move_number in range(len(moves)):
        levels.append(1 + max((levels[earlier] for earlier in earlier_moves[move_number]), default=-1))
    groups: list[list[Move]] = [[] for _ in range(1 + max(levels))]
    for level, move in zip(levels, moves, strict=True):
        groups[level].append(move)
    return groups


def reads_what_it_writes(move: Move) -> bool:
    """Whether a move may read bytes that it writes."""
    lattices = [lattice for operand, lattice in _accessed_bytes(0, move) if operand == move.destination.operand]
    return any(first.is_written != second.is_written for first, second in overlapping_pairs(lattices))


def may_read_overwritten(moves: Sequence[Move], unmoved: Collection[int], source: int, target: int) -> bool:
    """Whether, if two operands share their memory, a move may read bytes that it or an earlier move overwrites.

    Args:
        moves: the moves, in program order.
        unmoved: numbers of moves that would write every byte to the address that it is read from.
        source: the operand that is read.
        target: the operand that is written.
    """
    lattices = [
        lattice
        for move_number, move in enumerate(moves)
        for operand, lattice in _accessed_bytes(move_number, move)
        if operand == (target if lattice.is_written else source) and not (lattice.is_written and move_number in unmoved)
    ]
    try:
        for pair in overlapping_pairs(lattices, MAX_PAIRS):
            write, read = sorted(pair, key=lambda lattice: not lattice.is_written)
            if not read.is_written and write.number <= read.number:
                return True
    except TooManyPairsError:
        return True
    return False


def _write_different_operands(moves: Sequence[Move]) -> bool:
    """Whether every move writes a different operand, which no move reads: the common case, decided quickly."""
    written = {move.destination.operand for move in moves}
    if len(written) != len(moves):
        return False
    read = set()
    for move in moves:
        if isinstance(move.source, Access):
            read.add(move.source.operand)
        if move.has_lookups:
            read.update([lookup.operand for lookup in move.all_lookups()])
    return written.isdisjoint(read)


def _accessed_bytes(move_number: int, move: Move) -> list[tuple[int, Lattice]]:
    """Return the bytes that a move writes and reads, with any indices, and their operands."""
    sizes, to, source, element_size = move
    if 0 in sizes or not element_size:
        return []

    def lattice(access: Access | Lookup, is_written: bool, size: int) -> tuple[int, Lattice]:
        dimensions = [(stride, count) for count, stride in components(access, sizes)]
        return access.operand, Lattice.of(ORIGIN + access.offset, size, dimensions, move_number, is_written)

    lattices = [lattice(to, True, element_size)]
    if isinstance(source, Access):
        lattices.append(lattice(source, False, element_size))
    return lattices + [lattice(lookup, False, np.dtype(lookup.dtype).itemsize) for lookup in move.all_lookups()]


def _dependencies(moves: Sequence[Move]) -> dict[int, set[int]]:
    """Return, for each move, the earlier moves that it depends on."""
    by_operand: dict[int, list[Lattice]] = defaultdict(list)
    for move_number, move in enumerate(moves):
        for operand, lattice in _accessed_bytes(move_number, move):
            by_operand[operand].append(lattice)
    earlier_moves: dict[int, set[int]] = defaultdict(set)
    for lattices in by_operand.values():
        for first, second in overlapping_pairs(lattices, MAX_PAIRS):
            if first.number != second.number:
                earlier_moves[max(first.number, second.number)].add(min(first.number, second.number))
    return earlier_moves
