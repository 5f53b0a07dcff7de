"""Copies of rows from a window of a file that is read once, to where they follow each other in several files."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from anydml.moves import Move
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.copies import Rows
from anydml.stores.planning.transfers import (
    LINE,
    MAX_RUNS_OF_BLOCK,
    SCATTERED,
    TooManyRunsError,
    Transfer,
    round_to_cache_lines,
)
from anydml.stores.running.scattered_io import can_scatter

MAX_PARTS = 64
"""Maximum number of copies of rows that a move becomes."""


Row = tuple[int, int, int, int, int]
"""One copy of rows: its entries in the columns of `Rows`."""


@dataclass(frozen=True, eq=False)
class RowCopies:
    """Copies of rows between two operands, sorted by source; no byte is written twice.

    Attributes:
        destination: number of the operand that is written.
        source: number of the operand that is read.
        columns: offset of each copy in the destination, where its rows follow each other, that of its first row in
            the source, the bytes of a row, the number of rows, and the bytes from one to the next in the source.
        known: starts and ends of the known bytes of the destination, which lie between its arrays.
    """

    destination: int
    source: int
    columns: Rows
    known: tuple[Numbers, Numbers]

    @cached_property
    def _source_ends(self) -> Numbers:
        """The end of the source's bytes of each copy and of those before it."""
        reached: Numbers = np.maximum.accumulate(self.columns.ends)
        return reached

    def state(self) -> tuple[Any, ...]:
        """Return numbers and a digest that are equal for equal copies."""
        digest = hashlib.sha256()
        for column in (*self.columns, *self.known):
            digest.update(np.ascontiguousarray(column).data)
        return self.destination, self.source, self.columns.to.size, digest.digest()

    def inside(self, low: int, high: int) -> Rows:
        """Return the copies from an interval of the source, by destination, with offsets from the interval's start."""
        first, last = int(self._source_ends.searchsorted(low, "right")), int(self.columns.from_.searchsorted(high))
        candidates = self.columns.some(slice(first, last))
        are_whole = (candidates.from_ >= low) & (candidates.ends <= high)
        to, from_, lengths, counts, steps = cut = candidates.some(~are_whole)
        begins = np.clip(-((from_ - low) // steps), 0, counts)
        ends = np.clip((high - from_ - lengths) // steps + 1, 0, counts)
        whole_rows = Rows(to + begins * lengths, from_ + begins * steps, lengths, ends - begins, steps)
        # If one row contains the whole interval, `ends < begins`: both would be the same part, so `after` has none.
        before, after = _part(cut, begins - 1, low, high), _part(cut, np.where(ends < begins, counts, ends), low, high)
        parts = [candidates.some(are_whole), whole_rows.some(ends > begins), before, after]
        joined = Rows(*map(np.concatenate, zip(*parts, strict=True)))
        return joined._replace(from_=joined.from_ - low).some(np.argsort(joined.to, kind="stable"))


def _part(copies: Rows, rows: Numbers, low: int, high: int) -> Rows:
    """For one row of each copy, return the part in an interval of the source; nothing where there is no such row."""
    to, from_, lengths, counts, steps = copies
    starts = from_ + rows * steps
    first, last = np.maximum(starts, low), np.minimum(starts + lengths, high)
    sizes = last - first
    part = Rows(to + rows * lengths + first - starts, first, sizes, np.ones_like(counts), sizes)
    return part.some((rows >= 0) & (rows < counts) & (sizes > 0))


def rows_of(move: Move) -> list[Row] | None:
    """Return a move as copies of rows that follow each other in the destination; None if they would be many."""
    ends = zip(move.destination.strides, move.reads.strides, move.sizes, strict=True)
    length, count, step, outer = move.element_size, 1, 0, list[tuple[int, int, int]]()
    for to, from_, size in sorted(end for end in ends if end[2] > 1):
        if to <= 0 or from_ <= 0:
            return None
        if outer or to != length * count:
            outer.append((to, from_, size))
        elif count == 1 and from_ == length:
            length *= size
        elif count == 1 and from_ > length:
            count, step = size, from_
        elif count > 1 and from_ == step * count:
            count *= size
        else:
            outer.append((to, from_, size))
    if math.prod(size for _, _, size in outer) > MAX_PARTS:
        return None
    places = [(move.destination.offset, move.reads.offset)]
    for to, from_, size in outer:
        places = [(one_to + k * to, one_at + k * from_) for one_to, one_at in places for k in range(size)]
    return [(one_to, one_at, length, count, step or length) for one_to, one_at in places]


def window_transfers(
    rows: Sequence[RowCopies], low: int, high: int
) -> tuple[list[Transfer], Rows | None, list[Transfer], tuple[int, int]]:
    """Return the writes of rows that were read from an interval of their source.

    Args:
        rows: of which no two have the same destination.
        low: offset of the interval.
        high: its end.

    Returns:
        The writes, the copies before them, the known bytes between these, and the sizes of the read buffer and of the
        write buffer. Long rows are written from the read buffer, to whose end known bytes are added.

    Raises:
        TooManyRunsError: there are too many.
    """
    inside = [row_copies.inside(low, high) for row_copies in rows]
    runs = sum(copies.to.size for copies in inside)
    if runs > MAX_RUNS_OF_BLOCK:
        raise TooManyRunsError(runs)
    sizes = [copies.lengths * copies.counts for copies in inside]
    are_single = all((copies.counts == 1).all() for copies in inside)
    is_direct = are_single and can_scatter() and sum(int(size.sum()) for size in sizes) >= SCATTERED * runs
    used = round_to_cache_lines(high - low) if is_direct else 0
    writes, known_transfers, copied = list[Transfer](), list[Transfer](), list[Rows]()
    for row_copies, copies, size in zip(rows, inside, sizes, strict=True):
        if not size.size:
            continue
        stops = copies.to + size
        between = np.flatnonzero((copies.to[1:] > stops[:-1]) & _are_known(row_copies.known, stops[:-1], copies.to[1:]))
        gaps = copies.to[between + 1] - stops[between]
        begins = np.ones(size.size, bool)
        begins[1:] = copies.to[1:] != stops[:-1]
        begins[between + 1] = False
        firsts = np.flatnonzero(begins)
        starts, ends = copies.to[firsts], stops[np.append(firsts[1:], size.size) - 1]
        if is_direct:
            places = used + np.cumsum(gaps) - gaps
            used = round_to_cache_lines(used + int(gaps.sum()))
            buffer, lengths = np.insert(copies.from_, between + 1, places), np.insert(size, between + 1, gaps)
            begins = np.insert(begins, between + 1, False)
            counts = np.diff(np.append(np.flatnonzero(begins), begins.size))
            writes.append(Transfer(row_copies.destination, starts, buffer, lengths, True, counts))
        else:
            spans = -((starts - ends) // LINE) * LINE
            shift = used + np.cumsum(spans) - spans - starts
            request = np.cumsum(begins) - 1
            places = stops[between] + shift[request[between]]
            copied.append(copies._replace(to=copies.to + shift[request]))
            writes.append(Transfer(row_copies.destination, starts, starts + shift, ends - starts))
            used += int(spans.sum())
        if between.size:
            known_transfers.append(Transfer(row_copies.destination, stops[between], places, gaps, is_direct))
    all_copied = Rows(*map(np.concatenate, zip(*copied, strict=True))) if copied else None
    return writes, all_copied, known_transfers, (used, 0) if is_direct else (round_to_cache_lines(high - low), used)


def _are_known(known: tuple[Numbers, Numbers], starts: Numbers, ends: Numbers) -> Array:
    """Whether all bytes of intervals are known."""
    firsts, lasts = known
    if not firsts.size:
        return np.zeros(starts.size, bool)
    k = np.searchsorted(firsts, starts, "right") - 1
    are_known: Array = (k >= 0) & (lasts[np.maximum(k, 0)] >= ends)
    return are_known
