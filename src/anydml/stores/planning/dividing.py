"""Division of tensors among several files, such as those of ranks: windows are read once, and written by runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from anydml.stores.formats.known_bytes import KnownBytes
from anydml.stores.formats.store import PAGE, Array, Numbers
from anydml.stores.planning.copies import RowTable
from anydml.stores.planning.intervals import Interval, Places, widening_of
from anydml.stores.planning.row_copies import Row, RowCopies, rows_of
from anydml.stores.planning.transfers import LINE
from anydml.stores.planning.window_parts import MAX_ROWS, Pieces, PlacedRows, in_parts, windows_of
from anydml.stores.planning.windows import Windows
from anydml.stores.planning.writers import Writers

LONG_REQUEST = 7 << 20
"""Bytes of a request that is long enough on slow mounts."""

MIN_WINDOW = 8 << 20
"""Minimum bytes of a window."""

MAX_WINDOW = 56 << 20
"""Maximum bytes of a window."""


class RowWriters(NamedTuple):
    """Writers of outputs that consist of rows.

    Attributes:
        writers: the writers.
        rows: numbers of inputs in a set, and rows, with offsets in inputs and outputs.
    """

    writers: Writers
    rows: list[tuple[int, Row]]


class Divided(NamedTuple):
    """Outputs that are written while their sources are read in windows.

    Attributes:
        rows: the copies from windows, by file.
        intervals: the intervals that are read and written, by number.
        windows: the windows, by number.
        outputs: numbers of the outputs.
    """

    rows: list[RowCopies]
    intervals: dict[int, Interval]
    windows: dict[int, Windows]
    outputs: Numbers


def divide(
    all_writers: Iterable[Writers], places: Places, first: int, max_bytes: int, max_output: int | None
) -> Divided:
    """Return outputs in several files whose tensors are in the same sources, divided by windows.

    Args:
        all_writers: writers of copies that overwrite nothing.
        places: the places of all arrays.
        first: number of the first new operand.
        max_bytes: the maximum size in bytes of a window.
        max_output: the maximum size in bytes of an output; None for any.
    """
    if max_output is not None:
        all_writers = (writers.of_outputs(places.size(writers.outputs) <= max_output) for writers in all_writers)
    # Windows hold cast bytes, and requests are as long as what they read from files.
    wider = widening_of(places.files)
    chosen = _divided(all_writers, places, max(MAX_WINDOW, min(wider * MAX_WINDOW, max_bytes)))
    if not chosen:
        return Divided([], {}, {}, np.empty(0, np.int64))
    outputs = np.concatenate([writers.outputs for (writers, _), _ in chosen])
    unit = int(places.unit(outputs).max())
    placed = _placed(chosen, places)
    # There may be a million rows, so columns that are not needed any more are freed or overwritten.
    del chosen
    files = max(np.unique(placed.written_files).size, np.unique(placed.read_files).size)
    width = min(max(MIN_WINDOW, wider * min(files * LONG_REQUEST, MAX_WINDOW)), max_bytes) // LINE * LINE
    placed, pieces = in_parts(placed, width, unit)
    window = windows_of(placed, pieces, width)
    intervals = dict[int, Interval]()
    windows = _read(placed.rows.from_, pieces, window, (width, unit), places, first, intervals)
    windows_number, to_files, rows = first + len(intervals), placed.written_files, placed.rows
    del placed, pieces
    copies = [*_written(to_files, rows, windows_number, unit, places, outputs, intervals)]
    return Divided(copies, intervals, {windows_number: windows}, outputs)


def _read(
    offsets: Numbers,
    pieces: Pieces,
    window: Numbers,
    sizes: tuple[int, int],
    places: Places,
    first: int,
    intervals: dict[int, Interval],
) -> Windows:
    """Return the windows, and add the intervals that are read.

    Args:
        offsets: of rows in files, which become those in windows.
        pieces: the pieces in which the rows lie.
        window: number of the window of each tensor.
        sizes: bytes of a window and of an element.
        places: the places of all arrays.
        first: number of the first interval.
        intervals: the dict to which new intervals are added.
    """
    width, unit = sizes
    # All that a window reads from one file is contiguous there, so that it may be one piece.
    joined = Pieces.of(window[pieces.owners], pieces.files, pieces.starts, pieces.ends)
    lengths = joined.ends - joined.starts
    spans = -(-lengths // LINE) * LINE
    before, begins = np.cumsum(spans) - spans, np.diff(joined.owners, prepend=-1) != 0
    inside = before - before[np.flatnonzero(begins)][np.cumsum(begins) - 1]
    # A piece may contain bytes that no row needs.
    width = max(width, int((inside + spans).max()))
    at, files = joined.owners * width + inside, np.unique(joined.files)
    lows = np.zeros(files.size, np.int64)
    for k, source in enumerate(files.tolist()):
        is_of_source = joined.files == source
        lows[k], high = joined.starts[is_of_source].min(), joined.ends[is_of_source].max()
        intervals[first + k] = places.part(source, int(lows[k]), int(high - lows[k]), unit)
    operands = np.searchsorted(files, joined.files)
    windows = Windows(width, unit, at, first + operands, joined.starts - lows[operands], lengths)
    distances = (at - joined.starts)[joined.piece_of_part]
    for first_row in range(0, offsets.size, MAX_ROWS):
        row_range = slice(first_row, first_row + MAX_ROWS)
        offsets[row_range] += distances[pieces.piece_of_part[row_range]]
    return windows


def _written(
    to_files: Numbers,
    all_rows: RowTable,
    windows_number: int,
    unit: int,
    places: Places,
    outputs: Numbers,
    intervals: dict[int, Interval],
) -> Iterator[RowCopies]:
    """Add the intervals that are written, and yield the copies to each from the windows of a number."""
    files = places.file[outputs]
    examples = {file: int(outputs[np.argmax(files == file)]) - places.inputs for file in np.unique(files).tolist()}
    del files
    for written, (file, example) in enumerate(examples.items(), windows_number + 1):
        rows = np.flatnonzero(to_files == file)
        copied = all_rows.select(rows[np.argsort(all_rows.from_[rows], kind="stable")])
        low, high = int(np.min(copied.to)) // PAGE * PAGE, int(np.max(copied.to_ends))
        intervals[written] = places.part(file, low, high - low, unit, example)
        known_bytes = places.between.get(file, KnownBytes.of())
        yield RowCopies(written, windows_number, copied._replace(to=copied.to - low), known_bytes, low)


def _divided(all_writers: Iterable[Writers], places: Places, max_window: int) -> list[tuple[RowWriters, Numbers]]:
    """Return writers of rows in tensors that are divided, and the number of the tensor of each output.

    A tensor is divided if its outputs are in several files, or if those of the file that it is read from are. One that
    is read from several files is, too, if a window may hold all of it: its neighbours in each file are read with it.
    """
    candidates = list[RowWriters]()
    for writers in all_writers:
        rows = [(move.reads.operand, rows_of(move)) for move in writers.all_moves]
        if writers.outputs.size and rows and all(of_move is not None for _, of_move in rows):
            candidates.append(RowWriters(writers, [(source, row) for source, some in rows for row in some or ()]))
    if not candidates:
        return []
    tensor = _tensors([writers for writers, _ in candidates], places.arrays, places.inputs)
    files, number = len(places.files), places.file
    outputs = [arrays for (arrays,) in _batches((writers.outputs,) for writers, _ in candidates)]
    pairs = _batches(
        (writers.sets[:, source], writers.outputs)
        for writers, rows in candidates
        for source in {source for source, _ in rows}
    )
    inputs = [read for read, _ in pairs]
    is_divided = _have_several(((tensor[arrays], number[arrays]) for arrays in outputs), tensor.size)
    read_from_several = _have_several(((tensor[arrays], number[arrays]) for arrays in inputs), tensor.size)
    written_to_several = _have_several(((number[read], number[written]) for read, written in pairs), files)
    for arrays in inputs:
        is_divided[tensor[arrays]] |= ~read_from_several[tensor[arrays]] & written_to_several[number[arrays]]
    sizes = np.zeros(tensor.size, np.int64)
    for arrays in outputs:
        np.add.at(sizes, tensor[arrays], places.size(arrays))
    is_divided |= read_from_several & (sizes <= max_window)
    # Bytes between divided tensors, in all files, are read and written with the tensors.
    are_undivided = np.zeros(tensor.size, bool)
    for all_arrays in (inputs, outputs):
        comes_from_divided = np.zeros(files, bool)
        for arrays in all_arrays:
            comes_from_divided[number[arrays[is_divided[tensor[arrays]]]]] = True
        for arrays in all_arrays:
            are_undivided[tensor[arrays[~comes_from_divided[number[arrays]]]]] = True
    is_divided |= ~are_undivided
    return [
        (RowWriters(some, rows), tensor[some.outputs])
        for writers, rows in candidates
        for some in [writers.of_outputs(is_divided[tensor[writers.outputs]])]
        if some.outputs.size
    ]


def _batches(all_columns: Iterable[tuple[Numbers, ...]]) -> list[tuple[Numbers, ...]]:
    """Return columns of many rows, which consist of the given ones: unlike tensors have columns of a row each."""
    batches, waiting, count = list[tuple[Numbers, ...]](), list[tuple[Numbers, ...]](), 0
    for columns in chain(all_columns, [()]):
        if waiting and (not columns or count + columns[0].size > MAX_ROWS):
            is_one = len(waiting) == 1
            batches.append(waiting[0] if is_one else tuple(map(np.concatenate, zip(*waiting, strict=True))))
            waiting, count = [], 0
        if columns:
            waiting.append(columns)
            count += columns[0].size
    return batches


def _have_several(pairs: Iterable[tuple[Numbers, Numbers]], count: int) -> Array:
    """Return whether each key below a count is paired with several files, in columns of keys and of files."""
    smallest, largest = np.full(count, np.iinfo(np.int32).max, np.int32), np.full(count, -1, np.int32)
    for keys, files in pairs:
        np.minimum.at(smallest, keys, files)
        np.maximum.at(largest, keys, files)
    return smallest < largest


def _tensors(all_writers: Sequence[Writers], count: int, inputs: int) -> Numbers:
    """Number arrays by connected set: arrays get one number if a set contains both, directly or through others."""
    tensor = np.arange(count, dtype=np.int32)
    by_width: dict[int, list[tuple[Numbers, ...]]] = {}
    for writers in all_writers:
        are_wanted = writers.sets[0] < inputs
        are_wanted[writers.output] = True
        by_width.setdefault(int(np.count_nonzero(are_wanted)), []).append((writers.sets[:, are_wanted],))
    tables = [table for of_width in by_width.values() for (table,) in _batches(of_width)]
    is_changed = True
    while is_changed:
        is_changed = False
        for table in tables:
            smallest = tensor[table].min(1)
            if (tensor[table] != smallest[:, None]).any():
                is_changed = True
                np.minimum.at(tensor, table, smallest[:, None])
    return tensor


def _placed(all_writers: Sequence[tuple[RowWriters, Numbers]], places: Places) -> PlacedRows:
    """Return rows with offsets in files."""
    single = [(tensor, writers.outputs, writers.sets[:, source], row)
              for (writers, rows), tensor in all_writers for source, row in rows]  # fmt: skip
    table = np.array([row for *_, row in single], np.int64)
    shape = np.repeat(np.arange(len(table), dtype=np.int32), [tensor.size for tensor, *_ in single])
    # One column after the other, because there may be a million rows.
    return PlacedRows(
        np.concatenate([tensor for tensor, *_ in single]),
        np.concatenate([places.file[outputs] for _, outputs, _, _ in single]),
        np.concatenate([places.file[inputs] for _, _, inputs, _ in single]),
        RowTable(
            np.concatenate([places.offset[outputs] + row[0] for _, outputs, _, row in single]),
            np.concatenate([places.offset[inputs] + row[1] for _, _, inputs, row in single]),
            shape,
            table[:, 2:],
        ),
    )
