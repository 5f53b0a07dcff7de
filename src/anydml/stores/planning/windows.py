"""Windows: bytes of one or several files that are read together, as if they followed each other in one file."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from anydml.stores.formats.store import PAGE, Array, Numbers
from anydml.stores.planning.copies import Rows
from anydml.stores.planning.interval_unions import merge_intervals
from anydml.stores.planning.row_copies import RowCopies, filled
from anydml.stores.planning.transfers import (
    DIRECT,
    LINE,
    MAX_RUNS_OF_BLOCK,
    TooManyRunsError,
    Transfer,
    round_to_cache_lines,
)
from anydml.stores.running.scattered_io import NEAR

APART = 64 << 10
"""Maximum bytes between rows of a file that are read together. At least `NEAR`, so that different pieces stay apart."""


@dataclass(frozen=True, eq=False)
class Windows:
    """Pieces of operands, divided into windows of equal width. A window may end with bytes that belong to no piece.

    Attributes:
        width: bytes from the start of one window to that of the next.
        unit: bytes of an element.
        places: offset of each piece from the start of the first window, in order.
        sources: number of the operand of each piece.
        offsets: offset of each piece in its operand.
        lengths: bytes of each piece.
    """

    width: int
    unit: int
    places: Numbers
    sources: Numbers
    offsets: Numbers
    lengths: Numbers

    @property
    def size(self) -> int:
        """Bytes of all windows."""
        return int(self.places[-1] + self.lengths[-1])

    @property
    def operands(self) -> list[int]:
        """Numbers of the operands that are read."""
        operands: list[int] = np.unique(self.sources).tolist()
        return operands

    def with_operands(self, numbers: Mapping[int, int]) -> Self:
        """Return the same windows of operands with other numbers."""
        distinct, places = np.unique(self.sources, return_inverse=True)
        return replace(self, sources=np.array([numbers[k] for k in distinct.tolist()], np.int64)[places])

    def state(self) -> tuple[Any, ...]:
        """Return numbers and a digest that are equal for equal windows."""
        digest = hashlib.sha256()
        for column in (self.places, self.sources, self.offsets, self.lengths):
            digest.update(np.ascontiguousarray(column).data)
        return self.width, self.places.size, digest.digest()

    def pieces(self, low: int, high: int) -> Self:
        """Return the pieces in an interval, with places from its start."""
        overlapping = slice(
            int((self.places + self.lengths).searchsorted(low, "right")), int(self.places.searchsorted(high))
        )
        places, lengths = self.places[overlapping], self.lengths[overlapping]
        starts, ends = np.maximum(places, low), np.minimum(places + lengths, high)
        offsets = self.offsets[overlapping] + starts - places
        return replace(
            self, places=starts - low, sources=self.sources[overlapping], offsets=offsets, lengths=ends - starts
        )


class WindowIO(NamedTuple):
    """The requests of an interval of windows, all of which read into one buffer, and write from it.

    Attributes:
        reads: the reads.
        copied: copies within the buffer.
        writes: the writes.
        known: places of known bytes in the buffer.
        size: bytes of the buffer.
    """

    reads: tuple[Transfer, ...]
    copied: Rows
    writes: tuple[Transfer, ...]
    known: tuple[Transfer, ...]
    size: int


def window_io(all_rows: Sequence[RowCopies], windows: Windows, low: int, high: int) -> WindowIO:
    """Return the requests of an interval of windows.

    Long rows are read to where they are written from, and all others with what lies between them, and copied there.

    Args:
        all_rows: copies from the windows, of which no two have the same destination.
        windows: the windows.
        low: offset of the interval.
        high: the end of the interval.

    Raises:
        TooManyRunsError: there are too many.
    """
    inside = [row_copies.inside(low, high) for row_copies in all_rows]
    if (runs := sum(copies.to.size for copies in inside)) > MAX_RUNS_OF_BLOCK:
        raise TooManyRunsError(runs)
    writes, known, placed, used = list[Transfer](), list[Transfer](), list[Rows](), 0
    for row_copies, copies in zip(all_rows, inside, strict=True):
        if not copies.to.size:
            continue
        copies, firsts, stops, of_copy = filled(copies)  # noqa: PLW2901
        known_ranges = row_copies.known(int(firsts[0]), int(stops[-1]))
        between = np.flatnonzero((firsts[1:] > stops[:-1]) & _are_known(known_ranges, stops[:-1], firsts[1:]))
        gaps = firsts[between + 1] - stops[between]
        begins = np.ones(firsts.size, bool)
        begins[between + 1] = False
        heads = np.flatnonzero(begins)
        starts, ends = firsts[heads], stops[np.append(heads[1:], firsts.size) - 1]
        # Whole pages of the file are whole pages of the buffer, which are copied faster.
        before = starts % PAGE
        spans = -((starts - before - ends) // PAGE) * PAGE
        places = used + np.cumsum(spans) - spans + before
        shift, request = places - starts, np.cumsum(begins) - 1
        placed.append(copies._replace(to=copies.to + shift[request[of_copy]]))
        writes.append(Transfer(row_copies.destination, starts, places, ends - starts))
        used += int(spans.sum())
        if between.size:
            filled_at = stops[between] + shift[request[between]]
            known.append(Transfer(row_copies.destination, stops[between], filled_at, gaps))
    if not placed:
        return WindowIO((), Rows.single(*[np.empty(0, np.int64)] * 3), (), (), 0)
    rows = Rows(*map(np.concatenate, zip(*placed, strict=True)))
    reads, copied, used = _reads(rows.select(np.argsort(rows.from_, kind="stable")), windows.pieces(low, high), used)
    return WindowIO(tuple(reads), copied, tuple(writes), tuple(known), used)


def _reads(rows: Rows, pieces: Windows, used: int) -> tuple[list[Transfer], Rows, int]:
    """Return the reads of sorted rows from pieces, the copies after them, and the bytes of the buffer."""
    ends = rows.ends
    are_long = (rows.counts == 1) & (rows.lengths >= DIRECT)
    are_long[1:] &= np.maximum.accumulate(ends)[:-1] <= rows.from_[1:]
    are_long[:-1] &= ends[:-1] <= rows.from_[1:]
    long, short = rows.select(are_long), rows.select(~are_long)
    # Bytes in different pieces are never near each other.
    distance = (np.searchsorted(pieces.places, short.from_, "right") - 1) * APART
    starts, stops, section = merge_intervals(short.from_ + distance, short.ends + distance, NEAR)
    lengths = stops - starts
    starts -= distance[np.flatnonzero(np.diff(section, prepend=-1))]
    spans = -(-lengths // LINE) * LINE
    places = used + np.cumsum(spans) - spans
    copied = short._replace(from_=short.from_ - starts[section] + places[section])
    used += int(spans.sum())
    runs = np.stack([np.concatenate(columns) for columns in
                     ((long.from_, starts), (long.to, places), (long.lengths, lengths))])  # fmt: skip
    offset, buffer, length = runs[:, np.argsort(runs[0])]
    piece = np.searchsorted(pieces.places, offset, "right") - 1
    begins = np.diff(piece, prepend=-1) != 0
    # Nobody needs what lies between, which is read into the end of the buffer.
    gaps = offset[1:] - (offset + length)[:-1]
    between = np.flatnonzero(~begins[1:] & (gaps > 0)) + 1
    buffer, length = np.insert(buffer, between, used), np.insert(length, between, gaps[between - 1])
    begins = np.insert(begins, between, False)
    used += round_to_cache_lines(int(gaps[between - 1].max(initial=0)))
    heads = np.flatnonzero(begins)
    counts, read = np.diff(np.append(heads, begins.size)), np.unique(piece)
    file = pieces.offsets[read] + offset[np.searchsorted(piece, read)] - pieces.places[read]
    reads = list[Transfer]()
    for source in np.unique(pieces.sources[read]).tolist():
        is_of_source = pieces.sources[read] == source
        own_runs = np.repeat(is_of_source, counts)
        reads.append(
            Transfer(source, file[is_of_source], buffer[own_runs], length[own_runs], True, counts[is_of_source])
        )
    return reads, copied, used


def _are_known(known: tuple[Numbers, Numbers], starts: Numbers, ends: Numbers) -> Array:
    """Whether all bytes of intervals are known."""
    firsts, lasts = known
    if not firsts.size:
        return np.zeros(starts.size, bool)
    k = np.searchsorted(firsts, starts, "right") - 1
    are_known: Array = (k >= 0) & (lasts[np.maximum(k, 0)] >= ends)
    return are_known
