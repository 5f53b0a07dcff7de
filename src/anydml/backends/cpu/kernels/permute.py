"""Permuted copies: blocks whose rows lie along one group of axes in the source, and along another in the destination.

A block is a group of axes I, along which the source is read, by a group J, along which the destination is written. Two
tables say where each element of either group lies, so that several small axes together make one long row. Elements of
1, 2, 3, 4, 6, 8, 12 and 16 bytes that lie side by side are turned in registers, a tile at a time; all others move one
by one. Rows whose lines no tile fills are put together in scratch in the first cache, and leave as whole lines.
Neighbouring blocks along J overlap by a line, so that the lines that they share leave whole, too.
"""

from __future__ import annotations

from functools import cache

from numba import uint64

from anydml.backends.cpu.kernels.driver import HEADER, PAST, RANK, UNITS, Kernel, claim, compiled, walk, word
from anydml.backends.cpu.kernels.ir import (
    LINE,
    copy,
    copy_lines,
    copy_rest,
    fence,
    helper,
    load,
    scratch,
    short_of_line,
    stream,
    stream_lines,
)
from anydml.backends.cpu.kernels.tiles import PADDED, side_of, turn_tile

FIELDS = (
    *("element", "rows", "columns", "pitch", "whole", "direct", "packed", "reach"),
    *("count_i", "step_i", "last_i", "to_i", "from_i"),
    *("count_j", "step_j", "last_j", "to_j", "from_j"),
    *("to", "source", "limit"),
)
"""Words of the table after the header; then the outer sizes, destination strides, source strides, and the tables.

element: bytes of one. rows, columns: elements of a block along I and J. pitch: bytes from row to row in scratch. whole:
1 where the rows of a block follow each other in the destination. direct: 1 where all tiles of a block are full. packed:
1 where the elements of a row lie side by side in the destination. reach: bytes from where a block's first row begins in
the source to where its last one does. count, step, last: how many blocks there are along a group, how far they are
apart and where the last begins, in steps of the group's outermost axis; to, from: that axis' strides. to, source,
limit: addresses of destination, source, and the end of the source.

Tables: for each column, where it lies in the source; for each row, where in the destination, in scratch, and in the
source; for each column, where it lies in the destination; for each row of a tile, where it lies in a tile in scratch.
Of columns and rows there are at least as many as a tile has.
"""

(ELEMENT, ROWS, COLUMNS, PITCH, WHOLE, DIRECT, PACKED, REACH, COUNT_I, STEP_I, LAST_I, TO_I, FROM_I, COUNT_J, STEP_J,
 LAST_J, TO_J, FROM_J, TO, SOURCE, LIMIT) = range(HEADER, HEADER + len(FIELDS))  # fmt: skip
SIZES = HEADER + len(FIELDS)

BLOCK = 32 << 10
"""Bytes of scratch that a block's rows must fit in, and a tile beyond its last one."""

SLACK = 4096 + 64
STAGE = 4096
SCRATCH = BLOCK + SLACK + STAGE
"""Bytes after the block for what a last tile writes too much, and for the rows of a tile that end with the source."""


@cache
def turn_kernel(size: int) -> Kernel:
    """The kernel for elements of `size` bytes which lie side by side along both groups (see `tiles.turn_tile`)."""
    side, is_padded = side_of(size), size in PADDED

    def turn(table, counter, chunks):
        units, past, step = word(table, UNITS), word(table, PAST), word(table, 1)
        rows, columns, direct = word(table, ROWS), word(table, COLUMNS), word(table, DIRECT)
        least = max(rows, uint64(side))
        from_columns = tables(table)
        to_rows = from_columns + uint64(8) * max(columns, uint64(side))
        scratch_rows = to_rows + uint64(8) * least
        stage_rows = scratch_rows + uint64(16) * least + uint64(8) * max(columns, uint64(side))
        pitch, reach, limit = word(table, PITCH), word(table, REACH), word(table, LIMIT)
        count_i, count_j = word(table, COUNT_I), word(table, COUNT_J)
        buffer = scratch(SCRATCH)
        stage = buffer + uint64(BLOCK + SLACK)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                line = unit // count_i
                block_i = unit - line * count_i
                outer = line // count_j
                block_j = line - outer * count_j
                to = block_of(table, outer, block_i, block_j, uint64(TO), uint64(TO_I), uint64(0))
                source = block_of(table, outer, block_i, block_j, uint64(SOURCE), uint64(FROM_I), uint64(1))
                if not is_padded and direct != uint64(0) and past == uint64(0):
                    j = uint64(0)
                    while j < columns:
                        at = min(j, columns - uint64(side))
                        i = uint64(0)
                        while i < rows:
                            k = min(i, rows - uint64(side))
                            turn_tile(source + k * uint64(size), from_columns + uint64(8) * at,
                                      to + at * uint64(size), to_rows + uint64(8) * k, size, 0)  # fmt: skip
                            i += uint64(side)
                        j += uint64(side)
                    continue
                if not is_padded and direct == uint64(2) and to & uint64(LINE - 1) == uint64(0):
                    end = columns
                    if block_j + uint64(1) < count_j:
                        end = columns - uint64(side)
                    for j in range(uint64(0), end, uint64(side)):
                        i = uint64(0)
                        while i < rows:
                            k = min(i, rows - uint64(side))
                            turn_tile(source + k * uint64(size), from_columns + uint64(8) * j,
                                      to + j * uint64(size), to_rows + uint64(8) * k, size, 1)  # fmt: skip
                            i += uint64(side)
                    continue
                j = uint64(0)
                while j < columns:
                    at = uint64(0)
                    if columns >= uint64(side):
                        at = min(j, columns - uint64(side))
                    i = uint64(0)
                    while i < rows:
                        k = uint64(0)
                        if rows >= uint64(side):
                            k = min(i, rows - uint64(side))
                        start, places = source + k * uint64(size), from_columns + uint64(8) * at
                        if (is_padded or rows < uint64(side)) and start + reach + uint64(LINE) > limit:
                            # Lines would reach past the source.
                            for r in range(uint64(0), uint64(side)):
                                copy_lines(stage + r * uint64(LINE), start + load(places + uint64(8) * r),
                                           min(rows, uint64(side)) * uint64(size))  # fmt: skip
                            start, places = stage, stage_rows
                        turn_tile(start, places, buffer + at * uint64(size), scratch_rows + uint64(8) * k, size, 0)
                        i += uint64(side)
                    j += uint64(side)
                leave(table, to, buffer, to_rows, block_j, past, pitch)
        fence()
        return uint64(1)

    return compiled(turn, size)


@cache
def table_kernel(size: int) -> Kernel:
    """The kernel for elements of `size` bytes at any strides; 0: of as many as the table says."""

    def by_tables(table, counter, chunks):
        units, past, step = word(table, UNITS), word(table, PAST), word(table, 1)
        rows, columns, packed = word(table, ROWS), word(table, COLUMNS), word(table, PACKED)
        from_columns = tables(table)
        to_rows = from_columns + uint64(8) * columns
        scratch_rows = to_rows + uint64(8) * rows
        from_rows = scratch_rows + uint64(8) * rows
        to_columns = from_rows + uint64(8) * rows
        pitch, element = word(table, PITCH), word(table, ELEMENT)
        count_i, count_j = word(table, COUNT_I), word(table, COUNT_J)
        buffer = scratch(BLOCK)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                line = unit // count_i
                block_i = unit - line * count_i
                outer = line // count_j
                block_j = line - outer * count_j
                to = block_of(table, outer, block_i, block_j, uint64(TO), uint64(TO_I), uint64(0))
                source = block_of(table, outer, block_i, block_j, uint64(SOURCE), uint64(FROM_I), uint64(1))
                target, places = to, to_rows
                if past != uint64(0) and packed != uint64(0):
                    target, places = buffer, scratch_rows
                for i in range(rows):
                    end = target + load(places + uint64(8) * i)
                    start = source + load(from_rows + uint64(8) * i)
                    if size == 0:
                        for j in range(columns):
                            at = uint64(8) * uint64(j)
                            copy_lines(end + load(to_columns + at), start + load(from_columns + at), element)
                        continue
                    j = uint64(0)
                    if packed != uint64(0):
                        while j + uint64(4) <= columns:
                            at = from_columns + uint64(8) * j
                            a, b = load(at), load(at + uint64(8))
                            c, d = load(at + uint64(16)), load(at + uint64(24))
                            copy(end, start + a, uint64(size))
                            copy(end + uint64(size), start + b, uint64(size))
                            copy(end + uint64(2 * size), start + c, uint64(size))
                            copy(end + uint64(3 * size), start + d, uint64(size))
                            end += uint64(4 * size)
                            j += uint64(4)
                        while j < columns:
                            copy(end, start + load(from_columns + uint64(8) * j), uint64(size))
                            end += uint64(size)
                            j += uint64(1)
                    while j < columns:
                        at = uint64(8) * j
                        copy(end + load(to_columns + at), start + load(from_columns + at), uint64(size))
                        j += uint64(1)
                if target == buffer:
                    leave(table, to, buffer, to_rows, block_j, past, pitch)
        fence()
        return uint64(1)

    return compiled(by_tables, size)


@helper
def tables(table):
    """Where the tables begin."""
    return table + uint64(8) * (uint64(SIZES) + uint64(3) * word(table, RANK))


@helper
def block_of(table, outer, block_i, block_j, base, strides, which):
    """Where a block begins: in the destination (`which` is 0), or in the source (1)."""
    rank = word(table, RANK)
    sizes = table + uint64(8 * SIZES)
    address = word(table, base) + walk(sizes, rank, outer, sizes + uint64(8) * rank * (uint64(1) + which), uint64(8))
    address += min(block_i * word(table, STEP_I), word(table, LAST_I)) * word(table, strides)
    return address + min(block_j * word(table, STEP_J), word(table, LAST_J)) * word(
        table, strides + uint64(TO_J - TO_I)
    )


@helper
def leave(table, to, buffer, to_rows, block_j, past, pitch):
    """Copy a block's rows from scratch to where they belong."""
    rows = word(table, ROWS)
    size = word(table, COLUMNS) * word(table, ELEMENT)
    if word(table, WHOLE) != uint64(0):
        stream(to, buffer, rows * size, past)
        return
    count = word(table, COUNT_J)
    for i in range(rows):
        row, at = to + load(to_rows + uint64(8) * i), buffer + i * pitch
        if past == uint64(0) or size < uint64(2 * LINE):
            copy_lines(row, at, size)
            continue
        # The lines at both ends that are shared with other blocks are whole in one of them.
        head, tail = short_of_line(row), (row + size) & uint64(LINE - 1)
        if block_j == uint64(0):
            copy_rest(row, at, head)
        stream_lines(row, at, head, size - tail)
        if block_j + uint64(1) == count:
            copy_rest(row + size - tail, at + size - tail, tail)
