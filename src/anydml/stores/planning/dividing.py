"""Division of tensors among several files, such as those of ranks: windows are read once, and written by runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from anydml.stores.formats.store import PAGE, Numbers
from anydml.stores.planning.copies import RowTable
from anydml.stores.planning.interval_unions import merge_intervals
from anydml.stores.planning.intervals import Interval, Places
from anydml.stores.planning.row_copies import Row, RowCopies, rows_of
from anydml.stores.planning.transfers import LINE
from anydml.stores.planning.window_parts import Pieces, PlacedRows, in_parts, windows_of
from anydml.stores.planning.windows import Windows
from anydml.stores.planning.writers import Writers

LONG_REQUEST = 5 << 20
"""Bytes of a request that is long enough on slow mounts."""

MIN_WINDOW = 8 << 20
"""Minimum bytes of a window."""

MAX_WINDOW = 40 << 20
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
        intervals: what is read and written, by number.
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
        all_writers = (each.of_outputs(places.size[each.outputs] <= max_output) for each in all_writers)
    chosen = _divided(all_writers, places)
    if not chosen:
        return Divided([], {}, {}, np.empty(0, np.int64))
    outputs = np.concatenate([writers.outputs for (writers, _), _ in chosen])
    unit = int(places.unit[outputs].max())
    placed = _placed(chosen, places)
    files = max(np.unique(placed.to).size, np.unique(placed.from_).size)
    width = min(max(MIN_WINDOW, files * LONG_REQUEST), MAX_WINDOW, max_bytes) // LINE * LINE
    placed, pieces = in_parts(placed, width, unit)
    window = windows_of(placed, pieces, width)
    intervals = dict[int, Interval]()
    windows, from_ = _read(placed.rows.from_, pieces, window, (width, unit), places, first, intervals)
    windows_number = first + len(intervals)
    placed = placed._replace(rows=placed.rows._replace(from_=from_))
    copies = [*_written(placed, windows_number, unit, places, outputs, intervals)]
    return Divided(copies, intervals, {windows_number: windows}, outputs)


def _read(
    offsets: Numbers,
    pieces: Pieces,
    window: Numbers,
    sizes: tuple[int, int],
    places: Places,
    first: int,
    intervals: dict[int, Interval],
) -> tuple[Windows, Numbers]:
    """Add the intervals that are read.

    Args:
        offsets: of rows in files.
        pieces: the pieces in which the rows lie.
        window: number of the window of each tensor.
        sizes: bytes of a window and of an element.
        places: the places of all arrays.
        first: number of the first interval.
        intervals: to which they are added.

    Returns:
        The windows, and the places of the rows in these.
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
        mine = joined.files == source
        lows[k], high = joined.starts[mine].min(), joined.ends[mine].max()
        intervals[first + k] = places.part(source, int(lows[k]), int(high - lows[k]), unit)
    operands = np.searchsorted(files, joined.files)
    windows = Windows(width, unit, at, first + operands, joined.starts - lows[operands], lengths)
    return windows, offsets + (at - joined.starts)[joined.of_part][pieces.of_part]


def _written(
    placed: PlacedRows, windows_number: int, unit: int, places: Places, outputs: Numbers, intervals: dict[int, Interval]
) -> Iterator[RowCopies]:
    """Add the intervals that are written, and yield the copies to each from the windows of a number."""
    files, firsts = np.unique(places.file[outputs], return_index=True)
    examples = dict(zip(files.tolist(), (outputs[firsts] - places.inputs).tolist(), strict=True))
    order = np.lexsort((placed.rows.from_, placed.to))
    placed = placed.select(order)
    bounds = np.append(np.flatnonzero(np.diff(placed.to, prepend=-1)), order.size).tolist()
    for written, (start, stop) in enumerate(pairwise(bounds), windows_number + 1):
        copied, file = placed.rows.select(slice(start, stop)), int(placed.to[start])
        low, high = int(np.min(copied.to)) // PAGE * PAGE, int(np.max(copied.to_ends))
        intervals[written] = places.part(file, low, high - low, unit, examples[file])
        starts, ends = _known_ranges(places, file)
        some = slice(int(ends.searchsorted(low, "right")), int(starts.searchsorted(high)))
        yield RowCopies(
            written, windows_number, copied._replace(to=copied.to - low), (starts[some] - low, ends[some] - low)
        )


def _divided(all_writers: Iterable[Writers], places: Places) -> list[tuple[RowWriters, Numbers]]:
    """Return writers of rows in tensors that are divided, and the number of the tensor of each output.

    A tensor is divided if its outputs are in several files, or if those of the file that it is read from are.
    """
    candidates = list[RowWriters]()
    for writers in all_writers:
        rows = [(move.reads.operand, rows_of(move)) for move in writers.all_moves]
        if writers.outputs.size and rows and all(of_move is not None for _, of_move in rows):
            candidates.append(RowWriters(writers, [(source, row) for source, some in rows for row in some or ()]))
    if not candidates:
        return []
    tensor = _tensors([writers for writers, _ in candidates], places.size.size, places.inputs)
    files = len(places.files)
    outputs = np.concatenate([writers.outputs for writers, _ in candidates])
    pairs = [(each.sets[:, source], each.outputs) for each, rows in candidates for source in {k for k, _ in rows}]
    inputs, of_inputs = (np.concatenate(column) for column in zip(*pairs, strict=True))
    written, read = (_files_of(tensor[arrays], places.file[arrays], tensor.size) for arrays in (outputs, inputs))
    targets = _files_of(places.file[inputs], places.file[of_inputs], files)
    is_divided = written > 1
    is_divided[tensor[inputs]] |= (read[tensor[inputs]] == 1) & (targets[places.file[inputs]] > 1)
    # Bytes between divided tensors, in all files, are read and written with the tensors.
    in_files = np.zeros((2, files), bool)
    for k, arrays in enumerate((inputs, outputs)):
        in_files[k, places.file[arrays[is_divided[tensor[arrays]]]]] = True
    are_others = np.zeros(tensor.size, bool)
    for k, arrays in enumerate((inputs, outputs)):
        are_others[tensor[arrays[~in_files[k, places.file[arrays]]]]] = True
    is_divided |= ~are_others
    return [
        (RowWriters(some, rows), tensor[some.outputs])
        for writers, rows in candidates
        for some in [writers.of_outputs(is_divided[tensor[writers.outputs]])]
        if some.outputs.size
    ]


def _files_of(keys: Numbers, files: Numbers, count: int) -> Numbers:
    """Return the number of different files of each key below a count."""
    several = int(np.max(files)) + 1
    counts: Numbers = np.bincount(np.unique(keys.astype(np.int64) * several + files) // several, minlength=count)
    return counts


def _tensors(all_writers: Sequence[Writers], count: int, inputs: int) -> Numbers:
    """Number arrays by connected set: arrays get one number if a set contains both, directly or through others."""
    tensor = np.arange(count, dtype=np.int32)
    tables = list[Numbers]()
    for writers in all_writers:
        are_wanted = writers.sets[0] < inputs
        are_wanted[writers.output] = True
        tables.append(writers.sets[:, are_wanted])
    is_changed = True
    while is_changed:
        is_changed = False
        for table in tables:
            least = tensor[table].min(1)
            if (tensor[table] != least[:, None]).any():
                is_changed = True
                np.minimum.at(tensor, table, least[:, None])
    return tensor


def _placed(all_writers: Sequence[tuple[RowWriters, Numbers]], places: Places) -> PlacedRows:
    """Return rows with offsets in files."""
    columns = list[tuple[Numbers, Numbers, Numbers]]()
    numbers, counts = list[Row](), list[int]()
    for (writers, rows), tensor in all_writers:
        for source, row in rows:
            columns.append((tensor, writers.outputs, writers.sets[:, source]))
            numbers.append(row)
            counts.append(tensor.size)
    tensor, outputs, inputs = (np.concatenate(column) for column in zip(*columns, strict=True))
    table = np.array(numbers, np.int64)
    shape = np.repeat(np.arange(len(table), dtype=np.int32), counts)
    to, from_ = places.offset[outputs] + table[shape, 0], places.offset[inputs] + table[shape, 1]
    return PlacedRows(tensor, places.file[outputs], places.file[inputs], RowTable(to, from_, shape, table[:, 2:]))


def _known_ranges(places: Places, file: int) -> tuple[Numbers, Numbers]:
    """Return the starts and ends of the known bytes of a file."""
    if (known_bytes := places.between.get(file)) is None:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    return merge_intervals(known_bytes.offsets, known_bytes.offsets + known_bytes.sizes)[:2]
