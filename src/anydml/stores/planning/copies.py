"""Many copies of runs of bytes, as arrays of offsets instead of one move per copy."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anydml.moves import Access, Move
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.block_shapes import word
from anydml.stores.planning.interval_unions import merge_intervals
from anydml.stores.planning.transfers import (
    DIRECT,
    SCATTERED,
    Transfer,
    are_apart,
    round_to_cache_lines,
    scattered_reads,
)

MAX_SINGLE_COPIES = 256
"""Maximum number of copies that become a move each, since moves can be cut in more ways."""

MAX_COPIES = 1 << 18
"""Maximum number of copies of one move."""

COPY_BYTES = 64 << 10
"""Maximum bytes that NumPy copies at once through an intermediate array."""

MIN_ALONE = 4 << 10
"""Minimum bytes of a copy that is made alone."""

LONGEST_WORD = 16
"""Maximum bytes of a row that is copied as one word."""


class Rows(NamedTuple):
    """Copies of rows of bytes, between two files or from the read buffer to the write buffer of a block.

    Attributes:
        to: offset of the first row of each copy in the destination.
        from_: offset of its first row in the source.
        lengths: bytes of a row.
        counts: number of rows.
        to_steps: bytes from one row to the next in the destination.
        steps: bytes from one row to the next in the source.
    """

    to: Numbers
    from_: Numbers
    lengths: Numbers
    counts: Numbers
    to_steps: Numbers
    steps: Numbers

    @classmethod
    def single(cls, to: Numbers, from_: Numbers, lengths: Numbers) -> Rows:
        """Return copies of one row each."""
        return cls(to, from_, lengths, np.ones_like(lengths), lengths, lengths)

    @property
    def ends(self) -> Numbers:
        """The end of each copy in the source."""
        ends: Numbers = self.from_ + (self.counts - 1) * self.steps + self.lengths
        return ends

    @property
    def sizes(self) -> Numbers:
        """Bytes of all rows of each copy."""
        return self.lengths * self.counts

    @property
    def to_ends(self) -> Numbers:
        """The end of each copy in the destination."""
        ends: Numbers = self.to + (self.counts - 1) * self.to_steps + self.lengths
        return ends

    def select(self, selection: Any) -> Rows:
        """Return the copies that a NumPy index selects."""
        return Rows(*(column[selection] for column in self))

    def run(self, read: Array, written: Array) -> None:
        """Copy the bytes."""
        order = np.lexsort(self[2:])
        kinds = np.stack(self[2:])[:, order]
        firsts = np.flatnonzero(np.append(True, (kinds[:, 1:] != kinds[:, :-1]).any(0))[: order.size])
        for group in np.split(order, firsts[1:]) if order.size else ():
            to, from_ = self.to[group], self.from_[group]
            length, count, to_step, step = (int(column[group[0]]) for column in self[2:])
            if length * count >= MIN_ALONE:
                # Long rows are copied as bytes, so that other threads run meanwhile.
                dtype, shape = (word(length), (count,)) if length <= LONGEST_WORD else (np.uint8, (count, length))
                strides, to_strides = ((first, 1)[: len(shape)] for first in (step, to_step))
                for one_to, one_from in zip(to.tolist(), from_.tolist(), strict=True):
                    rows = np.ndarray(shape, dtype, read.data, one_from, strides)
                    np.ndarray(shape, dtype, written.data, one_to, to_strides)[...] = rows
                continue
            source, target, row_number = (
                _view_at_every_byte(read, length),
                _view_at_every_byte(written, length),
                np.arange(count),
            )
            turns_per_copy = COPY_BYTES // (length * count)
            for first in range(0, to.size, turns_per_copy):
                part = slice(first, first + turns_per_copy)
                target[np.add.outer(to[part], row_number * to_step)] = source[
                    np.add.outer(from_[part], row_number * step)
                ]


class RowTable(NamedTuple):
    """Copies of rows, many of which have the same shape.

    Attributes:
        to: as in `Rows`.
        from_: as in `Rows`.
        shape: number of the shape of each copy.
        shapes: the other columns of `Rows`, a row for each shape.
    """

    to: Numbers
    from_: Numbers
    shape: Numbers
    shapes: Numbers

    @classmethod
    def of(cls, rows: Rows) -> RowTable:
        """Return a table of copies."""
        shapes, shape = np.unique(np.stack(rows[2:], 1), axis=0, return_inverse=True)
        return cls(rows.to, rows.from_, shape.reshape(-1).astype(np.int32), shapes)

    @property
    def rows(self) -> Rows:
        """The copies as rows."""
        return Rows(self.to, self.from_, *self.shapes[self.shape].T)

    @property
    def ends(self) -> Numbers:
        """The end of each copy in the source."""
        lengths, counts, _, steps = self.shapes.T
        ends: Numbers = self.from_ + ((counts - 1) * steps + lengths)[self.shape]
        return ends

    @property
    def to_ends(self) -> Numbers:
        """The end of each copy in the destination."""
        lengths, counts, to_steps, _ = self.shapes.T
        ends: Numbers = self.to + ((counts - 1) * to_steps + lengths)[self.shape]
        return ends

    @property
    def sizes(self) -> Numbers:
        """Bytes of all rows of each copy."""
        sizes: Numbers = self.shapes[:, :2].prod(1)[self.shape]
        return sizes

    def select(self, selection: Any) -> RowTable:
        """Return the copies that a NumPy index selects."""
        return RowTable(self.to[selection], self.from_[selection], self.shape[selection], self.shapes)


def _view_at_every_byte(buffer: Array, length: int) -> Array:
    """Return a view of a buffer with an element of `length` bytes at every byte."""
    return np.ndarray((max(0, buffer.size - length + 1),), f"V{length}", buffer.data, 0, (1,))


@dataclass(frozen=True, eq=False)
class RunCopies:
    """Copies of runs of bytes between two operands, sorted by destination; no byte is written twice.

    Attributes:
        destination: number of the operand that is written.
        source: number of the operand that is read.
        to: offset of each copy in the destination, in bytes.
        from_: offset of each copy in the source.
        lengths: bytes of each copy.
    """

    destination: int
    source: int
    to: Numbers
    from_: Numbers
    lengths: Numbers

    @property
    def bytes(self) -> int:
        """Total bytes."""
        return int(self.lengths.sum())

    def state(self) -> tuple[Any, ...]:
        """Return numbers and a digest that are equal for equal copies."""
        digest = hashlib.sha256()
        for column in (self.to, self.from_, self.lengths):
            digest.update(np.ascontiguousarray(column).data)
        return self.destination, self.source, self.to.size, digest.digest()

    def moves(self) -> Iterator[Move]:
        """Yield the copies as moves."""
        for to, from_, length in zip(self.to.tolist(), self.from_.tolist(), self.lengths.tolist(), strict=True):
            yield Move((), Access(self.destination, to, ()), Access(self.source, from_, ()), length)

    def inside(self, low: int, high: int) -> Rows:
        """Return the copies to an interval of the destination, with offsets from the start of the interval."""
        first, last = max(0, int(self.to.searchsorted(low, "right")) - 1), int(self.to.searchsorted(high))
        to, from_, lengths = (column[first:last] for column in (self.to, self.from_, self.lengths))
        start, stop = np.maximum(to, low), np.minimum(to + lengths, high)
        are_inside = stop > start
        return Rows.single((start - low)[are_inside], (from_ + start - to)[are_inside], (stop - start)[are_inside])


def copies_of(destination: int, source: int, to: Numbers, from_: Numbers, length: int) -> RunCopies:
    """Return copies of one length as rows; copies that are contiguous on both sides are merged."""
    order = np.argsort(to, kind="stable")
    to, from_ = to[order], from_[order]
    goes_on = (to[1:] == to[:-1] + length) & (from_[1:] == from_[:-1] + length)
    firsts = np.flatnonzero(np.concatenate([[True], ~goes_on])) if to.size else np.empty(0, np.int64)
    counts = np.diff(np.append(firsts, to.size))
    return RunCopies(destination, source, to[firsts], from_[firsts], counts * length)


def staged_copies(
    operand: int, in_block: Rows, gap: int, base: int
) -> tuple[list[Transfer], tuple[Numbers, Numbers, Numbers], int]:
    """Return the requests that read the sources of rows, and the copies from their buffer.

    Args:
        operand: number of the source.
        in_block: the rows, with offsets in the source.
        gap: largest number of unneeded bytes between two runs of a read.
        base: start of the free part of the read buffer.

    Returns:
        The requests, the offsets and lengths of the copies, and the start of the free part after them.
    """
    order = np.argsort(in_block.from_, kind="stable")
    to, from_, lengths = (column[order] for column in in_block[:3])
    starts, _, _ = merge_intervals(from_, from_ + lengths, gap)
    # If nearly every row is a separate request, rows are read directly into the write buffer.
    is_direct = lengths >= (SCATTERED if 2 * starts.size > from_.size else DIRECT)
    if is_direct.any() and not is_direct.all():
        # Shorter rows between these are read by the same requests, unless nearly all are short.
        run_number = np.cumsum(are_apart(from_, lengths)) - 1
        counts, sizes = np.bincount(run_number), np.bincount(run_number, lengths)
        is_direct |= ((np.bincount(run_number, is_direct) > 0) & (sizes >= SCATTERED * counts))[run_number]
    spans = [scattered_reads(operand, from_[is_direct], to[is_direct], lengths[is_direct])] if is_direct.any() else []
    to, from_, lengths = to[~is_direct], from_[~is_direct], lengths[~is_direct]
    if not from_.size:
        return spans, (to, from_, lengths), base
    starts, ends, group = merge_intervals(from_, from_ + lengths, gap)
    sizes = ends - starts
    places = base + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    spans.append(Transfer(operand, starts, places, sizes))
    return spans, (to, from_ - starts[group] + places[group], lengths), base + round_to_cache_lines(int(sizes.sum()))


def copies_of_block(
    rows: Sequence[RunCopies], low: int, high: int, gap: int, base: int
) -> tuple[list[Transfer], Rows, int]:
    """Return requests, copies and the end of the read buffer for all rows of an interval, as `staged_copies` does."""
    spans, copies = list[Transfer](), list[tuple[Numbers, Numbers, Numbers]]()
    for row in rows:
        if row.to.size and row.to[0] < high and row.to[-1] + row.lengths[-1] > low:
            in_block = row.inside(low, high)
            row_spans, direct, base = staged_copies(row.source, in_block, gap, base)
            spans += row_spans
            copies.append(direct)
    none = np.empty(0, np.int64)
    columns = zip((none, none, none), *copies, strict=True)
    return spans, Rows.single(*map(np.concatenate, columns)), base
