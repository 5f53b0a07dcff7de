"""Elements of lines by one lookup at either end; in long axes they are asked for a batch at a time.

The lookup's own place may depend on others, which find one index for each line: they are read once a line. The table is
that of the `addressed` kernel, which does all else.
"""

from __future__ import annotations

from functools import cache

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
    NEAR_AXIS,
    OUTSIDE,
    SEGMENT,
    SEQUENCE_RANK,
    SIZES,
    SKIP,
    TARGET,
)
from anydml.engines.cpu.kernels.driver import RANK, STREAMED, UNITS, claim, code_of, compiled, walk, word
from anydml.engines.cpu.kernels.indices import clamped, found_addresses, index_at
from anydml.engines.cpu.kernels.ir import LINE, copy, fence, load, prefetch, scratch, store, stream
from anydml.engines.cpu.kernels.language import helper, uint64
from anydml.engines.cpu.kernels.loading import Kernel

PLACES, ENDS = 8 * BATCH, 8 * (MOST_LOOKUPS + 2)
"""Bytes of scratch for the addresses that a batch's indices find, and for where each end and lookup begins."""

NOWHERE = 64
"""Bytes of scratch that take what is skipped."""

BUFFER = 64 * BATCH
"""Bytes of scratch that a batch passes through before non-temporal stores."""

NEXT_AXIS = 32 << 10
"""Bytes of an axis at most that is asked for whole, one line ahead."""

LANES = 8
"""Indices that are wrapped, clamped and multiplied at a time."""

CODE = code_of("addressed.py", "indices.py")
"""Part of the kernel's name."""


@helper
def find_all(spot, index_step, places, count, axis, stride, place, step, nowhere, skips, bits):
    """Work out the addresses that indices find: `place` + `step` · their number + `stride` · their coordinate.

    Args:
        spot: address of the first index.
        index_step: bytes from one to the next.
        places: where the addresses go.
        count: indices.
        axis: coordinates of what they look up.
        stride: bytes from one of those to the next; `axis` · `stride` has 32 bits.
        place: where coordinate 0 of the first index is.
        step: bytes from there to where it is of the next one.
        nowhere: the address that those outside find, where they are skipped.
        skips: 1 where they are.
        bits: constant, 8, 32 or 64, negative for signed indices.
    """
    k = uint64(0)
    if index_step == uint64(abs(bits) // 8):
        while k + uint64(LANES) <= count:
            at, to = spot + k * index_step, places + uint64(8) * k
            found_addresses(at, to, axis, stride, place + k * step, step, nowhere, skips, bits, LANES)
            k += uint64(LANES)
    while k < count:
        at, to = spot + k * index_step, places + uint64(8) * k
        found_addresses(at, to, axis, stride, place + k * step, step, nowhere, skips, bits, 1)
        k += uint64(1)


@helper
def find_any(spot, index_step, places, count, axis, stride, place, step, nowhere, skips, kind):
    """The same for indices of any type."""
    if kind == uint64(0):
        find_all(spot, index_step, places, count, axis, stride, place, step, nowhere, skips, -32)
    elif kind == uint64(1):
        find_all(spot, index_step, places, count, axis, stride, place, step, nowhere, skips, 32)
    elif kind == uint64(2):
        find_all(spot, index_step, places, count, axis, stride, place, step, nowhere, skips, -64)
    elif kind == uint64(3):
        find_all(spot, index_step, places, count, axis, stride, place, step, nowhere, skips, 64)
    else:
        find_all(spot, index_step, places, count, axis, stride, place, step, nowhere, skips, 8)


@helper
def index_of_line(spot, kind):
    """One index of any type, as a signed 64-bit number."""
    if kind == uint64(0):
        return index_at(spot, -32)
    if kind == uint64(1):
        return index_at(spot, 32)
    if kind == uint64(2):
        return index_at(spot, -64)
    if kind == uint64(3):
        return index_at(spot, 64)
    return index_at(spot, 8)


@helper
def move_batch(places, other, step, count, is_source, skips, nowhere, size):
    """Move elements of `size` bytes, a constant, in order, between the addresses found and a line's own."""
    if is_source and skips != uint64(0):
        for k in range(count):
            at = load(places + uint64(8) * uint64(k))
            # What is not found is not written either.
            copy(nowhere if at == nowhere else other + uint64(k) * step, at, uint64(size))
    elif is_source:
        for k in range(count):
            copy(other + uint64(k) * step, load(places + uint64(8) * uint64(k)), uint64(size))
    else:
        for k in range(count):
            copy(load(places + uint64(8) * uint64(k)), other + uint64(k) * step, uint64(size))


@cache
def in_line_kernel() -> Kernel:
    """The kernel for elements of 1, 2, 4 … 64 bytes. A unit is a segment of a shared line, and what is in order."""

    def in_line(table, counter, chunks):
        units, streamed, rank, step = word(table, UNITS), word(table, STREAMED), word(table, RANK), word(table, 1)
        sequence_rank, inner, segment = word(table, SEQUENCE_RANK), word(table, INNER), word(table, SEGMENT)
        element, last = word(table, ELEMENT), word(table, LOOKUPS) + uint64(1)
        sizes = table + uint64(8 * SIZES)
        sequence_sizes = sizes + uint64(8) * rank
        entries = sequence_sizes + uint64(8) * sequence_rank
        entry_bytes = uint64(8) * (uint64(ENTRY_WORDS) + rank + sequence_rank)
        lookup_bytes = entry_bytes + uint64(8 * LOOKUP_WORDS)
        words = entries + last * lookup_bytes + entry_bytes
        axis, stride = load(words + uint64(8 * AXIS)), load(words + uint64(8 * AXIS_STRIDE))
        skips = uint64(load(words + uint64(8 * OUTSIDE)) == uint64(SKIP))
        is_source = load(words + uint64(8 * TARGET)) == uint64(1)
        found_end = uint64(1) if is_source else uint64(0)
        found_step = word(entries + found_end * lookup_bytes, 1)
        other_step = word(entries + (uint64(1) - found_end) * lookup_bytes, 1)
        index_step, kind = word(entries + last * lookup_bytes, 1), load(words)
        staged = is_source and skips == uint64(0) and streamed != uint64(0) and other_step == element
        segments = (inner + segment - uint64(1)) // segment
        lines = uint64(1)
        for d in range(sequence_rank):
            lines *= load(sequence_sizes + uint64(8) * uint64(d))
        is_far = axis * stride > uint64(NEAR_AXIS)
        span = axis * stride if is_source and segments * lines == uint64(1) else uint64(0)
        places, ends, nowhere, buffer = scratch(PLACES), scratch(ENDS), scratch(NOWHERE), scratch(BUFFER)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                outer = unit // segments
                low = (unit - outer * segments) * segment
                high = min(low + segment, inner)
                if span <= uint64(NEXT_AXIS) and outer + uint64(1) < units:
                    entry = entries + lookup_bytes
                    strides = entry + uint64(8 * ENTRY_WORDS)
                    soon = load(entry) + walk(sizes, rank, outer + uint64(1), strides, uint64(8))
                    for q in range(uint64(0), span, uint64(LINE)):
                        prefetch(soon + q)
                for line in range(lines):
                    for n in range(last + uint64(1)):
                        entry = entries + uint64(n) * lookup_bytes
                        strides = entry + uint64(8 * ENTRY_WORDS)
                        place = load(entry) + low * word(entry, 1) + walk(sizes, rank, outer, strides, uint64(8))
                        strides += uint64(8) * rank
                        place += walk(sequence_sizes, sequence_rank, uint64(line), strides, uint64(8))
                        store(ends + uint64(8) * uint64(n), place)
                    spot = load(ends + uint64(8) * last)
                    for n in range(uint64(2), last):
                        own = entries + uint64(n) * lookup_bytes + entry_bytes
                        found = clamped(
                            index_of_line(load(ends + uint64(8) * uint64(n)), load(own)), load(own + uint64(8 * AXIS))
                        )
                        spot += found * load(own + uint64(8 * AXIS_STRIDE))
                    place = load(ends + uint64(8) * found_end)
                    other = load(ends + uint64(8) * (uint64(1) - found_end))
                    first = low
                    while first < high:
                        count = min(high - first, uint64(BATCH))
                        target = other
                        if staged:
                            target = buffer
                            if first + count < high:
                                # The next batch begins on a line, where elements lie on multiples of their size.
                                count -= ((other + count * element) & uint64(LINE - 1)) // element
                        find_any(spot, index_step, places, count, axis, stride, place, found_step, nowhere, skips, kind)
                        if is_far:
                            for k in range(count):
                                prefetch(load(places + uint64(8) * uint64(k)))
                        if element == uint64(1):
                            move_batch(places, target, other_step, count, is_source, skips, nowhere, 1)
                        elif element == uint64(2):
                            move_batch(places, target, other_step, count, is_source, skips, nowhere, 2)
                        elif element == uint64(4):
                            move_batch(places, target, other_step, count, is_source, skips, nowhere, 4)
                        elif element == uint64(8):
                            move_batch(places, target, other_step, count, is_source, skips, nowhere, 8)
                        elif element == uint64(16):
                            move_batch(places, target, other_step, count, is_source, skips, nowhere, 16)
                        elif element == uint64(32):
                            move_batch(places, target, other_step, count, is_source, skips, nowhere, 32)
                        else:
                            move_batch(places, target, other_step, count, is_source, skips, nowhere, 64)
                        if staged:
                            stream(other, buffer, count * element, streamed)
                        place += count * found_step
                        other += count * other_step
                        spot += count * index_step
                        first += count
        fence()
        return uint64(1)

    return compiled(in_line, CODE)
