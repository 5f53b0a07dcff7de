"""Runs past the caches that continue each other: the line that two of them share leaves whole.

Stored in two parts, such a line is read first and passes through the caches. Instead the bytes on both sides wait in
two lines of scratch (the edge) until the line is complete. Rows that are cut out of wider ones are copied from the last
to the first, because that is what processors do fastest; looked-up rows from the first to the last.
"""

from __future__ import annotations

from numba import uint64

from anydml.backends.cpu.kernels.ir import (
    LINE,
    copy,
    copy_rest,
    helper,
    prefetch,
    short_of_line,
    stream_line,
    stream_lines,
)

EDGE = 2 * LINE
"""Bytes of scratch of an edge: the end of the run below, the beginning of the run above."""


@helper
def stream_down(destination, source, size, edge, above):
    """Copy a run past the caches, after the one that may follow it in the destination.

    Args:
        destination: where to.
        source: where from.
        size: bytes.
        edge: scratch of `EDGE` bytes.
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
    stream_lines(destination, source, head, whole)
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
    """Copy a run past the caches, after the one that may end where it begins, and ask for the lines of another.

    Args:
        destination: where to.
        source: where from.
        size: bytes.
        soon: where the run to ask for begins; it is as long.
        edge: scratch of `EDGE` bytes.
        below: where the run before ends in the destination, if the end of its last line waits in `edge`; otherwise 0,
            as for the first run.

    Returns:
        `below` for the next run, or for `finish_up` after the last.
    """
    prefetch(soon)
    if size < uint64(2 * LINE):
        finish_up(edge, below)
        prefetch(soon + size - uint64(1))
        copy(destination, source, size)
        return uint64(0)
    i = short_of_line(destination)
    if below == destination:
        copy(edge + uint64(LINE), source, uint64(LINE))
        stream_line(destination + i - uint64(LINE), edge + i)
    else:
        finish_up(edge, below)
        copy_rest(destination, source, i)
    tail = (destination + size) & uint64(LINE - 1)
    whole = size - tail
    while i + uint64(4 * LINE) <= whole:
        for q in range(uint64(0), uint64(4 * LINE), uint64(LINE)):
            prefetch(soon + i + q)
        for q in range(uint64(0), uint64(4 * LINE), uint64(LINE)):
            stream_line(destination + i + q, source + i + q)
        i += uint64(4 * LINE)
    while i < whole:
        prefetch(soon + i)
        stream_line(destination + i, source + i)
        i += uint64(LINE)
    prefetch(soon + size - uint64(1))
    if tail == uint64(0):
        return uint64(0)
    copy(edge, source + size - uint64(LINE), uint64(LINE))
    return destination + size


@helper
def finish_up(edge, below):
    """Write what waits of the last run of `stream_up`."""
    tail = below & uint64(LINE - 1)
    copy_rest(below - tail, edge + uint64(LINE) - tail, tail)
