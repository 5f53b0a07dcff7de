"""Permuted copies of elements one by one: any size, any strides (see `blocks`)."""

from __future__ import annotations

from functools import cache

from anydml.engines.cpu.kernels.blanks import constant
from anydml.engines.cpu.kernels.blocks import (
    BLOCK,
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
    leave,
    tables,
)
from anydml.engines.cpu.kernels.driver import STREAMED, UNITS, claim, compiled, word
from anydml.engines.cpu.kernels.ir import copy, copy_lines, fence, load, scratch
from anydml.engines.cpu.kernels.language import uint64
from anydml.engines.cpu.kernels.loading import Kernel


@cache
def table_kernel(size: int) -> Kernel:
    """The kernel for elements of `size` bytes at any strides; 0: of as many as the table says."""

    def by_tables(table, counter, chunks):
        size = constant("size")
        units, streamed, step = word(table, UNITS), word(table, STREAMED), word(table, 1)
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
                if streamed != uint64(0) and packed != uint64(0):
                    target, places = buffer, scratch_rows
                for i in range(rows):
                    end = target + load(places + uint64(8) * i)
                    start = source + load(from_rows + uint64(8) * i)
                    if size == uint64(0):
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
                            copy(end, start + a, size)
                            copy(end + size, start + b, size)
                            copy(end + uint64(2) * size, start + c, size)
                            copy(end + uint64(3) * size, start + d, size)
                            end += uint64(4) * size
                            j += uint64(4)
                        while j < columns:
                            copy(end, start + load(from_columns + uint64(8) * j), size)
                            end += size
                            j += uint64(1)
                    while j < columns:
                        at = uint64(8) * j
                        copy(end + load(to_columns + at), start + load(from_columns + at), size)
                        j += uint64(1)
                if target == buffer:
                    leave(table, to, buffer, to_rows, block_j, streamed, pitch)
        fence()
        return uint64(1)

    return compiled(by_tables, size, blanks={"size": size})
