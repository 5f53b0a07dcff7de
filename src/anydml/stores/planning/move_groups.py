"""The moves of a program between files, in groups that share no file."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from anydml.errors import BindingError
from anydml.moves import Access, Move
from anydml.moves.move_numbers import renumber_operands
from anydml.moves.simplify import simplify
from anydml.stores.formats.store import Array, Store
from anydml.stores.formats.targets import Targets
from anydml.stores.planning.blocks import MoveGroup
from anydml.stores.planning.copies import RunCopies
from anydml.stores.planning.intervals import Interval, Places
from anydml.stores.planning.joining import join_outputs
from anydml.stores.planning.known_lookups import reader_of, resolve_lookups
from anydml.stores.planning.repeated_moves import CompactProgram, RepeatedMoves
from anydml.stores.planning.row_copies import RowCopies
from anydml.stores.planning.windows import Windows

MAX_SHARED_OUTPUT = 1 << 20
"""Maximum size in bytes of an output that shares blocks with others."""

MIN_FREE = 16 << 20
"""Minimum memory for windows from which outputs in several files are written."""

SPARE_OF_WINDOW = 64 << 10
"""Extra bytes of a buffer for a window, because reads and writes are aligned to pages."""


class MoveGroupInstance(NamedTuple):
    """A group of moves between files.

    Attributes:
        distinct_number: the number of the group in `MoveGroups.distinct`.
        operands: for each operand, the number of its interval or constant.
    """

    distinct_number: int
    operands: tuple[int, ...]


class MoveGroups(NamedTuple):
    """The moves of a program, in groups that share no operand.

    Attributes:
        distinct: groups that differ in more than their operands.
        groups: all groups.
        intervals: intervals of files, by the numbers of operands.
        constants: bytes, by the numbers of operands.
    """

    distinct: list[MoveGroup]
    groups: list[MoveGroupInstance]
    intervals: dict[int, Interval]
    constants: dict[int, Array]


def move_groups_of(
    program: CompactProgram,
    inputs: Sequence[Store],
    outputs: Targets,
    free: int,
    max_block_bytes: int,
    max_divided: int | None,
) -> MoveGroups:
    """Return the moves of a program in groups.

    Args:
        program: the program.
        inputs: the stores.
        outputs: the targets.
        free: bytes of memory, in which indices in inputs must fit.
        max_block_bytes: the maximum size in bytes of the buffers of a block.
        max_divided: as in `join_outputs`.
    """
    count = len(inputs) + len(outputs)
    places = Places.of(inputs, outputs)
    constants = {k: value.reshape(-1).view(np.uint8) for k, value in enumerate(program.program.constants, count)}

    tables: list[RunCopies] = []
    repeated = program.repeated_moves
    if any(move.has_lookups for group in repeated for move in group.moves):
        # Moves with lookups write no byte twice, because the pieces of a value do not overlap.
        reader = reader_of(program.name, inputs, constants, free)
        all_moves = [*resolve_lookups(program.with_all_moves(inputs, outputs), reader)]
        moves_once = simplify(move for move in all_moves if isinstance(move, Move))
        repeated = [RepeatedMoves(moves_once, np.arange(count)[None])]
        tables = [entry for entry in all_moves if isinstance(entry, RunCopies)]
    lookup_outputs = {table.destination for table in tables}
    # A window is read into one buffer, and may be written from another buffer.
    max_window = max_block_bytes // 2 - SPARE_OF_WINDOW if free >= MIN_FREE else 0
    alone, joined_moves, copies, intervals, windows = join_outputs(
        repeated,
        lookup_outputs,
        places,
        count + len(constants),
        min(MAX_SHARED_OUTPUT, free // 16),
        max_window,
        max_divided,
    )
    single_moves = [*program._replace(repeated_moves=repeated).moves(count, alone)]
    intervals |= {k: places.interval(k, k) for k in _operands_of(single_moves, tables) if k < count}
    groups, alike_to = MoveGroups([], [], intervals, constants), dict[Hashable, int]()
    sized: dict[int, Interval | Windows] = {**intervals, **windows}
    for group_moves, rows in _independent_groups([*single_moves, *joined_moves], [*tables, *copies], sized):
        if any(isinstance(move.source, Access) and len(inputs) <= move.source.operand < count for move in group_moves):
            raise BindingError(
                f"{program.name}: it reads its own output, which plans over files do not support: use a fused function"
            )
        used = _operands_of(group_moves, rows)
        of_group = [windows[k] for k in used & windows.keys()]
        operands = tuple(sorted(used.union(*(window.operands for window in of_group))))
        numbers = {operand: k for k, operand in enumerate(operands)}
        moves = tuple(renumber_operands(move, numbers) for move in group_moves)
        bytes_of = tuple(sized[k].size if k in sized else -1 for k in operands)
        units = tuple(sized[k].unit if k in sized else 0 for k in operands)
        own_rows = [replace(row, destination=numbers[row.destination], source=numbers[row.source]) for row in rows]
        # The layers of a model differ only in their files.
        own_windows = next((window.with_operands(numbers) for window in of_group), None)
        key = moves, bytes_of, units, own_windows and own_windows.state(), *(row.state() for row in own_rows)
        if key not in alike_to:
            alike_to[key] = len(groups.distinct)
            copies_of_group = tuple(row for row in own_rows if isinstance(row, RunCopies))
            divided = tuple(row for row in own_rows if isinstance(row, RowCopies))
            groups.distinct.append(MoveGroup(moves, bytes_of, units, copies_of_group, divided, own_windows))
        groups.groups.append(MoveGroupInstance(alike_to[key], operands))
    return groups


def _operands_of(moves: Iterable[Move], rows: Iterable[RunCopies | RowCopies]) -> set[int]:
    """Return numbers of the operands of moves and rows."""
    used = {operand for row in rows for operand in (row.destination, row.source)}
    for move in moves:
        used.add(move.destination.operand)
        if isinstance(move.source, Access):
            used.add(move.source.operand)
    return used


def _independent_groups(
    moves: Iterable[Move], rows: Iterable[RunCopies | RowCopies], files: Iterable[int]
) -> list[tuple[list[Move], list[RunCopies | RowCopies]]]:
    """Return moves and rows, in order, in groups that share no operand in a file."""
    leader = {k: k for k in files}

    def find(k: int) -> int:
        while leader[k] != k:
            leader[k] = leader[leader[k]]
            k = leader[k]
        return k

    moves, rows = [*moves], [*rows]
    for move in moves:
        if isinstance(move.source, Access) and move.source.operand in leader:
            leader[find(move.source.operand)] = find(move.destination.operand)
    for row in rows:
        leader[find(row.source)] = find(row.destination)
    groups: dict[int, tuple[list[Move], list[RunCopies | RowCopies]]] = {}
    for move in moves:
        groups.setdefault(find(move.destination.operand), ([], []))[0].append(move)
    for row in rows:
        groups.setdefault(find(row.destination), ([], []))[1].append(row)
    return [*groups.values()]
