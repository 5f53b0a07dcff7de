"""Short rows in an order of their own, by blocks: stretches of the source times stretches of the destination.

What a block reads of a page, it reads while that page is known, and it writes whole lines past the caches. While one
row is copied, the lines of one further on are asked for: processors do not foresee where it lies.
"""

from __future__ import annotations

from functools import cache

from anydml.engines.cpu.kernels.blocks import (
    COLUMNS,
    COUNT_I,
    COUNT_J,
    ELEMENT,
    FROM_I,
    PACKED,
    PITCH,
    ROWS,
    SOURCE,
    TO,
    TO_I,
    block_of,
    tables,
)
from anydml.engines.cpu.kernels.driver import UNITS, UNITS_PER_CLAIM, claim, compiled, word
from anydml.engines.cpu.kernels.ir import LINE, copy_lines, fence, load, prefetch_once, scratch, stream
from anydml.engines.cpu.kernels.language import uint64
from anydml.engines.cpu.kernels.loading import Kernel
from anydml.engines.cpu.kernels.shared_lines import SHARED_LINE, finish_up, stream_up

AHEAD, MOST_AHEAD = 6144, 24
"""Bytes of rows, and rows at most, between the one that is copied and the one that is asked for."""

STAGE = 4096
"""Bytes of scratch that rows of less than two lines pass through; the table says at PITCH how many rows those are."""


@cache
def row_blocks_kernel() -> Kernel:
    """The kernel for rows of any size at any strides, stored non-temporally."""

    def row_blocks(table, counter, chunks):
        units, step = word(table, UNITS), word(table, UNITS_PER_CLAIM)
        rows, columns, element = word(table, ROWS), word(table, COLUMNS), word(table, ELEMENT)
        staged = word(table, PITCH)
        from_columns = tables(table)
        to_rows = from_columns + uint64(8) * columns
        from_rows = to_rows + uint64(16) * rows
        to_columns = from_rows + uint64(8) * rows
        count_i, count_j = word(table, COUNT_I), word(table, COUNT_J)
        ahead = min(max(uint64(AHEAD) // element, uint64(1)), uint64(MOST_AHEAD), columns)
        is_staged = element < uint64(2 * LINE) and word(table, PACKED) != uint64(0)
        edge, stage = scratch(SHARED_LINE), scratch(STAGE)
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
                below = uint64(0)
                for i in range(rows):
                    end = to + load(to_rows + uint64(8) * i)
                    start = source + load(from_rows + uint64(8) * i)
                    after = source + load(from_rows + uint64(8) * min(i + uint64(1), rows - uint64(1)))
                    if is_staged:
                        first = uint64(0)
                        while first < columns:
                            last = min(first + staged, columns)
                            for j in range(first, last):
                                soon = start + load(from_columns + uint64(8) * min(j + ahead, columns - uint64(1)))
                                prefetch_once(soon)
                                prefetch_once(soon + element - uint64(1))
                                at = start + load(from_columns + uint64(8) * j)
                                copy_lines(stage + (j - first) * element, at, element)
                            stream(end + first * element, stage, (last - first) * element, uint64(1))
                            first = last
                        continue
                    for j in range(columns):
                        k = j + ahead
                        soon = start
                        if k >= columns:
                            k -= columns
                            soon = after
                        soon += load(from_columns + uint64(8) * k)
                        target = end + load(to_columns + uint64(8) * j)
                        at = start + load(from_columns + uint64(8) * j)
                        below = stream_up(target, at, element, soon, edge, below)
                finish_up(edge, below)
        fence()
        return uint64(1)

    return compiled(row_blocks)
