"""Non-temporal stores of runs that continue each other: the line that two of them share leaves whole.

Stored in two parts, such a line is read first and passes through the caches. Instead the bytes on both sides wait in
two lines of scratch (the edge) until the line is complete. Rows that are cut out of wider ones are copied from the last
to the first, because that is what processors do fastest; looked-up rows from the first to the last.
"""

from __future__ import annotations

from anydml.engines.cpu.kernels.ir import LINE, copy, copy_rest, prefetch_once, short_of_line, stream_four, stream_line
from anydml.engines.cpu.kernels.language import helper, uint64

SHARED_LINE = 2 * LINE
"""Bytes of scratch of an edge: the end of the run below, the beginning of the run above."""

PREFETCH_BYTES = 8192
"""Bytes at most between what is copied and what is asked for, so that it is still in the nearest cache when needed."""


@helper
def stream_down(destination, source, size, soon, edge, above):
    """Copy a run by non-temporal stores, after the one that may follow it in the destination; prefetch another's lines.

    Args:
        destination: where to.
        source: where from.
        size: bytes.
        soon: where the run to ask for begins; it is as long.
        edge: scratch of `SHARED_LINE` bytes.
        above: where the run before begins in the destination, if the beginning of its first line waits in `edge`;
            otherwise 0, as for the first run.

    Returns:
        `above` for the next run, or for `finish_down` after the last.
    """
    if size < uint64(2 * LINE):
        finish_down(edge, above)
        copy(destination, source, size)
        return uint64(0)
    tail = (destination + size) & uint64(LINE - 1)
    whole = size - tail
    if above == destination + size:
        copy(edge, source + size - uint64(LINE), uint64(LINE))
        stream_line(destination + whole, edge + uint64(LINE) - tail)
    else:
        finish_down(edge, above)
        copy_rest(destination + whole, source + whole, tail)
    head = short_of_line(destination)
    stream_and_ask(destination, source, size, head, whole, soon, uint64(1))
    if head == uint64(0):
        return uint64(0)
    copy(edge + uint64(LINE), source, uint64(LINE))
    return destination


@helper
def finish_down(edge, above):
    """Write what waits of the last run of `stream_down`."""
    if above != uint64(0):
        copy_rest(above, edge + uint64(LINE), short_of_line(above))


@helper
def stream_up(destination, source, size, soon, edge, below):
    """Copy a run by non-temporal stores, after the one that may end where it begins; prefetch the lines of another.

    Args:
        destination: where to.
        source: where from.
        size: bytes.
        soon: where the run to ask for begins; it is as long.
        edge: scratch of `SHARED_LINE` bytes.
        below: where the run before ends in the destination, if the end of its last line waits in `edge`; otherwise 0,
            as for the first run.

    Returns:
        `below` for the next run, or for `finish_up` after the last.
    """
    if size < uint64(2 * LINE):
        prefetch_once(soon)
        prefetch_once(soon + size - uint64(1))
        finish_up(edge, below)
        copy(destination, source, size)
        return uint64(0)
    head = short_of_line(destination)
    if below == destination:
        copy(edge + uint64(LINE), source, uint64(LINE))
        stream_line(destination + head - uint64(LINE), edge + head)
    else:
        finish_up(edge, below)
        copy_rest(destination, source, head)
    tail = (destination + size) & uint64(LINE - 1)
    stream_and_ask(destination, source, size, head, size - tail, soon, uint64(0))
    if tail == uint64(0):
        return uint64(0)
    copy(edge, source + size - uint64(LINE), uint64(LINE))
    return destination + size


@helper
def finish_up(edge, below):
    """Write what waits of the last run of `stream_up`."""
    tail = below & uint64(LINE - 1)
    copy_rest(below - tail, edge + uint64(LINE) - tail, tail)


@helper
def stream_and_ask(destination, source, size, first, end, soon, ordered):
    """Copy the bytes of a run from `first` to `end`, which fall on lines of the destination, with non-temporal stores.

    Prefetches what comes `PREFETCH_BYTES` later, or a run later if runs are shorter: processors foresee lines that
    follow each other, but not where the next run begins, and a core that waits for lines does not write either.

    Args:
        destination: where to.
        source: where from.
        size: bytes of the whole run.
        first: where the first line begins.
        end: where the last line ends.
        soon: where the next run begins; it is as long.
        ordered: 1 where runs follow each other at a step, so that four lines at a time are there to be loaded before
            the first is stored; 0 where they lie anywhere, and each line is stored as it comes.
    """
    ahead = min(size, uint64(PREFETCH_BYTES))
    turn = size - ahead
    middle = first
    if turn > first:
        middle += (turn - first) & ~uint64(LINE - 1)
        _stream_and_ask(destination, source, first, middle, source + ahead, ordered)
    prefetch_once(soon)
    _stream_and_ask(destination, source, middle, end, soon - turn, ordered)
    prefetch_once(soon + ahead - uint64(1))


@helper
def _stream_and_ask(destination, source, first, end, soon, ordered):
    i = first
    while i + uint64(4 * LINE) <= end:
        for q in range(uint64(0), uint64(4 * LINE), uint64(LINE)):
            prefetch_once(soon + i + q)
        if ordered != uint64(0):
            stream_four(destination + i, source + i)
        else:
            for q in range(uint64(0), uint64(4 * LINE), uint64(LINE)):
                stream_line(destination + i + q, source + i + q)
        i += uint64(4 * LINE)
    while i < end:
        prefetch_once(soon + i)
        stream_line(destination + i, source + i)
        i += uint64(LINE)
