"""Outputs of several files that are written as the one file is read that they are parts of, as those of ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from anydml.moves import Move, extent, simplify
from anydml.stores.formats.store import Array
from anydml.stores.planning.cutting import can_be_cut
from anydml.stores.planning.intervals import Interval, Places
from anydml.stores.planning.spaced_moves import GroupAndFile, spaced_moves
from anydml.stores.planning.writers import Writers

MIN_MEAN = 64 << 10
"""Minimum mean size in bytes of outputs that are written as their sources are read, where known bytes lie
between them."""

MAX_UNEVEN = 8
"""Outputs for a move, at least, where outputs are written as their sources are read."""

APART = 64 << 10
"""Bytes between inputs from which they are not read together."""


def divided(
    all_writers: Sequence[Writers], are_alone: Array, places: Places, max_bytes: int
) -> Iterator[tuple[int, list[Writers]]]:
    """Yield the number of a file that outputs of several files are read from, and their writers."""
    by_source: dict[int, list[Writers]] = {}
    for writers in all_writers:
        sources = places.file[writers.inputs]
        fits = (sources == sources[:, :1]).all(1) & (places.size[writers.outputs] <= max_bytes)
        fits &= ~are_alone[writers.outputs] & all(can_be_cut(move, "source") for move in writers.moves)
        for number in np.unique(sources[fits, 0]).tolist():
            by_source.setdefault(number, []).append(writers.of_outputs(fits & (sources[:, 0] == number)))
    for source, of_source in by_source.items():
        outputs = np.concatenate([writers.outputs for writers in of_source])
        files = np.unique(places.file[outputs])
        # Known bytes between outputs, as in distributed checkpoints, make each a request.
        are_apart = not places.between.keys().isdisjoint(files.tolist())
        if files.size > 1 and (not are_apart or places.size[outputs].mean() >= MIN_MEAN):
            yield source, of_source


def divide(
    all_writers: Sequence[Writers], source: int, places: Places, first: int, intervals: dict[int, Interval]
) -> Iterator[Move]:
    """Add the intervals of a file that is divided, and of those that it is divided into, and return moves between them.

    Nothing is returned where outputs are so unlike each other that there would be too many moves.
    """
    stores = np.unique(np.concatenate([writers.inputs.reshape(-1) for writers in all_writers]))
    stores = stores[np.argsort(places.offset[stores], kind="stable")]
    starts, ends = places.offset[stores], np.maximum.accumulate(places.offset[stores] + places.size[stores])
    firsts = np.flatnonzero(np.concatenate([[True], starts[1:] - ends[:-1] > APART]))
    begins = starts[firsts]
    spaced = [*spaced_moves(all_writers, places, lambda outputs: places.file[outputs],
                       lambda inputs: np.searchsorted(begins, places.offset[inputs], "right") - 1)]  # fmt: skip
    moved = [move for moves in spaced for move in moves.moves()]
    if len(moved) * MAX_UNEVEN > max(8192, sum(moves.to.size for moves in spaced)):
        return
    if not all(can_be_cut(simple, "source") for _, move in moved for simple in simplify([move])):
        return
    spans = dict[GroupAndFile, tuple[int, int]]()
    for key, move in moved:
        low, high = extent(move.destination, move.sizes, move.element_size)
        span = spans.get(key, (low, high))
        spans[key] = min(low, span[0]), max(high, span[1])
    outputs = np.concatenate([writers.outputs for writers in all_writers])
    unit = int(places.unit[outputs].max())
    example_outputs = {int(places.file[output]): int(output) - places.inputs for output in outputs[::-1]}
    first += len(intervals)
    stops = np.append(ends[firsts[1:] - 1], ends[-1])
    for k, (low, high) in enumerate(zip(begins.tolist(), stops.tolist(), strict=True)):
        intervals[first + k] = places.part(source, low, high - low, unit)
    numbers = {key: number for number, key in enumerate(spans, first + begins.size)}
    for key, (low, high) in spans.items():
        intervals[numbers[key]] = places.part(key[0], low, high - low, unit, example_outputs[key[0]])
    for key, move in moved:
        end, read = move.destination, move.reads
        yield move._replace(
            destination=end._replace(operand=numbers[key], offset=end.offset - spans[key][0]),
            source=read._replace(operand=first + key[1], offset=read.offset - int(begins[key[1]])),
        )
