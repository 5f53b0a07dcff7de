"""Parts of tensors that windows contain: whole tensors that follow each other, and shares of larger ones."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.copies import RowTable
from anydml.stores.planning.interval_unions import merge_intervals
from anydml.stores.planning.row_copies import clip_rows
from anydml.stores.planning.windows import APART

PARTS = 4
"""Parts of a tensor in one file that a window has room for, so that little of it stays empty before the next part."""

MAX_ROWS = 1 << 15
"""Maximum number of rows for which several tensors are examined together."""


class PlacedRows(NamedTuple):
    """Rows with offsets in files.

    Attributes:
        tensors: for each row, the number of its tensor, or of its part of a tensor.
        written_files: for each row, the number of the file that it is written to.
        read_files: for each row, the number of the file that it is read from.
        rows: the rows.
    """

    tensors: Numbers
    written_files: Numbers
    read_files: Numbers
    rows: RowTable

    def select(self, selection: Numbers | Array | slice) -> PlacedRows:
        """Return the rows that a NumPy index selects."""
        return PlacedRows(
            self.tensors[selection],
            self.written_files[selection],
            self.read_files[selection],
            self.rows.select(selection),
        )

    @property
    def pieces(self) -> Pieces:
        """The pieces of files that each tensor reads."""
        # A few tensors at a time, because there may be a million rows.
        counts, piece_of_part = np.zeros(int(np.max(self.tensors)) + 1, np.int64), np.empty(self.tensors.size, np.int32)
        for first in range(0, self.tensors.size, MAX_ROWS):
            counts += np.bincount(self.tensors[first : first + MAX_ROWS], minlength=counts.size)
        reached = np.cumsum(counts)
        bounds = np.unique(reached.searchsorted(np.arange(0, self.tensors.size, MAX_ROWS), "right")).tolist()
        all_columns, count = list[list[Numbers]](), 0
        for low, high in pairwise([*bounds, reached.size]):
            numbers = np.flatnonzero((self.tensors >= low) & (self.tensors < high))
            batch = self.select(numbers)
            *columns, piece_of_row = Pieces.of(batch.tensors, batch.read_files, batch.rows.from_, batch.rows.ends)
            piece_of_part[numbers] = piece_of_row + count
            count += columns[0].size
            all_columns.append(columns)
        owners, files, starts, ends = map(np.concatenate, zip(*all_columns, strict=True))
        return Pieces(owners, files, starts, ends, piece_of_part)

    def sizes_of_tensors(self, count: int) -> Numbers:
        """Return the bytes of rows of each tensor below a count."""
        sizes = np.zeros(count, np.int64)
        for first in range(0, self.tensors.size, MAX_ROWS):
            batch = self.select(slice(first, first + MAX_ROWS))
            sizes += np.bincount(batch.tensors, batch.rows.sizes, count).astype(np.int64)
        return sizes


class Pieces(NamedTuple):
    """Pieces of files that are read at once, sorted by owner, file and start.

    Attributes:
        owners: for each piece, the number of its tensor or window.
        files: for each piece, the number of its file.
        starts: for each piece, its offset in the file, in bytes.
        ends: for each piece, the offset of its end.
        piece_of_part: for each part, the number of the piece that contains it.
    """

    owners: Numbers
    files: Numbers
    starts: Numbers
    ends: Numbers
    piece_of_part: Numbers

    @classmethod
    def of(cls, owners: Numbers, files: Numbers, starts: Numbers, ends: Numbers) -> Pieces:
        """Return the pieces that consist of parts, which have the same columns; parts of an owner may overlap."""
        width = int(np.max(files)) + 1
        distinct, position = np.unique(owners.astype(np.int64) * width + files, return_inverse=True)
        # Shifted, so that pairs of owner and file lie one after the other, too far apart to be joined.
        lows, highs = np.full(distinct.size, np.max(ends)), np.zeros(distinct.size, np.int64)
        np.minimum.at(lows, position, starts)
        np.maximum.at(highs, position, ends)
        reached = np.cumsum(highs - lows + APART + 1)
        shift = np.append(0, reached[:-1]) - lows
        moved = shift[position]
        del position
        starts, ends, piece_of_part = merge_intervals(starts + moved, ends + moved, APART)
        key = np.searchsorted(reached, starts, "right")
        return cls(distinct[key] // width, distinct[key] % width, starts - shift[key], ends - shift[key], piece_of_part)

    def sizes_of_owners(self, count: int) -> Numbers:
        """Return the bytes of each owner below a count."""
        return np.bincount(self.owners, self.ends - self.starts, count).astype(np.int64)


def in_parts(placed: PlacedRows, width: int, unit: int) -> tuple[PlacedRows, Pieces]:
    """Renumber tensors in the order of files; a tensor too large for a window gets one number per part.

    The numbers in `placed.tensors` are overwritten.

    Returns:
        The rows with these numbers, and the pieces that they read.
    """
    pieces = placed.pieces
    firsts = np.flatnonzero(np.diff(pieces.owners, prepend=-1))
    new_number = np.zeros(int(pieces.owners[-1]) + 1, np.int32)
    order = np.lexsort((pieces.starts[firsts], pieces.files[firsts]))
    new_number[pieces.owners[firsts][order]] = np.arange(firsts.size)
    for first_row in range(0, placed.tensors.size, MAX_ROWS):
        tensors = placed.tensors[first_row : first_row + MAX_ROWS]
        tensors[:] = new_number[tensors]
    pieces = pieces._replace(owners=new_number[pieces.owners])
    read, written = pieces.sizes_of_owners(firsts.size), placed.sizes_of_tensors(firsts.size)
    # Each part has a share of each piece, so that parts of several pieces are written by shorter requests.
    room = np.where(np.bincount(pieces.owners) == 1, width // PARTS, width)
    parts = np.maximum(1, -(-np.maximum(read, written) // room))
    if parts.max() == 1:
        return placed, pieces
    # Parts end between rows, so that rows of several sources fill what is written together.
    _, counts, _, steps = placed.rows.shapes.T
    units = np.full(pieces.starts.size, unit)
    np.maximum.at(units, pieces.piece_of_part, np.where(counts > 1, steps, unit)[placed.rows.shape])
    is_large = parts[placed.tensors] > 1
    large, piece = placed.select(is_large), pieces.piece_of_part[is_large]
    cuts = _Cuts(parts[large.tensors], pieces.starts[piece], (pieces.ends - pieces.starts)[piece], units[piece])
    first, last = cuts.part_of(large.rows.from_), cuts.part_of(large.rows.ends - 1)
    turns = last - first + 1
    tensor_of_turn = np.repeat(np.arange(turns.size), turns)
    k = first[tensor_of_turn] + np.arange(tensor_of_turn.size) - np.repeat(np.cumsum(turns) - turns, turns)
    ends_of_part = map(cuts.select(tensor_of_turn).start_of, (k, k + 1))
    clipped, numbers = clip_rows(large.rows.select(tensor_of_turn).rows, *ends_of_part)
    tensor_of_turn, k = tensor_of_turn[numbers], k[numbers]
    small, before = placed.select(~is_large), np.cumsum(parts) - parts
    new = RowTable.of(clipped)
    columns = zip(small.rows, new._replace(shape=new.shape + np.int32(len(small.rows.shapes))), strict=True)
    placed = PlacedRows(
        np.concatenate([before[small.tensors], before[large.tensors[tensor_of_turn]] + k]),
        np.concatenate([small.written_files, large.written_files[tensor_of_turn]]),
        np.concatenate([small.read_files, large.read_files[tensor_of_turn]]),
        RowTable(*map(np.concatenate, columns)),
    )
    return placed, placed.pieces


class _Cuts(NamedTuple):
    """The cuts of pieces into parts: a number of parts, and the start, the bytes and the unit of a piece."""

    parts: Numbers
    low: Numbers
    size: Numbers
    unit: Numbers

    def select(self, selection: Numbers) -> _Cuts:
        """Return the cuts that a NumPy index selects."""
        return _Cuts(*(column[selection] for column in self))

    def start_of(self, part: Numbers) -> Numbers:
        """Return the offset at which a part of each piece begins; for the number after the last part, the end."""
        whole_units = self.size * part // self.parts // self.unit * self.unit
        start: Numbers = self.low + np.where(part < self.parts, whole_units, self.size)
        return start

    def part_of(self, offset: Numbers) -> Numbers:
        """Return the number of the part in which an offset of each piece lies."""
        part: Numbers = np.minimum((offset - self.low) * self.parts // self.size, self.parts - 1)
        # Parts begin earlier than in proportion, by less than a unit.
        while (is_later := (part + 1 < self.parts) & (self.start_of(part + 1) <= offset)).any():
            part = part + is_later
        return part


def windows_of(placed: PlacedRows, pieces: Pieces, width: int) -> Numbers:
    """Return the number of the window of each tensor or part; tensors and parts are sorted by number."""
    count = int(np.max(pieces.owners)) + 1
    read, written = pieces.sizes_of_owners(count), placed.sizes_of_tensors(count)
    reached = np.cumsum(np.maximum(read, written))
    begins, first = list[int](), 0
    while first < count:
        begins.append(first)
        base = int(reached[first - 1]) if first else 0
        first = max(first + 1, int(reached.searchsorted(base + width, "right")))
    windows: Numbers = np.searchsorted(begins, np.arange(count), "right") - 1
    return windows
