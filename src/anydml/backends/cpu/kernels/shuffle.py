"""Interleaved columns: short runs side by side, taken apart or put together in registers.

One side (near) holds rows of a few words; on the other (far) each column is packed for itself. Splitting colour planes
is taking apart, joining them is putting together, every n-th element is taking apart with gaps, a reversal is one
column whose rows run backwards. A block of rows passes through a few KiB of scratch that stay in the first cache, so
that what is stored past the caches leaves in whole lines, whatever the alignment.
"""

from __future__ import annotations

from functools import cache

from numba import uint64

from anydml.backends.cpu.kernels.driver import HEADER, PAST, RANK, UNITS, Kernel, claim, compiled, word
from anydml.backends.cpu.kernels.ir import fence, load, move_row, parse_spec, prefetch, scratch, shuffle, store, stream

INNER, SEGMENT = HEADER, HEADER + 1
SIZES = HEADER + 2
"""Words of the table after the header: rows of a line, rows of a unit; then the sizes of the box of lines, the near
address and its strides, and for each column its far address and strides."""

MAX_COLUMNS = 8
ADDRESSES = 192
"""Bytes of scratch for addresses: the near one, and two a column, in whole lines."""

BLOCK = 16384
"""Bytes of scratch that a unit's rows, and its columns each in whole lines, must fit in."""

SCRATCH = BLOCK + ADDRESSES


@cache
def shuffle_kernel(spec: str) -> Kernel:
    """The kernel for one pattern: ``"zip word period count reverse offset:run,…"``, in words (see `ir.shuffle`)."""
    zipped, word_bytes, period, count, reverse, columns = parse_spec(spec)
    width, rows, number = period * word_bytes, count, len(columns)
    # Where the columns do not reach from end to end of a row, a whole last row would reach past the operand's end.
    slack = int(max(offset + run for offset, run in columns) - min(offset for offset, _ in columns) < period)
    runs_text = tuple(run * word_bytes for _, run in columns)
    longest = max(runs_text)

    def interleave(table, counter, chunks):
        units, past, rank, step = word(table, UNITS), word(table, PAST), word(table, RANK), word(table, 1)
        inner, segment = word(table, INNER), word(table, SEGMENT)
        near_entry = table + uint64(8) * (uint64(SIZES) + rank)
        entry_bytes = uint64(8) * (rank + uint64(1))
        segments = (inner + segment - uint64(1)) // segment
        where = scratch(SCRATCH)
        column_bytes = (segment * uint64(longest) + uint64(63)) & ~uint64(63)
        buffer = where + uint64(ADDRESSES)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            end = min(begin + step, units)
            for unit in range(begin, end):
                line = unit // segments
                first = (unit - line * segments) * segment
                last = min(first + segment, inner)
                m = last - first
                # The addresses of this unit's first row.
                for c in range(number + 1):
                    entry = near_entry + uint64(c) * entry_bytes
                    address = load(entry)
                    rest = line
                    d = rank
                    while d > uint64(0):
                        d -= uint64(1)
                        length = word(table, uint64(SIZES) + d)
                        at = rest
                        if d > uint64(0):
                            at = rest % length
                            rest = rest // length
                        address += at * word(entry, d + uint64(1))
                    store(where + uint64(8) * uint64(c), address)
                near = load(where)
                if reverse:
                    near -= first * uint64(width)
                else:
                    near += first * uint64(width)
                far = where + uint64(8)
                for c in range(number):
                    slot = far + uint64(8) * uint64(c)
                    address = load(slot) + first * uint64(runs_text[c])
                    store(slot, address)
                    # The packed side's own addresses, for when scratch stands in for it.
                    store(slot + uint64(8 * number), address)
                    if past != uint64(0) and not zipped:
                        store(slot, buffer + uint64(c) * column_bytes)
                destination = near
                if past != uint64(0) and zipped:
                    near = buffer
                i = uint64(0)
                whole = min(m, max(inner - first, uint64(slack)) - uint64(slack))
                while i + uint64(rows) <= whole:
                    if reverse:
                        at = near - (i + uint64(rows - 1)) * uint64(width)
                    else:
                        at = near + i * uint64(width)
                    shuffle(at, far, i, spec)
                    if past != uint64(0):
                        if zipped:
                            for c in range(number):
                                ahead = load(far + uint64(8) * uint64(c)) + (i + segment) * uint64(runs_text[c])
                                for q in range(0, rows * longest, 64):
                                    prefetch(ahead + uint64(q))
                        else:
                            ahead = at + segment * uint64(width)
                            if reverse:
                                ahead = at - segment * uint64(width)
                            for q in range(0, rows * width, 64):
                                prefetch(ahead + uint64(q))
                    i += uint64(rows)
                while i < m:
                    if reverse:
                        move_row(near - i * uint64(width), far, i, spec)
                    else:
                        move_row(near + i * uint64(width), far, i, spec)
                    i += uint64(1)
                if past != uint64(0):
                    if zipped:
                        stream(destination, buffer, m * uint64(width), past)
                    else:
                        for c in range(number):
                            to = load(far + uint64(8 * number) + uint64(8) * uint64(c))
                            stream(to, buffer + uint64(c) * column_bytes, m * uint64(runs_text[c]), past)
        fence()
        return uint64(1)

    return compiled(interleave, spec)
