"""Rows: the many copies that index arrays ask for, as numbers rather than as a move each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anydml.moves import Access, Move
from anydml.stores.transfers import DIRECT, SCATTERED, Offsets, Spans, aligned

FEW = 256
"""Copies that are moves: those can be cut in more ways, and of so few nobody notices what each costs."""

MOST_ROWS = 1 << 18
"""Copies that a plan holds for one move."""

AT_ONCE = 64 << 10
"""Bytes that are copied in between while rows are brought to their places."""

Array = np.ndarray[Any, np.dtype[Any]]


class Copied(NamedTuple):
    """Copies from the buffer of what was read to that of what is written.

    Attributes:
        to: where each begins in the second.
        at: where each begins in the first.
        lengths: bytes of each.
    """

    to: Offsets
    at: Offsets
    lengths: Offsets

    def run(self, read: Array, written: Array) -> None:
        """Copy the bytes."""
        for length in np.unique(self.lengths).tolist():
            same = self.lengths == length
            to, at = self.to[same], self.at[same]
            source, target = _every(read, length), _every(written, length)
            step = max(1, AT_ONCE // length)
            for first in range(0, to.size, step):
                own = slice(first, first + step)
                target[to[own]] = source[at[own]]


def _every(buffer: Array, length: int) -> Array:
    """The element of so many bytes that begins at each byte of a buffer."""
    return np.ndarray((max(0, buffer.size - length + 1),), f"V{length}", buffer.data, 0, (1,))


@dataclass(frozen=True, eq=False)
class Rows:
    """Copies of runs of bytes from one operand to another, in the order of where they go; none is written twice.

    Attributes:
        destination: number of the operand that is written.
        source: number of the one that is read.
        to: where each begins in the first, in bytes.
        at: where each begins in the second.
        lengths: bytes of each.
    """

    destination: int
    source: int
    to: Offsets
    at: Offsets
    lengths: Offsets

    @property
    def bytes(self) -> int:
        """Bytes in all."""
        return int(self.lengths.sum())

    def moves(self) -> Iterator[Move]:
        """The same as moves."""
        for to, at, length in zip(self.to.tolist(), self.at.tolist(), self.lengths.tolist(), strict=True):
            yield Move((), Access(self.destination, to, ()), Access(self.source, at, ()), length)

    def inside(self, left: int, right: int) -> Copied:
        """Those of an interval of the destination, from its beginning on."""
        first = max(0, int(np.searchsorted(self.to, left, "right")) - 1)
        last = int(np.searchsorted(self.to, right, "left"))
        to, at, lengths = (each[first:last] for each in (self.to, self.at, self.lengths))
        start, stop = np.maximum(to, left), np.minimum(to + lengths, right)
        some = stop > start
        return Copied((start - left)[some], (at + start - to)[some], (stop - start)[some])


def rows_of(destination: int, source: int, to: Offsets, at: Offsets, length: int) -> Rows:
    """Rows of copies of one length each; those that continue each other at both ends are one."""
    order = np.argsort(to, kind="stable")
    to, at = to[order], at[order]
    goes_on = (to[1:] == to[:-1] + length) & (at[1:] == at[:-1] + length)
    firsts = np.flatnonzero(np.concatenate([[True], ~goes_on])) if to.size else np.empty(0, np.int64)
    counts = np.diff(np.append(firsts, to.size))
    return Rows(destination, source, to[firsts], at[firsts], counts * length)


def staged_rows(
    operand: int, found: Copied, gap: int, base: int
) -> tuple[list[Spans], tuple[Offsets, Offsets, Offsets], int]:
    """Requests for the sources of rows, and what has to be copied then.

    Args:
        operand: number of the source.
        found: the rows, whose sources lie in its file.
        gap: bytes between two runs at most that are read with them.
        base: where the free part of the buffer of what is read begins.

    Returns:
        The requests, the copies' places and lengths, and where the free part begins after them.
    """
    order = np.argsort(found.at, kind="stable")
    to, at, lengths = (each[order] for each in found)
    ends = np.maximum.accumulate(at + lengths)
    begins = np.concatenate([[True], at[1:] > ends[:-1] + gap])
    firsts = np.flatnonzero(begins)
    # Where nearly every row is a request of its own, it goes where it belongs at once.
    own = lengths >= (SCATTERED if 2 * firsts.size > at.size else DIRECT)
    spans = [Spans(operand, at[own], to[own], lengths[own], True)] if own.any() else []
    to, at, lengths = to[~own], at[~own], lengths[~own]
    if not at.size:
        return spans, (to, at, lengths), base
    ends = np.maximum.accumulate(at + lengths)
    begins = np.concatenate([[True], at[1:] > ends[:-1] + gap])
    firsts = np.flatnonzero(begins)
    starts, sizes = at[firsts], ends[np.append(firsts[1:], at.size) - 1] - at[firsts]
    places = base + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    spans.append(Spans(operand, starts, places, sizes))
    group = np.cumsum(begins) - 1
    return spans, (to, at - starts[group] + places[group], lengths), base + aligned(int(sizes.sum()))


def laid_rows(rows: Sequence[Rows], left: int, right: int, gap: int, base: int) -> tuple[list[Spans], Copied, int]:
    """Requests, copies and the buffer of all rows of an interval; as `staged_rows`."""
    spans, copies = list[Spans](), list[tuple[Offsets, Offsets, Offsets]]()
    for each in rows:
        found = each.inside(left, right)
        if found.to.size:
            more, own, base = staged_rows(each.source, found, gap, base)
            spans += more
            copies.append(own)
    none = np.empty(0, np.int64)
    return spans, Copied(*(np.concatenate([none, *each]) for each in zip(*copies, strict=True)) if copies else
                         (none, none, none)), base  # fmt: skip
