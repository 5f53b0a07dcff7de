"""Copies of rows: each window of the inputs is read once, and its rows are written contiguously to several files."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from anydml.moves import Move
from anydml.stores.formats.known_bytes import KnownBytes
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.copies import Rows, RowTable
from anydml.stores.planning.interval_unions import merge_intervals
from anydml.stores.planning.transfers import LINE, MAX_RUNS_OF_BLOCK, TooManyRunsError

MAX_PARTS = 64
"""Maximum number of copies of rows that a move becomes."""


Row = tuple[int, int, int, int, int, int]
"""One copy of rows: its entries in the columns of `Rows`."""


@dataclass(frozen=True, eq=False)
class RowCopies:
    """Copies of rows between two operands, sorted by source; no byte is written twice.

    Attributes:
        destination: number of the operand that is written.
        source: number of the windows that are read.
        columns: the copies.
        known_bytes: the known bytes of the destination's file, which lie between its arrays.
        offset: offset of the destination in its file.
    """

    destination: int
    source: int
    columns: RowTable
    known_bytes: KnownBytes
    offset: int

    @cached_property
    def _source_ends(self) -> Numbers:
        """The highest end of the source's bytes, over each copy and all copies before it."""
        reached: Numbers = np.maximum.accumulate(self.columns.ends)
        return reached

    def state(self) -> tuple[Any, ...]:
        """Return numbers and a digest that are equal for equal copies."""
        digest = hashlib.sha256()
        for column in (*self.columns, *self.known(0, int(np.max(self.columns.to_ends)))):
            digest.update(np.ascontiguousarray(column).data)
        return self.destination, self.source, self.columns.to.size, digest.digest()

    def known(self, low: int, high: int) -> tuple[Numbers, Numbers]:
        """Return starts and ends of the known bytes that overlap an interval of the destination."""
        starts, ends = self.known_bytes.ranges(low + self.offset, high + self.offset)
        return starts - self.offset, ends - self.offset

    def inside(self, low: int, high: int) -> Rows:
        """Return the copies from an interval of the source, by destination, with offsets from the interval's start."""
        first, last = int(self._source_ends.searchsorted(low, "right")), int(self.columns.from_.searchsorted(high))
        candidates = self.columns.select(slice(first, last)).rows
        are_whole = (candidates.from_ >= low) & (candidates.ends <= high)
        cut = candidates.select(~are_whole)
        bounds = (np.full(cut.to.size, end, np.int64) for end in (low, high))
        joined = Rows(*map(np.concatenate, zip(candidates.select(are_whole), clip_rows(cut, *bounds)[0], strict=True)))
        return joined._replace(from_=joined.from_ - low).select(np.argsort(joined.to, kind="stable"))


def clip_rows(rows: Rows, low: Numbers, high: Numbers) -> tuple[Rows, Numbers]:
    """Return the parts of copies that read from an interval of the source each, and the numbers of these copies."""
    to, from_, lengths, counts, to_steps, steps = rows
    begins = np.clip(-((from_ - low) // steps), 0, counts)
    ends = np.clip((high - from_ - lengths) // steps + 1, 0, counts)
    are_whole = ends > begins
    starts = to + begins * to_steps, from_ + begins * steps
    whole_rows = Rows(*starts, lengths, ends - begins, to_steps, steps).select(are_whole)
    # If one row contains the whole interval, `ends < begins`: both parts would be equal, so `after` is left out.
    before, is_before = _part(rows, begins - 1, low, high)
    after, is_after = _part(rows, np.where(ends < begins, counts, ends), low, high)
    numbers = np.concatenate([np.flatnonzero(mask) for mask in (are_whole, is_before, is_after)])
    return Rows(*map(np.concatenate, zip(whole_rows, before, after, strict=True))), numbers


def _part(copies: Rows, rows: Numbers, low: Numbers, high: Numbers) -> tuple[Rows, Array]:
    """For one row of each copy, return the part in an interval of the source, and whether that part exists."""
    to, from_, lengths, counts, to_steps, steps = copies
    starts = from_ + rows * steps
    first, last = np.maximum(starts, low), np.minimum(starts + lengths, high)
    sizes = last - first
    is_part: Array = (rows >= 0) & (rows < counts) & (sizes > 0)
    part = Rows.single(to + rows * to_steps + first - starts, first, sizes)
    return part.select(is_part), is_part


def rows_of(move: Move) -> list[Row] | None:
    """Return a move as copies of rows; None if rows would be many, or short and apart from each other."""
    ends = zip(move.destination.strides, move.reads.strides, move.sizes, strict=True)
    length, count, to_step, step, outer = move.element_size, 1, 0, 0, list[tuple[int, int, int]]()
    for to, from_, size in sorted(end for end in ends if end[2] > 1):
        if to <= 0 or from_ <= 0:
            return None
        if outer:
            outer.append((to, from_, size))
        elif count == 1 and to == from_ == length:
            length *= size
        elif count == 1 and to >= length and from_ >= length and (to == length or length >= LINE):
            count, to_step, step = size, to, from_
        elif count > 1 and to == to_step * count and from_ == step * count:
            count *= size
        else:
            outer.append((to, from_, size))
    if math.prod(size for _, _, size in outer) > MAX_PARTS:
        return None
    places = [(move.destination.offset, move.reads.offset)]
    for to, from_, size in outer:
        places = [(one_to + k * to, one_at + k * from_) for one_to, one_at in places for k in range(size)]
    return [(one_to, one_at, length, count, to_step or length, step or length) for one_to, one_at in places]


def filled(copies: Rows) -> tuple[Rows, Numbers, Numbers, Numbers]:
    """Return copies, the intervals that they fill together, by starts and ends, and the interval's number of each copy.

    Rows between which other bytes lie become copies of one row each.

    Raises:
        TooManyRunsError: there are too many.
    """
    starts, ends, interval = merge_intervals(copies.to, copies.to_ends)
    # No byte is written twice.
    is_filled = np.bincount(interval, copies.sizes, starts.size) == ends - starts
    if not is_filled.all():
        counts = np.where(is_filled[interval], 1, copies.counts)
        total = int(counts.sum())
        if total > MAX_RUNS_OF_BLOCK:
            raise TooManyRunsError(total)
        row = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        to, from_, lengths, rows, to_steps, steps = copies.select(np.repeat(np.arange(counts.size), counts))
        rows = np.where(np.repeat(is_filled[interval], counts), rows, 1)
        copies = Rows(to + row * to_steps, from_ + row * steps, lengths, rows, to_steps, steps)
        starts, ends, interval = merge_intervals(copies.to, copies.to_ends)
    return copies, starts, ends, interval
