"""Blocks of plain files: the requests of each block, and the moves between its buffers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from anydml.moves import Access, Move
from anydml.moves.dependencies import stages
from anydml.moves.move import byte_range
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Array
from anydml.stores.planning.block_shapes import offset_of, requests, sizes_of
from anydml.stores.planning.copies import Rows, RunCopies, copies_of_block
from anydml.stores.planning.cutting import Side, can_be_cut, end_of, split_move, with_end, with_pitch
from anydml.stores.planning.regions import access_in_box
from anydml.stores.planning.row_copies import RowCopies
from anydml.stores.planning.transfers import (
    Transfer,
    combined_requests,
    coordinate_offsets,
    direct_requests,
    merge_adjacent_writes,
    round_to_cache_lines,
    transfer_of,
)
from anydml.stores.planning.windows import Windows, window_io
from anydml.tensor import Layout


class Cut(NamedTuple):
    """The cut of moves into blocks.

    Attributes:
        side: the side of the moves whose files are cut, so that each byte of these is in exactly one block.
        pitch: bytes per row of these files; 0 if blocks are intervals.
        gap: largest number of unneeded bytes between two runs that one request reads.
        height: rows per block; 1 without a pitch.
        width: bytes per row of a block.
    """

    side: Side
    pitch: int
    gap: int
    height: int
    width: int

    @property
    def block(self) -> tuple[int, ...]:
        """Sizes of a block."""
        return (self.height, self.width) if self.pitch else (self.width,)

    def view(self, size: int) -> Layout:
        """Return the rows and columns of a file of a number of bytes; without a pitch, only the bytes."""
        return Layout.packed((size // self.pitch, self.pitch) if self.pitch else (size,), 1)


class BlockIO(NamedTuple):
    """The requests and moves of a block.

    Attributes:
        reads: reads into the read buffer; direct ones go into the write buffer.
        moves: moves from operand 0, the read buffer, to operand 1, the write buffer; constants follow.
        writes: writes from the write buffer; direct ones come from the read buffer.
        sizes: bytes of both buffers.
        is_covered: whether every byte of the write buffer is written.
        copied: copies between the buffers after the moves; within the write buffer if there is no read buffer.
        known: places of known bytes in the write buffer.
    """

    reads: tuple[Transfer, ...]
    moves: tuple[Move, ...]
    writes: tuple[Transfer, ...]
    sizes: tuple[int, int]
    is_covered: bool
    copied: Rows | None = None
    known: tuple[Transfer, ...] = ()

    @property
    def places(self) -> int:
        """The approximate number of integers that the block's description contains."""
        rows = 0 if self.copied is None else self.copied.to.size
        return rows + len(self.moves) + sum(transfer.buffer_offsets.size for transfer in (*self.reads, *self.writes))

    @property
    def requests(self) -> int:
        """Reads and writes."""
        return sum(transfer.file_offsets.size for transfer in (*self.reads, *self.writes))

    @property
    def buffer_bytes(self) -> int:
        """Bytes of both buffers."""
        return sum(self.sizes)


@dataclass(frozen=True)
class MoveGroup:
    """Moves that share files with each other, but not with other moves. Groups of other files may be equal.

    Attributes:
        moves: the moves, in order, without lookups.
        sizes: bytes of each operand; −1 for constants.
        units: bytes of an element, by operand.
        copies: copies, which write other bytes than the moves.
        divided: copies from windows, in a group without moves and other copies.
        windows: the windows.
    """

    moves: tuple[Move, ...]
    sizes: tuple[int, ...]
    units: tuple[int, ...]
    copies: tuple[RunCopies, ...] = ()
    divided: tuple[RowCopies, ...] = ()
    windows: Windows | None = None

    @cached_property
    def is_ordered(self) -> bool:
        """Whether a move may overwrite the result of another."""
        return len(stages(self.moves)) > 1

    @cached_property
    def sides(self) -> tuple[Side, ...]:
        """The sides of the moves by which the group can be cut."""
        sides: list[Side] = []
        if not self.divided and all(can_be_cut(move, "destination") for move in self.moves):
            sides.append("destination")
        if (
            not self.copies
            and not self.is_ordered
            and all(can_be_cut(move, "source") for move in self.moves)
            and not any(self.sizes[move.reads.operand] < 0 for move in self.moves)
        ):
            sides.append("source")
        return tuple(sides)

    @property
    def constants(self) -> list[int]:
        """Numbers of the constants."""
        return [k for k, size in enumerate(self.sizes) if size < 0]

    def operands(self, side: Side) -> list[int]:
        """Return the operands in files on one side."""
        if self.divided:
            return sorted({rows.source for rows in self.divided})
        return sorted(
            {*(end_of(move, side).operand for move in self.moves), *(copy.destination for copy in self.copies)}
        )

    @cached_property
    def last_block(self) -> dict[str, Any]:
        """The block that `choosing` examined last."""
        return {}

    @cached_property
    def _prepared_moves(self) -> dict[tuple[Side, int, int], tuple[list[Move], Array] | None]:
        return {}

    def moves_at(self, side: Side, operand: int, pitch: int) -> tuple[list[Move], Array] | None:
        """Return an operand's moves, prepared for a cut with a pitch, and the range of bytes that each touches.

        None if the moves do not fit the pitch.
        """
        key = side, operand, pitch
        if key not in self._prepared_moves:
            moves: list[Move] | None = []
            for move in self.moves:
                if end_of(move, side).operand == operand and moves is not None:
                    pitched_move = with_pitch(move, side, pitch) if pitch else move
                    if pitched_move is None:
                        moves = None
                    else:
                        moves.append(pitched_move)
            self._prepared_moves[key] = None if moves is None else (moves, _extents(moves, side))
        return self._prepared_moves[key]


def _extents(moves: Sequence[Move], side: Side) -> Array:
    spans = [byte_range(end_of(move, side), move.sizes, move.element_size) for move in moves]
    return np.array(spans, np.int64).reshape(-1, 2)


def block_io(group: MoveGroup, cut: Cut, operand: int, area: Box) -> BlockIO:
    """Return the requests and moves of a block."""
    if group.divided:
        return _window_io(group, area)
    side = cut.side
    group_moves = group.moves_at(side, operand, cut.pitch)
    if group_moves is None:
        raise AssertionError(f"{cut} does not fit")
    moves, extents = group_moves
    view, sizes = cut.view(group.sizes[operand]), sizes_of(area)
    low, high = (end * view.strides[0] for end in area[0])
    near_moves = np.flatnonzero((extents[:, 0] < high) & (extents[:, 1] > low))
    element_count, strides = math.prod(sizes), Layout.packed(sizes, 1).strides
    inside = [
        with_end(part, side, access_in_box(end_of(part, side), part.sizes, view, area, strides, operand))
        for read_number in near_moves
        for part in split_move(moves[read_number], side, view.strides[:-1], area)
    ]
    written = sum(move.bytes_written for move in inside)
    are_read = [isinstance(move.source, Access) and group.sizes[move.source.operand] >= 0 for move in inside]
    straight = [
        direct_requests(move, _opposite(side))
        if is_read and not group.is_ordered and 0 not in move.reads.strides
        else None
        for move, is_read in zip(inside, are_read, strict=True)
    ]
    transfers = [transfer for transfer in straight if transfer is not None]
    staged_numbers = [k for k, transfer in enumerate(straight) if transfer is None]
    inside = [inside[k] for k in staged_numbers]
    numbers_of_reads = [read_number for read_number, k in enumerate(staged_numbers) if are_read[k]]
    gap = cut.gap if side == "destination" else None
    if side == "source":
        transfers = [*merge_adjacent_writes(transfers)]
    staged, staged_moves, used = combined_requests([inside[k] for k in numbers_of_reads], _opposite(side), gap)
    transfers += staged
    for k, move in zip(numbers_of_reads, staged_moves, strict=True):
        inside[k] = move
    level, count, length = requests(view, area, False)
    rows = coordinate_offsets(offset_of(area, view.strides), sizes[:level], view.strides[:level])
    transfer = transfer_of(operand, rows, np.arange(count, dtype=np.int64) * length, length)
    constants = {read_number: 2 + k for k, read_number in enumerate(group.constants)}
    own_moves = tuple(_renumber(move, constants) for move in inside)
    if side == "destination":
        copied = None
        if operand_copies := [copy for copy in group.copies if copy.destination == operand]:
            spans, copied, used = copies_of_block(operand_copies, *area[0], cut.gap, used)
            written += sum(span.kept_bytes for span in spans if span.is_direct) + int(copied.lengths.sum())
            transfers += spans
        is_covered = written == element_count and not group.is_ordered
        return BlockIO(
            tuple(transfers), own_moves, (transfer,), (used, round_to_cache_lines(element_count)), is_covered, copied
        )
    return BlockIO((transfer,), own_moves, tuple(transfers), (round_to_cache_lines(element_count), used), True)


def _window_io(group: MoveGroup, area: Box) -> BlockIO:
    """Return the requests and copies of a block of windows."""
    low, high = area[0]
    assert group.windows is not None
    io = window_io(group.divided, group.windows, low, high)
    return BlockIO(io.reads, (), io.writes, (0, io.size), True, io.copied, io.known)


def _opposite(side: Side) -> Side:
    return "source" if side == "destination" else "destination"


def _renumber(move: Move, constants: Mapping[int, int]) -> Move:
    """Return the move between the two buffers, each of which is one operand."""
    to = move.destination._replace(operand=1)
    source = move.source
    if isinstance(source, Access):
        source = source._replace(operand=constants.get(source.operand, 0))
    return Move(move.sizes, to, source, move.element_size)
