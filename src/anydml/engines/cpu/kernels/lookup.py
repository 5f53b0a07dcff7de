"""Lookups: elements or rows picked by an index tensor, wrapped and clamped without a branch that mispredicts.

Three kernels, because what costs time differs. Rows cost memory traffic: while one is copied, the lines of one further
on are asked for. Scattered elements cost latency: while one segment is copied, the next one's indices are resolved and
what they point to is asked for. Lines that share their indices cost arithmetic: indices are resolved once for many.

All three have one table: header, `Words`, the sizes of the outer box, and for destination, source and indices an entry
each: address, inner stride, stride from line to line, and one stride a dimension of the box.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from anydml.engines.cpu.kernels.blanks import Filling, blank, constant
from anydml.engines.cpu.kernels.driver import HEADER, RANK, STREAMED, UNITS, claim, compiled, walk, word
from anydml.engines.cpu.kernels.indices import clamped_at
from anydml.engines.cpu.kernels.ir import copy, copy_run, fence, load, prefetch, scratch, store, stream
from anydml.engines.cpu.kernels.language import helper, intrinsic, types, uint64
from anydml.engines.cpu.kernels.loading import Kernel
from anydml.engines.cpu.kernels.shared_lines import SHARED_LINE, finish_up, stream_up

INNER, SEGMENT, LINES, BLOCK_LINES, ELEMENT, AXIS, AXIS_STRIDE = range(HEADER, HEADER + 7)
SIZES = HEADER + 7
"""Words of the table after the header: indices of a line, indices of a unit, lines that share indices, lines of a
unit, bytes of an element, the axis' size and byte stride; then the sizes of the outer box, and the three entries."""

BLOCK = 4096
"""Bytes of scratch that elements pass through before non-temporal stores."""

ROW_SEGMENT, ELEMENT_SEGMENT, LINE_SEGMENT = 512, 128, 2048
"""Indices of a unit of rows; indices that are resolved ahead; indices that are resolved for a block of lines."""

ELEMENT_OFFSETS, LINE_OFFSETS, ELEMENT_BLOCK = 8 * ELEMENT_SEGMENT, 8 * LINE_SEGMENT, 64 * ELEMENT_SEGMENT
"""Bytes of scratch for resolved indices, and for the elements of a segment."""

AHEAD, MOST_AHEAD, NEAR_ROW = 6144, 24, 1024
"""Bytes of rows, and rows at most, between the one that is copied and the one that is asked for; bytes of it that are
asked for, where the rest is left to the processor."""

ROW_ADDRESSES = 8 * (ROW_SEGMENT + MOST_AHEAD)
"""Bytes of scratch for the addresses of a unit's rows and those after them."""

NEAR_ELEMENTS = 512 << 10
"""Bytes of an axis whose elements are taken one by one: caches are faster than what would ask for them ahead."""

NEAR_AXIS = 32 << 10
"""Bytes of an axis that is read line by line: the next line is asked for whole."""


@intrinsic
def index_of(typing: Any, address: Any, axis: Any) -> Any:
    """The coordinate that the index at an address stands for: wrapped once if negative, then clamped into the axis."""
    return types.uint64(types.uint64, types.uint64), blank("index_of")


def _blanks(bits: int, size: int = 0) -> dict[str, Filling]:
    """What a variant's blanks stand for: its indices' type, the bytes of its elements."""
    return {"size": size, "index_of": lambda builder, arguments: clamped_at(builder, arguments[0], arguments[1], bits)}


@helper
def entry_address(table, number, rank, outer, first):
    """The address of an operand (0 written, 1 read, 2 indices) at an outer coordinate and inner position."""
    entry = table + uint64(8) * (uint64(SIZES) + rank + uint64(number) * (uint64(3) + rank))
    offset = walk(table + uint64(8 * SIZES), rank, outer, entry + uint64(8 * 3), uint64(8))
    return load(entry) + first * word(entry, 1) + offset


@helper
def entry_stride(table, number, rank, which):
    """An operand's inner stride (1) or its stride from line to line (2)."""
    return word(table, uint64(SIZES) + rank + uint64(number) * (uint64(3) + rank) + uint64(which))


@cache
def rows_kernel(bits: int) -> Kernel:
    """Rows of any size by indices of `bits` (negative: signed). A unit is a segment of a line's indices."""

    def lookup_rows(table, counter, chunks):
        units, streamed, rank, step = word(table, UNITS), word(table, STREAMED), word(table, RANK), word(table, 1)
        inner, segment, element = word(table, INNER), word(table, SEGMENT), word(table, ELEMENT)
        axis, axis_stride = word(table, AXIS), word(table, AXIS_STRIDE)
        to_step = entry_stride(table, uint64(0), rank, uint64(1))
        from_step = entry_stride(table, uint64(1), rank, uint64(1))
        index_step = entry_stride(table, uint64(2), rank, uint64(1))
        segments = (inner + segment - uint64(1)) // segment
        ahead = min(max(uint64(AHEAD) // element, uint64(1)), uint64(MOST_AHEAD))
        edge, rows = scratch(SHARED_LINE), scratch(ROW_ADDRESSES)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                outer = unit // segments
                first = (unit - outer * segments) * segment
                count = min(segment, inner - first)
                to = entry_address(table, uint64(0), rank, outer, first)
                source = entry_address(table, uint64(1), rank, outer, first)
                indices = entry_address(table, uint64(2), rank, outer, first)
                # Addresses first, so that the loop that copies has few of its own to keep.
                last = inner - first - uint64(1)
                for i in range(count + ahead):
                    j = min(uint64(i), last)
                    at = source + index_of(indices + j * index_step, axis) * axis_stride + j * from_step
                    store(rows + uint64(8) * uint64(i), at)
                if streamed != uint64(0):
                    below = uint64(0)
                    for i in range(count):
                        row = rows + uint64(8) * uint64(i)
                        below = stream_up(to, load(row), element, load(row + uint64(8) * ahead), edge, below)
                        to += to_step
                    finish_up(edge, below)
                else:
                    for i in range(count):
                        row = rows + uint64(8) * uint64(i)
                        soon = load(row + uint64(8) * ahead)
                        for q in range(uint64(0), min(element, uint64(NEAR_ROW)), uint64(64)):
                            prefetch(soon + q)
                        copy_run(to, load(row), element)
                        to += to_step
        fence()
        return uint64(1)

    return compiled(lookup_rows, bits, blanks=_blanks(bits))


@cache
def elements_kernel(size: int, bits: int) -> Kernel:
    """Elements of `size` bytes, 64 at most, by indices of `bits`. A unit is a segment of a line's indices."""

    def lookup_elements(table, counter, chunks):
        size = constant("size")
        units, streamed, rank, step = word(table, UNITS), word(table, STREAMED), word(table, RANK), word(table, 1)
        inner, segment = word(table, INNER), word(table, SEGMENT)
        axis, axis_stride = word(table, AXIS), word(table, AXIS_STRIDE)
        to_step = entry_stride(table, uint64(0), rank, uint64(1))
        from_step = entry_stride(table, uint64(1), rank, uint64(1))
        index_step = entry_stride(table, uint64(2), rank, uint64(1))
        segments = (inner + segment - uint64(1)) // segment
        staged = streamed != uint64(0) and to_step == size
        is_near = not staged and axis * axis_stride <= uint64(NEAR_ELEMENTS)
        offsets, later = scratch(ELEMENT_OFFSETS), scratch(ELEMENT_OFFSETS)
        buffer = scratch(ELEMENT_BLOCK)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                outer = unit // segments
                first = (unit - outer * segments) * segment
                last = min(first + segment, inner)
                to = entry_address(table, uint64(0), rank, outer, uint64(0))
                source = entry_address(table, uint64(1), rank, outer, uint64(0))
                indices = entry_address(table, uint64(2), rank, outer, uint64(0))
                if is_near:
                    for i in range(first, last):
                        at = source + index_of(indices + i * index_step, axis) * axis_stride + i * from_step
                        copy(to + i * to_step, at, size)
                    continue
                here, now, ready = first, first, uint64(0)
                while True:
                    coming = min(uint64(ELEMENT_SEGMENT), last - here)
                    if ready == uint64(0) and coming == uint64(0):
                        break
                    target = buffer if staged else to + now * to_step
                    for i in range(max(ready, coming)):
                        if uint64(i) < coming:
                            j = here + uint64(i)
                            at = source + index_of(indices + j * index_step, axis) * axis_stride + j * from_step
                            store(later + uint64(8) * uint64(i), at)
                            prefetch(at)
                        if uint64(i) < ready:
                            at = load(offsets + uint64(8) * uint64(i))
                            copy(target + uint64(i) * (size if staged else to_step), at, size)
                    if staged and ready > uint64(0):
                        stream(to + now * to_step, buffer, ready * size, streamed)
                    now, ready = here, coming
                    here += coming
                    offsets, later = later, offsets
        fence()
        return uint64(1)

    return compiled(lookup_elements, size, bits, blanks=_blanks(bits, size))


@cache
def lines_kernel(size: int, bits: int) -> Kernel:
    """Elements of `size` bytes, 64 at most, of lines that share indices. A unit is a segment of a block of lines."""

    def lookup_lines(table, counter, chunks):
        size = constant("size")
        units, streamed, rank, step = word(table, UNITS), word(table, STREAMED), word(table, RANK), word(table, 1)
        inner, segment = word(table, INNER), word(table, SEGMENT)
        lines, block = word(table, LINES), word(table, BLOCK_LINES)
        axis, axis_stride = word(table, AXIS), word(table, AXIS_STRIDE)
        to_step = entry_stride(table, uint64(0), rank, uint64(1))
        from_step = entry_stride(table, uint64(1), rank, uint64(1))
        to_line = entry_stride(table, uint64(0), rank, uint64(2))
        from_line = entry_stride(table, uint64(1), rank, uint64(2))
        index_step = entry_stride(table, uint64(2), rank, uint64(1))
        segments = (inner + segment - uint64(1)) // segment
        blocks = (lines + block - uint64(1)) // block
        staged = streamed != uint64(0) and to_step == size
        span = axis * axis_stride
        near = axis_stride < uint64(64) and span <= uint64(NEAR_AXIS)
        offsets = scratch(LINE_OFFSETS)
        buffer = scratch(BLOCK)
        batch = uint64(BLOCK) // size
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                rest = unit // segments
                first = (unit - rest * segments) * segment
                count = min(segment, inner - first)
                outer = rest // blocks
                line = (rest - outer * blocks) * block
                last_line = min(line + block, lines)
                to = entry_address(table, uint64(0), rank, outer, first)
                source = entry_address(table, uint64(1), rank, outer, first)
                indices = entry_address(table, uint64(2), rank, outer, first)
                for i in range(count):
                    offset = index_of(indices + uint64(i) * index_step, axis) * axis_stride
                    store(offsets + uint64(8) * uint64(i), offset + uint64(i) * from_step)
                while line < last_line:
                    target_line = to + line * to_line
                    base = source + line * from_line
                    if near and line + uint64(1) < lines:
                        for q in range(uint64(0), span, uint64(64)):
                            prefetch(base + from_line + q)
                    i = uint64(0)
                    while i < count:
                        stop = min(i + batch, count)
                        target = buffer if staged else target_line + i * to_step
                        gap = size if staged else to_step
                        for k in range(stop - i):
                            at = base + load(offsets + uint64(8) * (i + uint64(k)))
                            copy(target + uint64(k) * gap, at, size)
                        if staged:
                            stream(target_line + i * to_step, buffer, (stop - i) * size, streamed)
                        i = stop
                    line += uint64(1)
        fence()
        return uint64(1)

    return compiled(lookup_lines, size, bits, blanks=_blanks(bits, size))
