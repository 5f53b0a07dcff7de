"""Interleaved columns: short runs side by side, taken apart or put together in registers.

One side (interleaved) holds rows of a few words; on the other (packed) each column is packed for itself. Splitting
colour planes is taking apart, joining them is putting together, every n-th element is taking apart with gaps, a
reversal is one column whose interleaved rows run backwards. What is stored non-temporally leaves in whole lines:
straight from the registers where all that is written falls on lines at one and the same row, else through a few KiB of
scratch in the first cache.
"""

from __future__ import annotations

import math
from functools import cache

from anydml.engines.cpu.kernels.blanks import Filling, constant, one_of
from anydml.engines.cpu.kernels.driver import HEADER, RANK, STREAMED, UNITS, claim, compiled, walk, word
from anydml.engines.cpu.kernels.ir import LINE, fence, load, prefetch, scratch, short_of_line, store, stream
from anydml.engines.cpu.kernels.language import uint64
from anydml.engines.cpu.kernels.loading import Kernel
from anydml.engines.cpu.kernels.registers import (
    in_lines,
    interleave_rows,
    move_row,
    parse_spec,
    row_code,
    rows_code,
    run_of,
)

INNER, SEGMENT = HEADER, HEADER + 1
SIZES = HEADER + 2
"""Words of the table after the header: rows of a line, rows of a unit; then the sizes of the box of lines, the
interleaved address and its strides, and for each column its packed address and strides."""

MAX_COLUMNS = 8
ADDRESSES = 128
"""Bytes of scratch for addresses, two a column, in whole lines: where the next rows go, or come from, and where the
column's own are."""

BLOCK = 16384
"""Bytes of scratch that a unit's rows, and its columns each in whole lines, must fit in."""

FEW = 32
"""Part of a line's rows that may be moved one by one for the others to need no scratch."""

SCRATCH = BLOCK + ADDRESSES


@cache
def interleave_kernel(spec: str) -> Kernel:
    """The kernel for a pattern, in words: ``"zip word period count reverse offset:run,…"`` (see `interleave_rows`)."""
    zipped, word_bytes, period, count, reverse, columns = parse_spec(spec)
    width, rows, number = period * word_bytes, count, len(columns)
    # Where the columns do not reach from end to end of a row, a whole last row would reach past the operand's end.
    slack = int(max(offset + run for offset, run in columns) - min(offset for offset, _ in columns) < period)
    runs = [run * word_bytes for _, run in columns]
    step_to_line, inverse, cycle = rows_to_line(width if zipped else runs[0])
    blanks: dict[str, Filling] = {
        "zipped": int(zipped),
        "reverse": int(reverse),
        "width": width,
        "rows": rows,
        "number": number,
        "slack": slack,
        "longest": max(runs),
        "whole_lines": int(in_lines(spec)),
        "step_to_line": step_to_line,
        "inverse": inverse,
        "cycle": cycle,
        "run_of": one_of(runs),
        "move_row": row_code(spec),
        "interleave_rows": rows_code(spec),
    }

    def interleave(table, counter, chunks):
        zipped, reverse = constant("zipped") != uint64(0), constant("reverse") != uint64(0)
        width, rows, number, slack = constant("width"), constant("rows"), constant("number"), constant("slack")
        longest, whole_lines = constant("longest"), constant("whole_lines") != uint64(0)
        step_to_line, inverse, cycle = constant("step_to_line"), constant("inverse"), constant("cycle")
        written = uint64(1) if zipped else number
        # Processors foresee what one column needs, and what several packed ones do, but not so far.
        helps = number > uint64(1) and not zipped
        units, streamed, rank, step = word(table, UNITS), word(table, STREAMED), word(table, RANK), word(table, 1)
        inner, segment = word(table, INNER), word(table, SEGMENT)
        sizes = table + uint64(8 * SIZES)
        interleaved_entry = sizes + uint64(8) * rank
        entry_bytes = uint64(8) * (rank + uint64(1))
        segments = (inner + segment - uint64(1)) // segment
        where = scratch(SCRATCH)
        column_bytes = (segment * longest + uint64(63)) & ~uint64(63)
        packed, own, buffer = where, where + uint64(8) * number, where + uint64(ADDRESSES)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                line = unit // segments
                first = (unit - line * segments) * segment
                last = min(first + segment, inner)
                # The addresses of this line's first row.
                interleaved = load(interleaved_entry) + walk(
                    sizes, rank, line, interleaved_entry + uint64(8), uint64(8)
                )
                for c in range(number):
                    entry = interleaved_entry + (uint64(c) + uint64(1)) * entry_bytes
                    offset = walk(sizes, rank, line, entry + uint64(8), uint64(8))
                    store(own + uint64(8) * uint64(c), load(entry) + offset)
                staged, ahead, origin = streamed != uint64(0), uint64(0), uint64(0)
                if whole_lines and staged:
                    # Rows until all that is written falls on lines: then units begin there, and need no scratch.
                    if not zipped:
                        short = short_of_line(load(own))
                    elif reverse:
                        short = (interleaved + width) & uint64(LINE - 1)
                    else:
                        short = short_of_line(interleaved)
                    ahead = short // step_to_line * inverse % cycle
                    off = uint64(0)
                    for c in range(written):
                        if zipped and reverse:
                            off = interleaved + width - ahead * width
                        elif zipped:
                            off = interleaved + ahead * width
                        else:
                            off |= load(own + uint64(8) * uint64(c)) + ahead * run_of(uint64(c))
                    alone = ahead + (inner - min(ahead, inner)) % rows
                    staged = off & uint64(LINE - 1) != uint64(0) or alone > inner // uint64(FEW)
                if staged:
                    ahead, origin = uint64(0), first
                elif first > uint64(0):
                    first += ahead
                last = min(last + ahead, inner)
                if reverse:
                    interleaved -= origin * width
                else:
                    interleaved += origin * width
                for c in range(number):
                    slot = uint64(8) * uint64(c)
                    address = load(own + slot) + origin * run_of(uint64(c))
                    store(own + slot, address)
                    if staged and not zipped:
                        address = buffer + uint64(c) * column_bytes
                    store(packed + slot, address)
                i, stop = first - origin, last - origin
                target = interleaved
                if staged and zipped:
                    interleaved = buffer
                    if reverse:
                        interleaved += (stop - uint64(1)) * width
                        target -= (stop - uint64(1)) * width
                direct = uint64(0)
                if not staged:
                    direct = streamed
                whole = min(last, inner - slack) - origin
                while i < min(ahead, stop):
                    if reverse:
                        move_row(interleaved - i * width, packed, i)
                    else:
                        move_row(interleaved + i * width, packed, i)
                    i += uint64(1)
                while i + rows <= whole:
                    if reverse:
                        at = interleaved - (i + rows - uint64(1)) * width
                    else:
                        at = interleaved + i * width
                    interleave_rows(at, packed, i, direct)
                    if staged or (helps and streamed != uint64(0)):
                        if zipped:
                            for c in range(number):
                                soon = load(packed + uint64(8) * uint64(c)) + (i + segment) * run_of(uint64(c))
                                for q in range(uint64(0), rows * longest, uint64(64)):
                                    prefetch(soon + uint64(q))
                        else:
                            soon = at + segment * width
                            if reverse:
                                soon = at - segment * width
                            for q in range(uint64(0), rows * width, uint64(64)):
                                prefetch(soon + uint64(q))
                    i += rows
                while i < stop:
                    if reverse:
                        move_row(interleaved - i * width, packed, i)
                    else:
                        move_row(interleaved + i * width, packed, i)
                    i += uint64(1)
                if staged:
                    if zipped:
                        stream(target, buffer, stop * width, streamed)
                    else:
                        for c in range(number):
                            to = load(own + uint64(8) * uint64(c))
                            stream(to, buffer + uint64(c) * column_bytes, stop * run_of(uint64(c)), streamed)
        fence()
        return uint64(1)

    return compiled(interleave, spec, blanks=blanks)


def rows_to_line(run: int) -> tuple[int, int, int]:
    """What tells how many runs lie between an address and the next line that one begins at.

    Returns:
        a, b and c: it is (bytes to the line // a · b) modulo c, if there is such a line at all.
    """
    common = math.gcd(run, LINE)
    cycle = LINE // common
    return common, pow(run // common, -1, cycle), cycle
