"""Runs of bytes: every part of every row, one pass, in the order of the rows.

A unit is one run of one part: units of a row follow each other, so that a split reads its source once from front to
back, and a join writes its destination so. Long runs come cut into several parts. Rows of one part alone are taken
from the last to the first, and the lines they share are put together (see `shared_lines`).
"""

from __future__ import annotations

from functools import cache

from anydml.engines.cpu.kernels.driver import (
    HEADER,
    PARTS,
    RANK,
    STREAMED,
    UNITS,
    UNITS_PER_CLAIM,
    claim,
    compiled,
    walk,
    word,
)
from anydml.engines.cpu.kernels.ir import copy_run, fence, load, scratch, stream
from anydml.engines.cpu.kernels.language import uint64
from anydml.engines.cpu.kernels.loading import Kernel
from anydml.engines.cpu.kernels.shared_lines import SHARED_LINE, finish_down, stream_down

PART_WORDS = 3
"""Words of a part before its strides: destination, source, bytes. Then two strides a dimension."""


@cache
def rows_kernel() -> Kernel:
    """Table: header, sizes, then for each part `PART_WORDS` and ``2 · rank`` strides."""

    def rows(table, counter, chunks):
        units, streamed = word(table, UNITS), word(table, STREAMED)
        parts, rank = word(table, PARTS), word(table, RANK)
        sizes = table + uint64(8 * HEADER)
        first_part = sizes + uint64(8) * rank
        part_bytes = uint64(8) * (uint64(PART_WORDS) + uint64(2) * rank)
        to_strides, from_strides = uint64(8 * PART_WORDS), uint64(8 * PART_WORDS + 8)
        step = word(table, UNITS_PER_CLAIM)
        edge = scratch(SHARED_LINE)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            end = min(begin + step, units)
            if parts == uint64(1) and rank > uint64(0):
                # What the table says is read once a line: a read that follows stores may have to wait for them.
                outer = rank - uint64(1)
                rows_of_line, size = load(sizes + uint64(8) * outer), word(first_part, 2)
                to_step = load(first_part + to_strides + uint64(16) * outer)
                from_step = load(first_part + from_strides + uint64(16) * outer)
                above = uint64(0)
                while end > begin:
                    line = (end - uint64(1)) // rows_of_line
                    stop = max(line * rows_of_line, begin)
                    row = end - line * rows_of_line
                    destination = word(first_part, 0) + row * to_step
                    destination += walk(sizes, outer, line, first_part + to_strides, uint64(16))
                    source = word(first_part, 1) + row * from_step
                    source += walk(sizes, outer, line, first_part + from_strides, uint64(16))
                    if streamed == uint64(0):
                        destination -= (end - stop) * to_step
                        source -= (end - stop) * from_step
                        while end > stop:
                            copy_run(destination, source, size)
                            end -= uint64(1)
                            destination += to_step
                            source += from_step
                    while end > stop:
                        end -= uint64(1)
                        destination -= to_step
                        source -= from_step
                        above = stream_down(destination, source, size, source - from_step, edge, above)
                finish_down(edge, above)
                continue
            row = begin // parts
            part = begin - row * parts
            for _ in range(begin, end):
                entry = first_part + part * part_bytes
                destination = word(entry, 0) + walk(sizes, rank, row, entry + to_strides, uint64(16))
                source = word(entry, 1) + walk(sizes, rank, row, entry + from_strides, uint64(16))
                stream(destination, source, word(entry, 2), streamed)
                part += uint64(1)
                if part == parts:
                    part = uint64(0)
                    row += uint64(1)
        fence()
        return uint64(1)

    return compiled(rows)
