"""Fills: one element again and again, in runs. It is read once, and what leaves the registers is whole lines of it."""

from __future__ import annotations

from functools import cache

from numba import uint64

from anydml.engines.cpu.kernels.driver import HEADER, RANK, STREAMED, UNITS, Kernel, claim, compiled, walk, word
from anydml.engines.cpu.kernels.ir import (
    LINE,
    copy,
    copy_rest,
    fence,
    helper,
    load,
    scratch,
    short_of_line,
    stream_line,
)

TO, SOURCE, ELEMENT, RUN, LAST_RUN = range(HEADER, HEADER + 5)
SIZES = HEADER + 5
"""Words of the table after the header: both addresses, bytes of the element (a power of two, a line at most), of a run,
and of the last run of a line of runs, one at least; then sizes and the destination's strides."""

LINES = 192
"""Bytes of scratch: a line of elements that begins anywhere in the first."""


@helper
def fill_run(to, size, lines, element, streamed):
    """Fill a run with what stands, again and again, from `lines` on."""
    if size < uint64(2 * LINE):
        at = uint64(0)
        if size >= uint64(LINE):
            copy(to, lines, uint64(LINE))
            at = uint64(LINE)
        copy_rest(to + at, lines, size - at)
        return
    copy(to, lines, uint64(LINE))
    rest = (size - uint64(LINE)) & (element - uint64(1))
    copy(to + size - uint64(LINE), lines + rest, uint64(LINE))
    at = short_of_line(to)
    whole = lines + (at & (element - uint64(1)))
    end = to + size - uint64(LINE)
    at += to
    if streamed != uint64(0):
        while at <= end:
            stream_line(at, whole)
            at += uint64(LINE)
        return
    while at + uint64(3 * LINE) <= end:
        copy(at, whole, uint64(LINE))
        copy(at + uint64(LINE), whole, uint64(LINE))
        copy(at + uint64(2 * LINE), whole, uint64(LINE))
        copy(at + uint64(3 * LINE), whole, uint64(LINE))
        at += uint64(4 * LINE)
    while at <= end:
        copy(at, whole, uint64(LINE))
        at += uint64(LINE)


@cache
def fill_kernel() -> Kernel:
    """The kernel for any element whose size divides a line. A unit is a run."""

    def fill(table, counter, chunks):
        units, streamed, step = word(table, UNITS), word(table, STREAMED), word(table, 1)
        outer = word(table, RANK) - uint64(1)
        element, run, last_run = word(table, ELEMENT), word(table, RUN), word(table, LAST_RUN)
        sizes = table + uint64(8 * SIZES)
        strides = sizes + uint64(8) * (outer + uint64(1))
        runs, gap = load(sizes + uint64(8) * outer), load(strides + uint64(8) * outer)
        lines = scratch(LINES)
        known = min(element, uint64(LINE))
        copy(lines, word(table, SOURCE), known)
        while known < uint64(LINES):
            more = min(known, uint64(LINES) - known)
            copy(lines + known, lines, more)
            known += more
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            end = min(begin + step, units)
            while begin < end:
                line = begin // runs
                first = begin - line * runs
                stop = min(runs, first + end - begin)
                to = word(table, TO) + walk(sizes, outer, line, strides, uint64(8)) + first * gap
                begin += stop - first
                for k in range(first, stop):
                    fill_run(to, last_run if uint64(k) + uint64(1) == runs else run, lines, element, streamed)
                    to += gap
        fence()
        return uint64(1)

    return compiled(fill)
