"""Merges outputs that are adjacent in a file into one interval, so that one copy or move serves many tensors."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from anydml.moves import Move, byte_range, simplify
from anydml.moves.dependencies import stages
from anydml.stores.formats.store import Numbers
from anydml.stores.planning.copies import MAX_SINGLE_COPIES, RunCopies
from anydml.stores.planning.dividing import divide
from anydml.stores.planning.intervals import Interval, Places
from anydml.stores.planning.repeated_moves import RepeatedMoves
from anydml.stores.planning.row_copies import RowCopies
from anydml.stores.planning.spaced_moves import GroupAndFile, Runs, SpacedMoves, spaced_moves
from anydml.stores.planning.windows import Windows
from anydml.stores.planning.writers import Writers, writers_of


class JoinedOutputs(NamedTuple):
    """Outputs that are adjacent in a file and share an interval.

    Attributes:
        alone: numbers of the other outputs.
        moves: moves to the shared intervals.
        rows: rows to the shared intervals.
        intervals: the intervals by number.
        windows: windows that rows read, by number.
    """

    alone: set[int]
    moves: list[Move]
    rows: list[RunCopies | RowCopies]
    intervals: dict[int, Interval]
    windows: dict[int, Windows]


def join_outputs(
    alike: Sequence[RepeatedMoves],
    lookup_outputs: Collection[int],
    places: Places,
    first: int,
    max_bytes: int,
    max_window: int,
    max_divided: int | None,
) -> JoinedOutputs:
    """Join outputs that consist of runs of inputs, which become rows, and small outputs, with moves for many at once.

    Outputs in several files, such as those of ranks, are written from windows of their sources instead.

    Args:
        alike: all moves, simplified, without lookups; each output is in one set.
        lookup_outputs: numbers of outputs that other moves also write.
        places: the places of all arrays.
        first: number of the first new operand.
        max_bytes: the maximum size in bytes of a small output.
        max_window: the maximum size in bytes of a window; 0 for none.
        max_divided: the maximum size in bytes of an output that is written from windows; None for any.
    """
    are_alone = np.zeros(places.arrays, bool)
    are_alone[[*lookup_outputs]] = True
    by_file: dict[int, list[Writers]] = {}
    all_writers = [*writers_of(alike, places)]
    copying = [
        writers if not lookup_outputs else writers.of_outputs(~are_alone[writers.outputs])
        for writers, is_sound in all_writers
        if is_sound and writers.are_copies and max_window and len(stages(writers.moves)) < 2
    ]
    divided = divide(copying, places, first, max_window, max_divided)
    are_divided = np.zeros(places.arrays, bool)
    are_divided[divided.outputs] = True
    for all_of_group, is_sound in all_writers:
        are_done = are_divided[all_of_group.outputs]
        if are_done.all():
            continue
        writers = all_of_group.of_outputs(~are_done)
        outputs = writers.outputs
        are_alone[outputs] |= not is_sound or (bool(writers.moves) & (places.size(outputs) > max_bytes))
        files = np.where(are_alone[outputs], -1, places.file[outputs])
        for file_number in np.unique(files[files >= 0]).tolist():
            by_file.setdefault(file_number, []).append(writers.of_outputs(files == file_number))
    alone = {*np.flatnonzero(are_alone & ~are_divided).tolist()}
    joined_outputs, moves = JoinedOutputs(alone, [], [*divided.rows], divided.intervals, divided.windows), list[Move]()
    # The numbers of windows follow the numbers of intervals.
    first += len(divided.windows)
    for of_file in by_file.values():
        moves += _join_file(of_file, places, first, joined_outputs)
    return joined_outputs._replace(moves=[*simplify(moves)])


def _join_file(writers: Sequence[Writers], places: Places, first: int, outputs: JoinedOutputs) -> Iterator[Move]:
    """Join the outputs of one file: add rows and intervals to those of earlier files, and return the moves."""
    groups = _groups(np.concatenate([writer.outputs for writer in writers]), places)
    group_intervals = [places.interval(int(group[0]), int(group[-1])) for group in groups]
    ends_of = np.array([places.offset[group[-1]] for group in groups])
    spaced = [*spaced_moves((writer for writer in writers if writer.moves), places,
                       lambda outputs: np.searchsorted(ends_of, places.offset[outputs]).astype(np.int32),
                       lambda inputs: places.file[inputs])]  # fmt: skip
    are_many = sum(len(copies.parts) for copies in spaced) > MAX_SINGLE_COPIES
    are_rows = [are_many and copies.has_few_runs for copies in spaced]
    runs = [copies for copies, is_row in zip(spaced, are_rows, strict=True) if is_row]
    copied = [*_sort(chain(_runs(writers, places, ends_of), map(SpacedMoves.runs, runs)))]
    other_moves = [
        move for copies, is_row in zip(spaced, are_rows, strict=True) if not is_row for move in copies.moves()
    ]
    ends = [(*key, int(np.min(from_)), int(np.max(from_ + lengths))) for key, _, from_, lengths in copied]
    ends += [(*key, *byte_range(move.reads, move.sizes, move.element_size)) for key, move in other_moves if key[1] >= 0]
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for group, file, low, high in ends:
        span = spans.get((group, file), (low, high))
        spans[group, file] = min(low, span[0]), max(high, span[1])
    first += len(outputs.intervals)
    outputs.intervals.update((first + k, interval) for k, interval in enumerate(group_intervals))
    numbers = {key: span_number for span_number, key in enumerate(spans, first + len(group_intervals))}
    for (group, file), (low, high) in spans.items():
        outputs.intervals[numbers[group, file]] = places.part(file, low, high - low, group_intervals[group].unit)
    for key, to, from_, lengths in copied:
        to, from_ = to - group_intervals[key[0]].offset, from_ - spans[key][0]  # noqa: PLW2901
        outputs.rows.append(RunCopies(first + key[0], numbers[key], to, from_, lengths))
    for key, move in other_moves:
        end, source = move.destination, move.source
        if key[1] >= 0:
            source = move.reads._replace(operand=numbers[key], offset=move.reads.offset - spans[key][0])
        end = end._replace(operand=first + key[0], offset=end.offset - group_intervals[key[0]].offset)
        yield move._replace(destination=end, source=source)


def _runs(writers: Iterable[Writers], places: Places, ends_of: Numbers) -> Iterator[Runs]:
    """Yield copies to outputs that consist of runs."""
    for writer in writers:
        offsets = places.offset[writer.outputs]
        group: Numbers = np.searchsorted(ends_of, offsets).astype(np.int32)
        for first, source, inside, length in writer.runs:
            store = writer.sets[:, source]
            read = places.offset[store] + inside
            yield group, places.file[store], offsets + first, read, np.full(offsets.size, length)


def _sort(runs: Iterable[Runs]) -> Iterator[tuple[GroupAndFile, Numbers, Numbers, Numbers]]:
    """Yield the offsets in files and the lengths of copies between a group and a file."""
    columns = [*zip(*runs, strict=True)]
    if not columns:
        return
    # Each column is freed when it is joined, because there may be a million runs.
    group, file, to, from_, lengths = (np.concatenate(columns.pop(0)) for _ in range(len(columns)))
    order = np.lexsort((to, file, group))
    begins = np.flatnonzero((np.diff(group[order], prepend=-1) != 0) | (np.diff(file[order], prepend=-1) != 0))
    for run_numbers in np.split(order, begins)[1:]:
        yield (
            (int(group[run_numbers[0]]), int(file[run_numbers[0]])),
            *_merge_contiguous(to[run_numbers], from_[run_numbers], lengths[run_numbers]),
        )


def _groups(operands: Numbers, places: Places) -> list[Numbers]:
    """Return groups of operands with elements of one size that are adjacent in a file, or separated by known bytes."""
    order = operands[np.lexsort((places.offset[operands], places.file[operands]))]
    file, offset, size, unit = places.file[order], places.offset[order], places.size(order), places.unit(order)
    is_same_group = (file[1:] == file[:-1]) & (unit[1:] == unit[:-1])
    is_same_group &= places.are_filled(file[1:], (offset + size)[:-1], offset[1:])
    return np.split(order, np.flatnonzero(~is_same_group) + 1) if order.size else []


def _merge_contiguous(to: Numbers, from_: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return copies in order; copies that are contiguous on both sides are merged."""
    is_contiguous = (to[1:] == (to + lengths)[:-1]) & (from_[1:] == (from_ + lengths)[:-1])
    firsts = np.flatnonzero(np.concatenate([[True], ~is_contiguous]))
    return to[firsts], from_[firsts], np.add.reduceat(lengths, firsts)
