"""Division of a file among outputs in several files, such as those of ranks, in one pass over the file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.copies import Rows
from anydml.stores.planning.interval_unions import merge_intervals
from anydml.stores.planning.intervals import Interval, Places
from anydml.stores.planning.row_copies import Row, RowCopies, rows_of
from anydml.stores.planning.writers import Writers

APART = 64 << 10
"""Maximum bytes between inputs that are read together."""


class RowWriters(NamedTuple):
    """Writers of outputs that consist of rows.

    Attributes:
        writers: the writers.
        rows: numbers of inputs in a set, and rows, with offsets in inputs and outputs.
    """

    writers: Writers
    rows: list[tuple[int, Row]]


def divide_rows(
    all_writers: Sequence[Writers], are_alone: Array, places: Places, max_bytes: int
) -> Iterator[tuple[int, list[RowWriters]]]:
    """Yield the number of each file with rows for outputs in several files, and the writers of these outputs."""
    by_source: dict[int, list[RowWriters]] = {}
    for writers in all_writers:
        sources = places.file[writers.inputs]
        fits = (sources == sources[:, :1]).all(1) & (places.size[writers.outputs] <= max_bytes)
        fits &= ~are_alone[writers.outputs]
        rows = list[tuple[int, Row]]()
        for move in writers.all_moves:
            of_move = rows_of(move)
            fits &= of_move is not None
            rows += ((move.reads.operand, row) for row in of_move or ())
        for number in np.unique(sources[fits, 0]).tolist():
            by_source.setdefault(number, []).append(
                RowWriters(writers.of_outputs(fits & (sources[:, 0] == number)), rows)
            )
    for source, of_source in by_source.items():
        if np.unique(places.file[np.concatenate([row_writers.writers.outputs for row_writers in of_source])]).size > 1:
            yield source, of_source


def divide(
    all_writers: Sequence[RowWriters], source: int, places: Places, first: int, intervals: dict[int, Interval]
) -> Iterator[RowCopies]:
    """Add the intervals of a divided file and of the files that it is divided among, and yield the copies."""
    stores = np.unique(np.concatenate([row_writers.writers.inputs.reshape(-1) for row_writers in all_writers]))
    begins, ends, _ = merge_intervals(places.offset[stores], places.offset[stores] + places.size[stores], APART)
    outputs = np.concatenate([row_writers.writers.outputs for row_writers in all_writers])
    unit = int(places.unit[outputs].max())
    files, firsts = np.unique(places.file[outputs], return_index=True)
    first += len(intervals)
    for k, (low, high) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        intervals[first + k] = places.part(source, low, high - low, unit)
    ranges_by_file = {file: _known_ranges(places, file) for file in files.tolist()}
    examples = dict(zip(files.tolist(), (outputs[firsts] - places.inputs).tolist(), strict=True))
    file, rows = _rows_in_files(all_writers, places)
    region = np.searchsorted(begins, rows.from_, "right") - 1
    order = np.lexsort((rows.from_, file, region))
    file, region, rows = file[order], region[order], rows.some(order)
    is_first = (np.diff(region, prepend=-1) != 0) | (np.diff(file, prepend=-1) != 0)
    bounds = np.append(np.flatnonzero(is_first), file.size).tolist()
    for number, (start, stop) in enumerate(pairwise(bounds), first + begins.size):
        copied, copied_file, copied_region = rows.some(slice(start, stop)), int(file[start]), int(region[start])
        low, high = int(np.min(copied.to)), int(np.max(copied.to + copied.lengths * copied.counts))
        intervals[number] = places.part(copied_file, low, high - low, unit, examples[copied_file])
        starts, stops = ranges_by_file[copied_file]
        overlapping = slice(int(stops.searchsorted(low, "right")), int(starts.searchsorted(high)))
        copied = copied._replace(to=copied.to - low, from_=copied.from_ - int(begins[copied_region]))
        yield RowCopies(number, first + copied_region, copied, (starts[overlapping] - low, stops[overlapping] - low))


def _known_ranges(places: Places, file: int) -> tuple[Numbers, Numbers]:
    """Return the starts and ends of the known bytes of a file."""
    if (known_bytes := places.between.get(file)) is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return merge_intervals(known_bytes.offsets, known_bytes.offsets + known_bytes.sizes)[:2]


def _rows_in_files(all_writers: Sequence[RowWriters], places: Places) -> tuple[Numbers, Rows]:
    """Return the numbers of the written files, and rows with offsets in files."""
    of_outputs, of_inputs, numbers = list[Numbers](), list[Numbers](), list[Row]()
    for writers, rows in all_writers:
        for source, row in rows:
            of_outputs.append(writers.outputs)
            of_inputs.append(writers.sets[:, source])
            numbers.append(row)
    outputs, inputs = np.concatenate(of_outputs), np.concatenate(of_inputs)
    to, from_, *others = (
        np.array(numbers, np.int64).repeat([numbers_of_row.size for numbers_of_row in of_outputs], axis=0).T
    )
    return places.file[outputs], Rows(places.offset[outputs] + to, places.offset[inputs] + from_, *others)
