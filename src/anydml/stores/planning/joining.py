"""Outputs that are adjacent in a file and share an interval, with copies and moves for many at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from anydml.moves import Access, Fill, Move, extent, simplify
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.alike import AlikeMoves
from anydml.stores.planning.copies import MAX_SINGLE_COPIES, RunCopies
from anydml.stores.planning.intervals import Interval, Places
from anydml.stores.planning.transfers import listed

FEW_RUNS = 32
"""Runs up to which those of many moves are rows, which take no more memory than the moves, and less time."""


class JoinedOutputs(NamedTuple):
    """Outputs that are adjacent in a file, and share an interval.

    Attributes:
        alone: numbers of the other outputs.
        moves: to the shared intervals.
        rows: likewise.
        intervals: by number.
    """

    alone: set[int]
    moves: list[Move]
    rows: list[RunCopies]
    intervals: dict[int, Interval]


class _Writers(NamedTuple):
    """What writes outputs that are alike, each as a whole: moves in their order, or runs alone.

    Attributes:
        moves: none where there are runs.
        runs: of inputs, by their places in the output: that place, the input's number in a set, the place in it, and
            bytes.
        sets: as of `AlikeMoves`.
        output: number of the output in a set.
    """

    moves: tuple[Move, ...]
    runs: tuple[tuple[int, int, int, int], ...]
    sets: Numbers
    output: int

    @property
    def outputs(self) -> Numbers:
        """Their numbers."""
        return self.sets[:, self.output]

    def some(self, which: Array) -> _Writers:
        """Those of some outputs."""
        return self if which.all() else self._replace(sets=self.sets[which])


def _writers(alike: Sequence[AlikeMoves], places: Places) -> Iterator[tuple[_Writers, bool]]:
    """What writes outputs; and whether all of it is read from inputs."""
    for moves, sets in alike:
        by_output: dict[int, list[Move]] = {}
        for move in moves:
            by_output.setdefault(move.destination.operand, []).append(move)
        for output, output_moves in by_output.items():
            are_read = [
                isinstance(move.source, Access) and move.source.operand < sets.shape[1] for move in output_moves
            ]
            is_sound = all(
                sets[0, move.reads.operand] < places.inputs
                for move, is_read in zip(output_moves, are_read, strict=True)
                if is_read
            )
            runs = [(move.destination.offset, move.reads.operand, move.reads.offset, move.element_size)
                    for move, is_read in zip(output_moves, are_read, strict=True)
                    if is_read and not move.sizes]  # fmt: skip
            runs.sort()
            if len(runs) < len(output_moves) or not _are_whole(runs, int(places.size[sets[0, output]])):
                runs = []
            yield _Writers(() if runs else tuple(output_moves), tuple(runs), sets, output), is_sound


def joined(
    alike: Sequence[AlikeMoves], taken: Iterable[int], places: Places, first: int, max_bytes: int
) -> JoinedOutputs:
    """Join outputs that consist of runs of inputs, which become rows, and small outputs, with moves for many at once.

    Args:
        alike: all moves, simplified, without lookups; an output is in one set.
        taken: numbers of outputs that other moves write as well.
        places: of all arrays.
        first: number of the first new operand.
        max_bytes: of a small output.
    """
    are_alone = np.zeros(places.size.size, bool)
    are_alone[[*taken]] = True
    by_file: dict[int, list[_Writers]] = {}
    for writers, is_sound in _writers(alike, places):
        outputs = writers.outputs
        are_alone[outputs] |= not is_sound or (bool(writers.moves) & (places.size[outputs] > max_bytes))
        files = np.where(are_alone[outputs], -1, places.file[outputs])
        for number in np.unique(files[files >= 0]).tolist():
            by_file.setdefault(number, []).append(writers.some(files == number))
    joined_outputs = JoinedOutputs({*np.flatnonzero(are_alone).tolist()}, [], [], {})
    moves = list[Move]()
    for of_file in by_file.values():
        moves += _join_file(of_file, places, first, joined_outputs)
    return joined_outputs._replace(moves=[*simplify(moves)])


def _are_whole(runs: Sequence[tuple[int, int, int, int]], size: int) -> bool:
    """Whether sorted runs write every byte exactly once."""
    end = 0
    for to, _, _, length in runs:
        if to != end:
            return False
        end += length
    return end == size


GroupAndFile = tuple[int, int]
"""Numbers of a group of outputs and of the file that it is read from; −1 for no file."""


def _join_file(writers: Sequence[_Writers], places: Places, first: int, outputs: JoinedOutputs) -> Iterator[Move]:
    """Join outputs of one file: add rows and intervals to what was found, and return moves."""
    groups = _groups(np.concatenate([writer.outputs for writer in writers]), places)
    wholes = [places.interval(int(group[0]), int(group[-1])) for group in groups]
    ends_of = np.array([places.offset[group[-1]] for group in groups])
    spaced = [*_spaced(writers, places, ends_of)]
    are_many = sum(len(copies.parts) for copies in spaced) > MAX_SINGLE_COPIES
    are_rows = [are_many and copies.are_few_runs for copies in spaced]
    runs = [copies for copies, is_row in zip(spaced, are_rows, strict=True) if is_row]
    copied = [*_sorted(chain(_runs(writers, places, ends_of), map(_SpacedMoves.runs, runs)))]
    others = [own for copies, is_row in zip(spaced, are_rows, strict=True) if not is_row for own in copies.moves()]
    ends = [(*key, int(np.min(at)), int(np.max(at + lengths))) for key, _, at, lengths in copied]
    ends += [(*key, *extent(move.reads, move.sizes, move.element_size)) for key, move in others if key[1] >= 0]
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for group, file, low, high in ends:
        known = spans.get((group, file), (low, high))
        spans[group, file] = min(low, known[0]), max(high, known[1])
    first += len(outputs.intervals)
    outputs.intervals.update((first + k, interval) for k, interval in enumerate(wholes))
    numbers = {key: number for number, key in enumerate(spans, first + len(wholes))}
    for (group, file), (low, high) in spans.items():
        outputs.intervals[numbers[group, file]] = places.part(file, low, high - low, wholes[group].unit)
    for key, to, at, lengths in copied:
        to, at = to - wholes[key[0]].offset, at - spans[key][0]  # noqa: PLW2901
        outputs.rows.append(RunCopies(first + key[0], numbers[key], to, at, lengths))
    for key, move in others:
        end, source = move.destination, move.source
        if key[1] >= 0:
            source = move.reads._replace(operand=numbers[key], offset=move.reads.offset - spans[key][0])
        end = end._replace(operand=first + key[0], offset=end.offset - wholes[key[0]].offset)
        yield move._replace(destination=end, source=source)


_Runs = tuple[Numbers, ...]
"""Numbers of the group and the file that is read, offsets in both files, and bytes, of copies."""


def _runs(writers: Iterable[_Writers], places: Places, ends_of: Numbers) -> Iterator[_Runs]:
    """Copies to outputs that consist of runs."""
    for writer in writers:
        offsets = places.offset[writer.outputs]
        group: Numbers = np.searchsorted(ends_of, offsets).astype(np.int32)
        for first, source, inside, length in writer.runs:
            store = writer.sets[:, source]
            read = places.offset[store] + inside
            yield group, places.file[store], offsets + first, read, np.full(offsets.size, length)


def _sorted(runs: Iterable[_Runs]) -> Iterator[tuple[GroupAndFile, Numbers, Numbers, Numbers]]:
    """Offsets in files, and lengths, of copies between a group and a file."""
    columns = [*zip(*runs, strict=True)]
    if not columns:
        return
    # Each column is freed when it is joined, because there may be a million runs.
    group, file, to, at, lengths = (np.concatenate(columns.pop(0)) for _ in range(len(columns)))
    order = np.lexsort((to, file, group))
    begins = np.flatnonzero((np.diff(group[order], prepend=-1) != 0) | (np.diff(file[order], prepend=-1) != 0))
    for some in np.split(order, begins)[1:]:
        yield (int(group[some[0]]), int(file[some[0]])), *_continued(to[some], at[some], lengths[some])


class _SpacedMoves(NamedTuple):
    """A move to each of some outputs, sorted by group, file and offset.

    Attributes:
        move: with offsets of 0.
        group: numbers of the groups.
        file: numbers of the files that are read; −1 for none.
        to: offsets in the file that is written.
        at: offsets in the file that is read, or in a constant.
        parts: those that are evenly spaced, and so one move: the first, and the number of each.
    """

    move: Move
    group: Numbers
    file: Numbers
    to: Numbers
    at: Numbers
    parts: list[tuple[int, int]]

    @property
    def are_few_runs(self) -> bool:
        """Whether they read a file by few runs each."""
        return bool(self.file[0] >= 0) and self.to.size * math.prod(self.move.sizes) <= FEW_RUNS * len(self.parts)

    def runs(self) -> _Runs:
        """The same as copies."""
        sizes, end, source, length = self.move.sizes, self.move.destination, self.move.reads, self.move.element_size
        to, at = listed(0, sizes, end.strides), listed(0, sizes, source.strides)
        group, file = (np.repeat(column, to.size) for column in (self.group, self.file))
        places = ((column[:, None] + steps).reshape(-1) for column, steps in ((self.to, to), (self.at, at)))
        return group, file, *places, np.full(group.size, length)

    def moves(self) -> Iterator[tuple[GroupAndFile, Move]]:
        """Moves with offsets in files."""
        sizes, end, source, length = self.move
        for k, count in self.parts:
            step, read_step = (int(offsets[k + 1] - offsets[k]) if count > 1 else 0 for offsets in (self.to, self.at))
            written = end._replace(offset=int(self.to[k]), strides=(step, *end.strides))
            read = (
                source
                if isinstance(source, Fill)
                else source._replace(offset=int(self.at[k]), strides=(read_step, *source.strides))
            )
            yield (int(self.group[k]), int(self.file[k])), Move((count, *sizes), written, read, length)


def _spaced(writers: Iterable[_Writers], places: Places, ends_of: Numbers) -> Iterator[_SpacedMoves]:
    """The moves to outputs that do not consist of runs."""
    for moves, _, sets, _ in writers:
        for move in moves:
            end, source = move.destination, move.source
            is_read = isinstance(source, Access) and source.operand < sets.shape[1]
            output, store = sets[:, end.operand], sets[:, move.reads.operand if is_read else end.operand]
            group: Numbers = np.searchsorted(ends_of, places.offset[output]).astype(np.int32)
            to = places.offset[output] + end.offset
            file, at = np.full(store.size, -1), np.zeros_like(to)
            if is_read:
                file, at = places.file[store], places.offset[store] + move.reads.offset
            elif isinstance(source, Access):
                # Constants follow all arrays.
                at += source.offset
                source = source._replace(operand=source.operand - sets.shape[1] + places.size.size)
            order = np.lexsort((to, file, group))
            group, file, to, at = (column[order] for column in (group, file, to, at))
            parts = [*_even(group, file, to, at)]
            yield _SpacedMoves(move._replace(source=source), group, file, to, at, parts)


def _even(group: Numbers, file: Numbers, to: Numbers, at: Numbers) -> Iterator[tuple[int, int]]:
    """Runs of evenly spaced pairs of offsets of one group and file: the first, and the number of each."""
    are_close = (np.diff(group) == 0) & (np.diff(file) == 0)
    goes_on = are_close[1:] & are_close[:-1] & (np.diff(to, 2) == 0) & (np.diff(at, 2) == 0)
    stops = iter([*(np.flatnonzero(~goes_on) + 1).tolist(), to.size - 1])
    first, stop = 0, 0
    while first < to.size:
        last = first
        if first + 1 < to.size and are_close[first]:
            while stop <= first:
                stop = next(stops)
            last = stop
        yield first, last - first + 1
        first = last + 1


def _groups(operands: Numbers, places: Places) -> list[Numbers]:
    """Groups of operands that are adjacent in a file, or with known bytes between, and have elements of one size."""
    order = operands[np.lexsort((places.offset[operands], places.file[operands]))]
    file, offset, size, unit = (column[order] for column in places[1:5])
    goes_on = (file[1:] == file[:-1]) & (unit[1:] == unit[:-1])
    goes_on &= places.are_filled(file[1:], (offset + size)[:-1], offset[1:])
    return np.split(order, np.flatnonzero(~goes_on) + 1) if order.size else []


def _continued(to: Numbers, at: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Copies in order; copies that are contiguous at both ends are merged."""
    goes_on = (to[1:] == (to + lengths)[:-1]) & (at[1:] == (at + lengths)[:-1])
    firsts = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    return to[firsts], at[firsts], np.add.reduceat(lengths, firsts)
