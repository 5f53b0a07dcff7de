"""Elements of lines by one lookup at either end, near enough that caches bring them as they are asked for.

The lookup's own place may depend on others, which find one index for each line: they are read once a line. The table is
that of the `addressed` kernel, which does all else.
"""

from __future__ import annotations

from functools import cache

from numba import uint64

from anydml.engines.cpu.kernels.addressed import (
    AXIS,
    AXIS_STRIDE,
    BATCH,
    ELEMENT,
    ENTRY_WORDS,
    INNER,
    LOOKUP_WORDS,
    LOOKUPS,
    MOST_LOOKUPS,
    OUTSIDE,
    SEGMENT,
    SEQUENCE_RANK,
    SIZES,
    SKIP,
    TARGET,
)
from anydml.engines.cpu.kernels.driver import RANK, UNITS, Kernel, claim, code_of, compiled, walk, word
from anydml.engines.cpu.kernels.indices import clamped, index_at, lies_outside
from anydml.engines.cpu.kernels.ir import copy, helper, load, scratch, store

VALUES, PLACES = 8 * BATCH, 8 * (MOST_LOOKUPS + 2)
"""Bytes of scratch for the indices of a batch, and for where each end and lookup begins."""

NOWHERE = 64
"""Bytes of scratch that take what is skipped."""

CODE = code_of("addressed.py", "indices.py")
"""Part of the kernel's name."""


@helper
def read_all(spot, step, values, count, bits):
    """Read the indices of a batch, as signed 64-bit numbers."""
    for k in range(count):
        store(values + uint64(8) * uint64(k), index_at(spot + uint64(k) * step, bits))


@helper
def read_any(spot, step, values, count, kind):
    """The same for indices of any type."""
    if kind == uint64(0):
        read_all(spot, step, values, count, -32)
    elif kind == uint64(1):
        read_all(spot, step, values, count, 32)
    elif kind == uint64(2):
        read_all(spot, step, values, count, -64)
    elif kind == uint64(3):
        read_all(spot, step, values, count, 64)
    else:
        read_all(spot, step, values, count, 8)


@helper
def move_batch(to, to_step, source, from_step, values, count, words, nowhere, size):
    """Move elements of `size` bytes, a constant, in order; those that are skipped to where nobody looks."""
    axis, stride = load(words + uint64(8 * AXIS)), load(words + uint64(8 * AXIS_STRIDE))
    skips = uint64(load(words + uint64(8 * OUTSIDE)) == uint64(SKIP))
    is_source = load(words + uint64(8 * TARGET)) == uint64(1)
    by_source, by_to = (stride, uint64(0)) if is_source else (uint64(0), stride)
    for k in range(count):
        value = load(values + uint64(8) * uint64(k))
        index = clamped(value, axis)
        at = to + uint64(k) * to_step + index * by_to
        at = nowhere if skips & lies_outside(value, axis) != uint64(0) else at
        copy(at, source + uint64(k) * from_step + index * by_source, uint64(size))


@cache
def in_line_kernel() -> Kernel:
    """The kernel for elements of 1, 2, 4, 8 or 16 bytes. A unit is a segment of a shared line, and what is in order."""

    def in_line(table, counter, chunks):
        units, rank, step = word(table, UNITS), word(table, RANK), word(table, 1)
        sequence_rank, inner, segment = word(table, SEQUENCE_RANK), word(table, INNER), word(table, SEGMENT)
        element, last = word(table, ELEMENT), word(table, LOOKUPS) + uint64(1)
        sizes = table + uint64(8 * SIZES)
        sequence_sizes = sizes + uint64(8) * rank
        entries = sequence_sizes + uint64(8) * sequence_rank
        entry_bytes = uint64(8) * (uint64(ENTRY_WORDS) + rank + sequence_rank)
        lookup_bytes = entry_bytes + uint64(8 * LOOKUP_WORDS)
        words = entries + last * lookup_bytes + entry_bytes
        to_step, from_step = word(entries, 1), word(entries + lookup_bytes, 1)
        index_step, kind = word(entries + last * lookup_bytes, 1), load(words)
        segments = (inner + segment - uint64(1)) // segment
        lines = uint64(1)
        for d in range(sequence_rank):
            lines *= load(sequence_sizes + uint64(8) * uint64(d))
        values, places, nowhere = scratch(VALUES), scratch(PLACES), scratch(NOWHERE)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                outer = unit // segments
                low = (unit - outer * segments) * segment
                high = min(low + segment, inner)
                for line in range(lines):
                    for n in range(last + uint64(1)):
                        entry = entries + uint64(n) * lookup_bytes
                        strides = entry + uint64(8 * ENTRY_WORDS)
                        place = load(entry) + low * word(entry, 1) + walk(sizes, rank, outer, strides, uint64(8))
                        strides += uint64(8) * rank
                        place += walk(sequence_sizes, sequence_rank, uint64(line), strides, uint64(8))
                        store(places + uint64(8) * uint64(n), place)
                    spot = load(places + uint64(8) * last)
                    for n in range(uint64(2), last):
                        own = entries + uint64(n) * lookup_bytes + entry_bytes
                        read_any(load(places + uint64(8) * uint64(n)), uint64(0), values, uint64(1), load(own))
                        found = clamped(load(values), load(own + uint64(8 * AXIS)))
                        spot += found * load(own + uint64(8 * AXIS_STRIDE))
                    to, at = load(places), load(places + uint64(8))
                    first = low
                    while first < high:
                        count = min(high - first, uint64(BATCH))
                        read_any(spot, index_step, values, count, kind)
                        if element == uint64(1):
                            move_batch(to, to_step, at, from_step, values, count, words, nowhere, 1)
                        elif element == uint64(2):
                            move_batch(to, to_step, at, from_step, values, count, words, nowhere, 2)
                        elif element == uint64(4):
                            move_batch(to, to_step, at, from_step, values, count, words, nowhere, 4)
                        elif element == uint64(8):
                            move_batch(to, to_step, at, from_step, values, count, words, nowhere, 8)
                        else:
                            move_batch(to, to_step, at, from_step, values, count, words, nowhere, 16)
                        to += count * to_step
                        at += count * from_step
                        spot += count * index_step
                        first += count
        return uint64(1)

    return compiled(in_line, CODE)
