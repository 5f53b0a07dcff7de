"""Runs of bytes: every part of every row, one pass, in the order of the rows.

A unit is one run of one part: units of a row follow each other, so that a split reads its source once from front to
back, and a join writes its destination so. Long runs come cut into several parts. Rows of one part alone are taken
from the last to the first, and the lines they share are put together (see `edges`).
"""

from __future__ import annotations

from functools import cache

from numba import uint64

from anydml.backends.cpu.kernels.driver import HEADER, PARTS, PAST, RANK, UNITS, Kernel, claim, compiled, word
from anydml.backends.cpu.kernels.edges import EDGE, finish_down, stream_down
from anydml.backends.cpu.kernels.ir import fence, scratch, stream

PART_WORDS = 3
"""Words of a part before its strides: destination, source, bytes. Then two strides a dimension."""


@cache
def rows_kernel() -> Kernel:
    """Table: header, sizes, then for each part `PART_WORDS` and ``2 · rank`` strides."""

    def rows(table, counter, chunks):
        units, past = word(table, UNITS), word(table, PAST)
        parts, rank = word(table, PARTS), word(table, RANK)
        first_part = table + uint64(8) * (uint64(HEADER) + rank)
        part_bytes = uint64(8) * (uint64(PART_WORDS) + uint64(2) * rank)
        step = word(table, 1)
        down = past != uint64(0) and parts == uint64(1)
        edge = scratch(EDGE)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            end = min(begin + step, units)
            above = uint64(0)
            row = begin // parts
            part = begin - row * parts
            if down:
                row = end - uint64(1)
            for _ in range(begin, end):
                entry = first_part + part * part_bytes
                destination, source, size = word(entry, 0), word(entry, 1), word(entry, 2)
                rest = row
                d = rank
                while d > uint64(0):
                    d -= uint64(1)
                    at = rest
                    if d > uint64(0):
                        length = word(table, uint64(HEADER) + d)
                        at = rest % length
                        rest = rest // length
                    destination += at * word(entry, uint64(PART_WORDS) + uint64(2) * d)
                    source += at * word(entry, uint64(PART_WORDS + 1) + uint64(2) * d)
                if down:
                    above = stream_down(destination, source, size, edge, above)
                    row -= uint64(1)
                    continue
                stream(destination, source, size, past)
                part += uint64(1)
                if part == parts:
                    part = uint64(0)
                    row += uint64(1)
            finish_down(edge, above)
        fence()
        return uint64(1)

    return compiled(rows)
