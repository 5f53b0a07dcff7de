"""Elements whose addresses are worked out one by one: any number of lookups at either end, also inside each other.

For a batch of coordinates the addresses come first, one lookup after the other, then the elements. What writes through
lookups may write an element twice, and the later coordinate must win: such dimensions are walked in order within a
unit, and threads share the others, or the range of an axis that is looked up.
"""

from __future__ import annotations

from functools import cache

from anydml.engines.cpu.kernels.driver import (
    HEADER,
    RANK,
    STREAMED,
    UNITS,
    UNITS_PER_CLAIM,
    claim,
    compiled,
    walk,
    word,
)
from anydml.engines.cpu.kernels.indices import clamped, index_at, lies_outside
from anydml.engines.cpu.kernels.ir import copy, fence, load, prefetch, scratch, store, stream
from anydml.engines.cpu.kernels.language import helper, uint64
from anydml.engines.cpu.kernels.loading import Kernel

SEQUENCE_RANK, INNER, SEGMENT, ELEMENT, LOOKUPS, BUCKETS, BUCKET_LOOKUP, IS_PARTIAL = range(HEADER, HEADER + 8)
"""Words of the table after the header: dimensions walked in order, length of the innermost dimension and how much of it
is a unit's, bytes of an element, lookups, buckets of an axis, the lookup whose axis it is, whether a unit leaves
elements out. Then the sizes of the shared dimensions, of those in order, the entries of destination and source, and of
the lookups."""

SIZES = HEADER + 8

ENTRY_WORDS = 2
"""Words of an entry before its strides: address, innermost stride. Then a stride per dimension, shared ones first."""

DTYPE, AXIS, AXIS_STRIDE, OUTSIDE, TARGET, IS_NESTED = range(6)
"""Words after the strides of an entry, which only those of lookups use: type of the index, length and stride of the
axis, what happens outside it, whose address it adds to (0 destination, 1 source, 2 + n lookup n), whether other lookups
add to its own address."""

LOOKUP_WORDS = 6
DTYPES = {"int32": 0, "uint32": 1, "int64": 2, "uint64": 3, "uint8": 4}
CLAMP, SKIP = 0, 1

BATCH = 128
MOST_LOOKUPS = 8
"""Coordinates at a time, and lookups of a move at most: their addresses wait in the nearest cache."""

ROW = 8 * BATCH
ROWS = ROW * (MOST_LOOKUPS + 2)
ORIGINS = 8 * (MOST_LOOKUPS + 2)
"""Bytes of a row of addresses, of those of all ends and lookups, and of one address of each."""

NOWHERE = (1 << 64) - 1
"""The address of an index that is skipped."""

NOWHERE_BYTES = 8
"""Bytes of scratch that are read in the place of an index that another lookup skipped."""

NEAR_AXIS, MOST_PREFETCHED = 512 << 10, 64
"""Bytes of an axis whose elements the caches bring faster than what would ask for them; of elements that are asked for
a batch at a time."""

AHEAD = 8
PREFETCHED = 512
"""Elements ahead, and bytes of each at most, that are asked for."""


@helper
def read_indices(spots, values, count, instead, bits):
    """Read the indices of a batch, as signed 64-bit numbers.

    Args:
        spots: one address per coordinate.
        values: where to.
        count: coordinates.
        instead: what is read where an address is `NOWHERE`.
        bits: constant, 8, 32 or 64, negative for signed indices.
    """
    for k in range(count):
        slot = uint64(8) * uint64(k)
        spot = load(spots + slot)
        store(values + slot, index_at(instead if spot == uint64(NOWHERE) else spot, bits))


@helper
def look_up(spots, values, words, alive, target, count, least, most):
    """Add what one lookup is worth to the addresses of a batch.

    Args:
        spots: where its indices are, one address per coordinate.
        values: its indices.
        words: address of the lookup's own words.
        alive: one word per coordinate, 0 where the element is left as it is.
        target: the addresses to add to.
        count: coordinates.
        least: where the bucket begins.
        most: and ends; both are the axis's where there are no buckets.
    """
    axis, stride = load(words + uint64(8 * AXIS)), load(words + uint64(8 * AXIS_STRIDE))
    mode, is_nested = load(words + uint64(8 * OUTSIDE)), load(words + uint64(8 * IS_NESTED))
    is_inner = load(words + uint64(8 * TARGET)) > uint64(1)
    if is_nested == uint64(0) and least == uint64(0) and most >= axis and not is_inner:
        for k in range(count):
            slot = uint64(8) * uint64(k)
            store(target + slot, load(target + slot) + clamped(load(values + slot), axis) * stride)
        if mode == uint64(SKIP):
            for k in range(count):
                slot = uint64(8) * uint64(k)
                store(alive + slot, load(alive + slot) & ~lies_outside(load(values + slot), axis))
        return
    # No branches: which indices count, nobody could foresee.
    skips = uint64(mode == uint64(SKIP))
    for k in range(count):
        slot = uint64(8) * uint64(k)
        value, before = load(values + slot), load(target + slot)
        index = clamped(value, axis)
        dead = uint64(load(spots + slot) == uint64(NOWHERE)) | (skips & lies_outside(value, axis))
        dead |= uint64(index < least) | uint64(index >= most)
        total = before + index * stride
        if is_inner:
            dead |= uint64(before == uint64(NOWHERE))
            store(target + slot, uint64(NOWHERE) if dead != uint64(0) else total)
        else:
            store(target + slot, total)
            store(alive + slot, load(alive + slot) & ~dead)


@helper
def move_up(rows, alive, count):
    """Let the addresses of elements that count follow each other: then the rest is a loop without branches, too."""
    free = rows
    for k in range(count):
        slot = uint64(8) * uint64(k)
        to, at = load(rows + slot), load(rows + uint64(ROW) + slot)
        store(free, to)
        store(free + uint64(ROW), at)
        free += uint64(8) * load(alive + slot)


@helper
def move_each(rows, count, size):
    """Move elements of `size` bytes, a constant, between the addresses of a batch, in order."""
    for k in range(count):
        slot = uint64(8) * uint64(k)
        copy(load(rows + slot), load(rows + uint64(ROW) + slot), uint64(size))


@cache
def addressed_kernel() -> Kernel:
    """The kernel for elements of any size, which the table says."""

    def addressed(table, counter, chunks):
        units, streamed, rank, step = (
            word(table, UNITS),
            word(table, STREAMED),
            word(table, RANK),
            word(table, UNITS_PER_CLAIM),
        )
        sequence_rank, inner, segment = word(table, SEQUENCE_RANK), word(table, INNER), word(table, SEGMENT)
        element, lookups = word(table, ELEMENT), word(table, LOOKUPS)
        buckets, bucket_lookup = word(table, BUCKETS), word(table, BUCKET_LOOKUP)
        is_partial = word(table, IS_PARTIAL)
        sizes = table + uint64(8 * SIZES)
        sequence_sizes = sizes + uint64(8) * rank
        entries = sequence_sizes + uint64(8) * sequence_rank
        entry_bytes = uint64(8) * (uint64(ENTRY_WORDS) + rank + sequence_rank)
        lookup_bytes = entry_bytes + uint64(8 * LOOKUP_WORDS)
        first_lookup = entries + uint64(2) * lookup_bytes
        segments = (inner + segment - uint64(1)) // segment
        lines = uint64(1)
        for d in range(sequence_rank):
            lines *= load(sequence_sizes + uint64(8) * uint64(d))
        # Addresses of destinations, sources and indices, a row each.
        rows = scratch(ROWS)
        alive = scratch(ROW)
        origins = scratch(ORIGINS)
        values = scratch(ROW)
        is_far = False
        for n in range(lookups):
            words = first_lookup + uint64(n) * lookup_bytes + entry_bytes
            span = load(words + uint64(8 * AXIS)) * load(words + uint64(8 * AXIS_STRIDE))
            is_far = is_far or (span > uint64(NEAR_AXIS) and element <= uint64(MOST_PREFETCHED))
        instead = scratch(NOWHERE_BYTES)
        store(instead, uint64(0))
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                rest = unit // buckets
                bucket = unit - rest * buckets
                outer = rest // segments
                low = (rest - outer * segments) * segment
                high = min(low + segment, inner)
                for n in range(lookups + uint64(2)):
                    entry = entries + uint64(n) * lookup_bytes
                    strides = entry + uint64(8 * ENTRY_WORDS)
                    store(origins + uint64(8) * uint64(n), load(entry) + walk(sizes, rank, outer, strides, uint64(8)))
                for line in range(lines):
                    first = low
                    while first < high:
                        count = min(high - first, uint64(BATCH))
                        if is_partial != uint64(0):
                            for k in range(count):
                                store(alive + uint64(8) * uint64(k), uint64(1))
                        for n in range(lookups + uint64(2)):
                            entry = entries + uint64(n) * lookup_bytes
                            by = load(entry + uint64(8))
                            strides = entry + uint64(8) * (uint64(ENTRY_WORDS) + rank)
                            origin = load(origins + uint64(8) * uint64(n)) + first * by
                            origin += walk(sequence_sizes, sequence_rank, uint64(line), strides, uint64(8))
                            row = rows + uint64(ROW) * uint64(n)
                            for k in range(count):
                                store(row + uint64(8) * uint64(k), origin + uint64(k) * by)
                        for n in range(lookups):
                            words = first_lookup + uint64(n) * lookup_bytes + entry_bytes
                            spots = rows + uint64(ROW) * (uint64(n) + uint64(2))
                            target = rows + uint64(ROW) * load(words + uint64(8 * TARGET))
                            axis, kind = load(words + uint64(8 * AXIS)), load(words)
                            least, most = uint64(0), axis
                            if buckets > uint64(1) and uint64(n) == bucket_lookup:
                                share = (axis + buckets - uint64(1)) // buckets
                                least = bucket * share
                                most = least + share
                            if kind == uint64(0):
                                read_indices(spots, values, count, instead, -32)
                            elif kind == uint64(1):
                                read_indices(spots, values, count, instead, 32)
                            elif kind == uint64(2):
                                read_indices(spots, values, count, instead, -64)
                            elif kind == uint64(3):
                                read_indices(spots, values, count, instead, 64)
                            else:
                                read_indices(spots, values, count, instead, 8)
                            look_up(spots, values, words, alive, target, count, least, most)
                        left = count
                        if is_partial != uint64(0):
                            left = uint64(0)
                            for k in range(count):
                                left += load(alive + uint64(8) * uint64(k))
                            if left < count:
                                move_up(rows, alive, count)
                        if is_far:
                            for k in range(left):
                                prefetch(load(rows + uint64(8) * uint64(k)))
                                prefetch(load(rows + uint64(ROW) + uint64(8) * uint64(k)))
                        if element == uint64(1):
                            move_each(rows, left, 1)
                        elif element == uint64(2):
                            move_each(rows, left, 2)
                        elif element == uint64(4):
                            move_each(rows, left, 4)
                        elif element == uint64(8):
                            move_each(rows, left, 8)
                        elif element == uint64(16):
                            move_each(rows, left, 16)
                        elif element == uint64(32):
                            move_each(rows, left, 32)
                        elif element == uint64(64):
                            move_each(rows, left, 64)
                        else:
                            for k in range(left):
                                slot = uint64(8) * uint64(k)
                                last = left - uint64(1)
                                soon = load(rows + uint64(ROW) + uint64(8) * min(uint64(k) + uint64(AHEAD), last))
                                for q in range(uint64(0), min(element, uint64(PREFETCHED)), uint64(64)):
                                    prefetch(soon + q)
                                stream(load(rows + slot), load(rows + uint64(ROW) + slot), element, streamed)
                        first += count
        fence()
        return uint64(1)

    return compiled(addressed)
