"""Blocks of a permuted copy: their tables, where each begins, and how one leaves scratch.

A block is a group of axes I, along which the source is read, by a group J, along which the destination is written. Two
tables say where each element of either group lies, so that several small axes together make one long row. Rows whose
lines no tile fills are put together in scratch in the first cache, and leave as whole lines. Neighbouring blocks along
J overlap by a line, so that the lines that they share leave whole, too.
"""

from __future__ import annotations

from anydml.engines.cpu.kernels.driver import HEADER, RANK, walk, word
from anydml.engines.cpu.kernels.ir import LINE, copy_lines, copy_rest, load, short_of_line, stream, stream_lines
from anydml.engines.cpu.kernels.language import helper, uint64

FIELDS = (
    *("element", "rows", "columns", "pitch", "whole", "direct", "packed", "reach"),
    *("count_i", "step_i", "last_i", "to_i", "from_i"),
    *("count_j", "step_j", "last_j", "to_j", "from_j"),
    *("to", "source", "limit"),
)
"""Words of the table after the header; then the outer sizes, destination strides, source strides, and the tables.

element: bytes of one. rows, columns: elements of a block along I and J. pitch: bytes from row to row in scratch. whole:
1 where the rows of a block follow each other in the destination. direct: how tiles may be stored (see
`permuted_blocks.Blocks.direct`). packed:
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
def leave(table, to, buffer, to_rows, block_j, streamed, pitch):
    """Copy a block's rows from scratch to where they belong."""
    rows = word(table, ROWS)
    size = word(table, COLUMNS) * word(table, ELEMENT)
    if word(table, WHOLE) != uint64(0):
        stream(to, buffer, rows * size, streamed)
        return
    count = word(table, COUNT_J)
    for i in range(rows):
        row, at = to + load(to_rows + uint64(8) * i), buffer + i * pitch
        if streamed == uint64(0) or size < uint64(2 * LINE):
            copy_lines(row, at, size)
            continue
        # The lines at both ends that are shared with other blocks are whole in one of them.
        head, tail = short_of_line(row), (row + size) & uint64(LINE - 1)
        if block_j == uint64(0):
            copy_rest(row, at, head)
        stream_lines(row, at, head, size - tail)
        if block_j + uint64(1) == count:
            copy_rest(row + size - tail, at + size - tail, tail)
