"""Single elements and short runs at any strides: what is neither long enough for rows nor regular enough to interleave.

A unit is a segment of a line of every part, so that a split reads each block of its source while it is near. Where the
source runs along another dimension than the destination (a transposition), neighbouring lines follow each other for
one segment, so that a line of cache that was read is used up before it goes.
"""

from __future__ import annotations

from functools import cache

from anydml.engines.cpu.kernels.blanks import constant
from anydml.engines.cpu.kernels.driver import HEADER, PARTS, RANK, STREAMED, UNITS, claim, compiled, walk, word
from anydml.engines.cpu.kernels.ir import copy, copy_lines, fence, prefetch, scratch, stream
from anydml.engines.cpu.kernels.language import uint64
from anydml.engines.cpu.kernels.loading import Kernel

INNER, SEGMENT, LINES_TOGETHER = HEADER, HEADER + 1, HEADER + 2
SIZES = HEADER + 3
"""Words of the table after the header: elements of a line, elements of a unit, lines that follow each other for one
segment; then the sizes of the box of lines, and for each part its entry."""

PART_WORDS = 5
"""Words of a part before its strides: destination, source, their inner strides, bytes of an element. Then two strides a
dimension."""

BLOCK = 4096
"""Bytes of scratch."""

PARTS_AHEAD = 4
"""How many neighbouring parts ahead the source is asked for."""


@cache
def elements_kernel(size: int) -> Kernel:
    """The kernel for elements of `size` bytes; 0: of as many as the table says of each part."""

    def elements(table, counter, chunks):
        size = constant("size")
        units, streamed, step = word(table, UNITS), word(table, STREAMED), word(table, 1)
        parts, rank = word(table, PARTS), word(table, RANK)
        inner, segment, together = word(table, INNER), word(table, SEGMENT), word(table, LINES_TOGETHER)
        segments = (inner + segment - uint64(1)) // segment
        sizes = table + uint64(8 * SIZES)
        first_part = sizes + uint64(8) * rank
        part_bytes = uint64(8) * (uint64(PART_WORDS) + uint64(2) * rank)
        buffer = scratch(BLOCK)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            end = min(begin + step, units)
            for unit in range(begin, end):
                rest = unit // together
                low = unit - rest * together
                line = (rest // segments) * together + low
                first = (rest % segments) * segment
                count = min(segment, inner - first)
                for part in range(parts):
                    entry = first_part + uint64(part) * part_bytes
                    to_step, from_step = word(entry, 2), word(entry, 3)
                    destination = word(entry, 0) + first * to_step
                    source = word(entry, 1) + first * from_step
                    strides = entry + uint64(8 * PART_WORDS)
                    destination += walk(sizes, rank, line, strides, uint64(16))
                    source += walk(sizes, rank, line, strides + uint64(8), uint64(16))
                    if size == uint64(0):
                        run = word(entry, 4)
                        target = destination
                        if to_step == run and streamed != uint64(0):
                            target = buffer
                        soon = source + uint64(PARTS_AHEAD) * run
                        for i in range(count):
                            for q in range(uint64(0), run, uint64(64)):
                                prefetch(soon + uint64(i) * from_step + q)
                            copy_lines(target + uint64(i) * to_step, source + uint64(i) * from_step, run)
                        if target == buffer:
                            stream(destination, buffer, count * to_step, streamed)
                    elif to_step != size:
                        for i in range(count):
                            copy(destination + uint64(i) * to_step, source + uint64(i) * from_step, size)
                    elif streamed != uint64(0):
                        for i in range(count):
                            copy(buffer + uint64(i) * size, source + uint64(i) * from_step, size)
                        stream(destination, buffer, count * size, streamed)
                    else:
                        for i in range(count):
                            copy(destination + uint64(i) * size, source + uint64(i) * from_step, size)
        fence()
        return uint64(1)

    return compiled(elements, size, blanks={"size": size})
