"""Lookups: elements or rows picked by an index tensor, wrapped and clamped without a branch.

A unit is a segment of indices for a block of lines. Its indices are resolved once into byte offsets, which serve every
line of the block, and which are known early enough to prefetch what they point to.
"""

from __future__ import annotations

from functools import cache

from numba import int64, uint64

from anydml.backends.cpu.kernels.driver import HEADER, PAST, RANK, UNITS, Kernel, claim, compiled, word
from anydml.backends.cpu.kernels.ir import copy, fence, load, load_index, prefetch, scratch, store, stream

INNER, SEGMENT, LINES, BLOCK_LINES, ELEMENT, AXIS, AXIS_STRIDE = range(HEADER, HEADER + 7)
SIZES = HEADER + 7
"""Words of the table after the header: indices of a line, indices of a unit, lines that share indices, lines of a
unit, bytes of an element, the axis' size and byte stride; then the sizes of the outer box, and for destination, source
and indices each an address, an inner stride, a stride from line to line, and one stride a dimension of the box."""

BLOCK = 4096
"""Bytes of scratch that elements pass through on their way past the caches."""

MAX_SEGMENT = 512
OFFSETS = 8 * MAX_SEGMENT


@cache
def lookup_kernel(size: int, bits: int) -> Kernel:
    """The kernel for elements of `size` bytes (0: as the table says) and indices of `bits` (negative: signed)."""
    ahead = 48 if 0 < size <= 32 else 12 if 0 < size <= 512 else 2
    reach = size if 0 < size <= 512 else 1024

    def lookup(table, counter, chunks):
        units, past, rank, step = word(table, UNITS), word(table, PAST), word(table, RANK), word(table, 1)
        inner, segment = word(table, INNER), word(table, SEGMENT)
        lines, block = word(table, LINES), word(table, BLOCK_LINES)
        element = uint64(size) if size > 0 else word(table, ELEMENT)
        axis, axis_stride = word(table, AXIS), word(table, AXIS_STRIDE)
        segments = (inner + segment - uint64(1)) // segment
        blocks = (lines + block - uint64(1)) // block
        ends = table + uint64(8) * (uint64(SIZES) + rank)
        end_bytes = uint64(8) * (uint64(3) + rank)
        to_step, from_step = word(ends, 1), word(ends + end_bytes, 1)
        to_line, from_line = word(ends, 2), word(ends + end_bytes, 2)
        index_step = word(ends + uint64(2) * end_bytes, 1)
        offsets = scratch(OFFSETS)
        buffer = scratch(BLOCK)
        batch = max(uint64(BLOCK) // element, uint64(1))
        # Elements of half a block or more leave in whole lines by themselves.
        staged = past != uint64(0) and to_step == element and element <= uint64(BLOCK // 2)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            end = min(begin + step, units)
            for unit in range(begin, end):
                rest = unit // segments
                first = (unit - rest * segments) * segment
                count = min(segment, inner - first)
                outer = rest // blocks
                line = (rest - outer * blocks) * block
                last_line = min(line + block, lines)
                destination = word(ends, 0) + first * to_step
                source = word(ends + end_bytes, 0) + first * from_step
                indices = word(ends + uint64(2) * end_bytes, 0) + first * index_step
                d = rank
                while d > uint64(0):
                    d -= uint64(1)
                    at = outer
                    if d > uint64(0):
                        length = word(table, uint64(SIZES) + d)
                        at = outer % length
                        outer = outer // length
                    destination += at * word(ends, uint64(3) + d)
                    source += at * word(ends + end_bytes, uint64(3) + d)
                    indices += at * word(ends + uint64(2) * end_bytes, uint64(3) + d)
                for i in range(count):
                    index = load_index(indices + uint64(i) * index_step, bits)
                    if bits == 64:
                        place = min(uint64(index), axis - uint64(1))
                    else:
                        if bits < 0:
                            index += int64(axis) if index < int64(0) else int64(0)
                            index = max(index, int64(0))
                        place = uint64(min(index, int64(axis) - int64(1)))
                    store(offsets + uint64(8) * uint64(i), place * axis_stride + uint64(i) * from_step)
                while line < last_line:
                    to = destination + line * to_line
                    base = source + line * from_line
                    for i in range(min(uint64(ahead), count)):
                        prefetch(base + load(offsets + uint64(8) * uint64(i)))
                    i = uint64(0)
                    while i < count:
                        stop = min(i + batch, count)
                        target = buffer - i * element if staged else to
                        begin_batch = i
                        while i < stop:
                            if i + uint64(ahead) < count:
                                soon = base + load(offsets + uint64(8) * (i + uint64(ahead)))
                                for q in range(0, reach, 64):
                                    prefetch(soon + uint64(q))
                            at = base + load(offsets + uint64(8) * i)
                            if size > 0:
                                copy(target + i * (uint64(size) if staged else to_step), at, uint64(size))
                            else:
                                stream(to + i * to_step, at, element, past)
                            i += uint64(1)
                        if staged and size > 0:
                            stream(to + begin_batch * element, buffer, (stop - begin_batch) * element, past)
                    line += uint64(1)
        fence()
        return uint64(1)

    return compiled(lookup, size, bits)
