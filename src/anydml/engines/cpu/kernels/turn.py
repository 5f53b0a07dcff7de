"""Permuted copies in registers: elements that lie side by side along both groups of a block (see `blocks`).

Tiles go straight to the destination where they fill its lines, or need not, else by scratch. Those that go straight
read long stretches of few rows, which processors foresee, and write one line each of many rows.
"""

from __future__ import annotations

from functools import cache

from anydml.engines.cpu.kernels.blanks import Filling, constant
from anydml.engines.cpu.kernels.blocks import (
    BLOCK,
    COLUMNS,
    COUNT_I,
    COUNT_J,
    DIRECT,
    FROM_I,
    LIMIT,
    PITCH,
    REACH,
    ROWS,
    SOURCE,
    TO,
    TO_I,
    block_of,
    leave,
    tables,
)
from anydml.engines.cpu.kernels.driver import STREAMED, UNITS, claim, compiled, word
from anydml.engines.cpu.kernels.ir import LINE, copy_lines, fence, load, prefetch_once, scratch, short_of_line
from anydml.engines.cpu.kernels.language import helper, uint64
from anydml.engines.cpu.kernels.loading import Kernel
from anydml.engines.cpu.kernels.tiles import PADDED, side_of, tile_code, turn_tile, turn_tile_streamed

SLACK = 4096 + 64
STAGE = 4096
SCRATCH = BLOCK + SLACK + STAGE
"""Bytes after the block for what a last tile writes too much, and for the rows of a tile that end with the source."""


@helper
def ask_for(start, offsets, count):
    """Prefetch a line of each row of a tile: processors do not foresee rows of the next block, which lie far apart."""
    for k in range(count):
        prefetch_once(start + load(offsets + uint64(8) * uint64(k)))


@cache
def turn_kernel(size: int) -> Kernel:
    """The kernel for elements of `size` bytes which lie side by side along both groups (see `tiles.turn_tile`)."""
    blanks: dict[str, Filling] = {
        "size": size,
        "side": side_of(size),
        "is_padded": int(size in PADDED),
        # Tiles of single bytes have so many rows that to ask for their lines takes longer than to wait for them.
        "asks": int(size > 1),
        "turn_tile": tile_code(size, is_streamed=False),
        "turn_tile_streamed": tile_code(size, is_streamed=True),
    }

    def turn(table, counter, chunks):
        size, side = constant("size"), constant("side")
        is_padded, asks = constant("is_padded") != uint64(0), constant("asks") != uint64(0)
        units, streamed, step = word(table, UNITS), word(table, STREAMED), word(table, 1)
        rows, columns, direct = word(table, ROWS), word(table, COLUMNS), word(table, DIRECT)
        least = max(rows, side)
        from_columns = tables(table)
        to_rows = from_columns + uint64(8) * max(columns, side)
        scratch_rows = to_rows + uint64(8) * least
        stage_rows = scratch_rows + uint64(16) * least + uint64(8) * max(columns, side)
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
                short = short_of_line(to)
                goes_straight = direct == uint64(3) or (direct == uint64(2) and short == uint64(0))
                if not is_padded and (goes_straight or (direct != uint64(0) and streamed == uint64(0))):
                    # Elements that lie across lines cannot be stored past the caches.
                    is_streamed = streamed != uint64(0) and short % size == uint64(0)
                    head = short // size
                    if is_streamed:
                        end = columns
                        if head != uint64(0) or block_j + uint64(1) < count_j:
                            end -= side
                        for j in range(head, head + end, side):
                            i = uint64(0)
                            while i < rows:
                                k = min(i, rows - side)
                                turn_tile_streamed(source + k * size, from_columns + uint64(8) * j,
                                                   to + j * size, to_rows + uint64(8) * k)  # fmt: skip
                                i += side
                    i = uint64(0)
                    while i < rows:
                        k = min(i, rows - side)
                        j = uint64(0)
                        while j < columns:
                            at = min(j, columns - side)
                            # Where lines do not begin with rows, both ends of a row are parts of lines.
                            is_first = j == uint64(0) and block_j == uint64(0)
                            is_last = j + side >= columns and block_j + uint64(1) == count_j
                            if not is_streamed or (head != uint64(0) and (is_first or is_last)):
                                turn_tile(source + k * size, from_columns + uint64(8) * at,
                                          to + at * size, to_rows + uint64(8) * k)  # fmt: skip
                            j += side
                        i += side
                    continue
                soon = source
                if asks and streamed != uint64(0):
                    following = min(unit + uint64(1), units - uint64(1))
                    line = following // count_i
                    soon = block_of(table, line // count_j, following - line * count_i, line % count_j,
                                    uint64(SOURCE), uint64(FROM_I), uint64(1))  # fmt: skip
                j = uint64(0)
                while j < columns:
                    at = uint64(0)
                    if columns >= side:
                        at = min(j, columns - side)
                    i = uint64(0)
                    while i < rows:
                        k = uint64(0)
                        if rows >= side:
                            k = min(i, rows - side)
                        start, places = source + k * size, from_columns + uint64(8) * at
                        if asks and streamed != uint64(0):
                            ask_for(soon + k * size, places, side)
                        if (is_padded or rows < side) and start + reach + uint64(LINE) > limit:
                            # Lines would reach past the source.
                            for r in range(uint64(0), side):
                                copy_lines(stage + r * uint64(LINE), start + load(places + uint64(8) * r),
                                           min(rows, side) * size)  # fmt: skip
                            start, places = stage, stage_rows
                        turn_tile(start, places, buffer + at * size, scratch_rows + uint64(8) * k)
                        i += side
                    j += side
                leave(table, to, buffer, to_rows, block_j, streamed, pitch)
        fence()
        return uint64(1)

    return compiled(turn, size, blanks=blanks)
