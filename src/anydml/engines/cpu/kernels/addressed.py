"""Elements whose addresses are worked out one by one: any number of lookups at either end, also inside each other.

For a batch of coordinates the addresses come first, one lookup after the other, then the elements. What writes through
lookups may write an element twice, and the later coordinate must win: such dimensions are walked in order within a
unit, and threads share the others, or the range of an axis that is looked up.
"""

from __future__ import annotations

from functools import cache

from numba import uint64

from anydml.engines.cpu.kernels.driver import (
    HEADER,
    RANK,
    STREAMED,
    UNITS,
    UNITS_PER_CLAIM,
    Kernel,
    claim,
    compiled,
    walk,
    word,
)
from anydml.engines.cpu.kernels.ir import (
    clamp_index,
    copy,
    fence,
    helper,
    is_outside,
    load,
    prefetch,
    scratch,
    store,
    stream,
)

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

NEAR_AXIS, NOWHERE_BYTES = 512 << 10, 64
"""Bytes of the axis of a single lookup whose elements are moved one by one, as caches are faster than what would ask
for them ahead; bytes of scratch that takes what is skipped."""

AHEAD = 8
PREFETCHED = 512
"""Elements ahead, and bytes of each at most, that are asked for."""


@helper
def look_up(indices, step, words, spots, alive, target, count, least, most, bits):
    """Add what one lookup is worth to the addresses of a batch.

    Args:
        indices: address of the batch's first index, but for what other lookups add.
        step: bytes from one index to the next.
        words: address of the lookup's own words.
        spots: what other lookups add to the addresses of its indices, one word per coordinate.
        alive: one word per coordinate, 0 where the element is left as it is.
        target: the addresses to add to.
        count: coordinates.
        least: where the bucket begins.
        most: and ends; both are the axis's where there are no buckets.
        bits: constant, 8, 32 or 64, negative for signed indices.
    """
    axis, stride = load(words + uint64(8 * AXIS)), load(words + uint64(8 * AXIS_STRIDE))
    mode, is_nested = load(words + uint64(8 * OUTSIDE)), load(words + uint64(8 * IS_NESTED))
    is_inner = load(words + uint64(8 * TARGET)) > uint64(1)
    if mode == uint64(CLAMP) and is_nested == uint64(0) and least == uint64(0) and most >= axis:
        for k in range(count):
            at = target + uint64(8) * uint64(k)
            store(at, load(at) + clamp_index(indices + uint64(k) * step, axis, bits) * stride)
        return
    # No branches: which indices count, nobody could foresee.
    for k in range(count):
        slot = uint64(8) * uint64(k)
        by, dead = uint64(0), uint64(0)
        if is_nested != uint64(0):
            by = load(spots + slot)
            dead = uint64(by == uint64(NOWHERE))
            by = uint64(0) if dead != uint64(0) else by
        spot = indices + uint64(k) * step + by
        index = clamp_index(spot, axis, bits)
        if mode == uint64(SKIP):
            dead |= is_outside(spot, axis, bits)
        dead |= uint64(index < least) | uint64(index >= most)
        total = load(target + slot) + index * stride
        if is_inner:
            store(target + slot, uint64(NOWHERE) if dead != uint64(0) else total)
        else:
            store(target + slot, total)
            store(alive + slot, load(alive + slot) & ~dead)


@helper
def one_by_one(to, to_step, source, from_step, indices, index_step, words, count, size, bits):
    """Move elements by one lookup, in order, those that are skipped to where nobody looks.

    Args:
        to: address of the first destination, but for what the lookup adds.
        to_step: bytes from one destination to the next.
        source: likewise.
        from_step: likewise.
        indices: address of the first index.
        index_step: bytes from one index to the next.
        words: address of the lookup's own words.
        count: elements.
        size: constant, bytes of an element.
        bits: constant, 8, 32 or 64, negative for signed indices.
    """
    axis, stride = load(words + uint64(8 * AXIS)), load(words + uint64(8 * AXIS_STRIDE))
    skips = load(words + uint64(8 * OUTSIDE)) == uint64(SKIP)
    is_source = load(words + uint64(8 * TARGET)) == uint64(1)
    by_source, by_to = (stride, uint64(0)) if is_source else (uint64(0), stride)
    nowhere = scratch(NOWHERE_BYTES)
    for k in range(count):
        spot = indices + uint64(k) * index_step
        index = clamp_index(spot, axis, bits)
        at = to + uint64(k) * to_step + index * by_to
        if skips and is_outside(spot, axis, bits) != uint64(0):
            at = nowhere
        copy(at, source + uint64(k) * from_step + index * by_source, uint64(size))


@cache
def addressed_kernel(size: int) -> Kernel:
    """The kernel for elements of `size` bytes; 0: of any size, which the table says."""

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
        only = first_lookup + entry_bytes
        is_near = size != 0 and lookups == uint64(1) and buckets == uint64(1)
        is_near = is_near and load(only + uint64(8 * AXIS)) * load(only + uint64(8 * AXIS_STRIDE)) <= uint64(NEAR_AXIS)
        only_kind = load(only)
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
                    if is_near:
                        to, at = load(origins), load(origins + uint64(8))
                        spot = load(origins + uint64(16))
                        strides = entries + uint64(8) * (uint64(ENTRY_WORDS) + rank)
                        to += walk(sequence_sizes, sequence_rank, uint64(line), strides, uint64(8))
                        at += walk(sequence_sizes, sequence_rank, uint64(line), strides + lookup_bytes, uint64(8))
                        strides += uint64(2) * lookup_bytes
                        spot += walk(sequence_sizes, sequence_rank, uint64(line), strides, uint64(8))
                        to_step, from_step = word(entries, 1), word(entries + lookup_bytes, 1)
                        index_step = word(first_lookup, 1)
                        to += low * to_step
                        at += low * from_step
                        spot += low * index_step
                        many = high - low
                        if only_kind == uint64(0):
                            one_by_one(to, to_step, at, from_step, spot, index_step, only, many, size, -32)
                        elif only_kind == uint64(1):
                            one_by_one(to, to_step, at, from_step, spot, index_step, only, many, size, 32)
                        elif only_kind == uint64(2):
                            one_by_one(to, to_step, at, from_step, spot, index_step, only, many, size, -64)
                        elif only_kind == uint64(3):
                            one_by_one(to, to_step, at, from_step, spot, index_step, only, many, size, 64)
                        else:
                            one_by_one(to, to_step, at, from_step, spot, index_step, only, many, size, 8)
                        continue
                    while first < high:
                        count = min(high - first, uint64(BATCH))
                        if is_partial != uint64(0):
                            for k in range(count):
                                store(alive + uint64(8) * uint64(k), uint64(1))
                        for n in range(lookups + uint64(2)):
                            entry = entries + uint64(n) * lookup_bytes
                            by = load(entry + uint64(8)) if uint64(n) < uint64(2) else uint64(0)
                            origin = uint64(0)
                            if uint64(n) < uint64(2):
                                strides = entry + uint64(8) * (uint64(ENTRY_WORDS) + rank)
                                origin = load(origins + uint64(8) * uint64(n)) + first * by
                                origin += walk(sequence_sizes, sequence_rank, uint64(line), strides, uint64(8))
                            elif load(entry + entry_bytes + uint64(8 * IS_NESTED)) == uint64(0):
                                continue
                            row = rows + uint64(ROW) * uint64(n)
                            for k in range(count):
                                store(row + uint64(8) * uint64(k), origin + uint64(k) * by)
                        for n in range(lookups):
                            entry = first_lookup + uint64(n) * lookup_bytes
                            strides = entry + uint64(8) * (uint64(ENTRY_WORDS) + rank)
                            words = entry + entry_bytes
                            by = load(entry + uint64(8))
                            origin = load(origins + uint64(8) * (uint64(n) + uint64(2))) + first * by
                            origin += walk(sequence_sizes, sequence_rank, uint64(line), strides, uint64(8))
                            spots = rows + uint64(ROW) * (uint64(n) + uint64(2))
                            target = rows + uint64(ROW) * load(words + uint64(8 * TARGET))
                            axis, kind = load(words + uint64(8 * AXIS)), load(words)
                            least, most = uint64(0), axis
                            if buckets > uint64(1) and uint64(n) == bucket_lookup:
                                share = (axis + buckets - uint64(1)) // buckets
                                least = bucket * share
                                most = least + share
                            if kind == uint64(0):
                                look_up(origin, by, words, spots, alive, target, count, least, most, -32)
                            elif kind == uint64(1):
                                look_up(origin, by, words, spots, alive, target, count, least, most, 32)
                            elif kind == uint64(2):
                                look_up(origin, by, words, spots, alive, target, count, least, most, -64)
                            elif kind == uint64(3):
                                look_up(origin, by, words, spots, alive, target, count, least, most, 64)
                            else:
                                look_up(origin, by, words, spots, alive, target, count, least, most, 8)
                        # Those that count move up, so that the rest is a loop without branches, too.
                        left = count if is_partial == uint64(0) else uint64(0)
                        for k in range(count - left):
                            slot = uint64(8) * uint64(k)
                            to, at = load(rows + slot), load(rows + uint64(ROW) + slot)
                            store(rows + uint64(8) * left, to)
                            store(rows + uint64(ROW) + uint64(8) * left, at)
                            prefetch(to)
                            prefetch(at)
                            left += load(alive + slot)
                        for k in range(left):
                            slot = uint64(8) * uint64(k)
                            to, at = load(rows + slot), load(rows + uint64(ROW) + slot)
                            if size != 0:
                                copy(to, at, uint64(size))
                            else:
                                last = left - uint64(1)
                                soon = load(rows + uint64(ROW) + uint64(8) * min(uint64(k) + uint64(AHEAD), last))
                                for q in range(uint64(0), min(element, uint64(PREFETCHED)), uint64(64)):
                                    prefetch(soon + q)
                                stream(to, at, element, streamed)
                        first += count
        fence()
        return uint64(1)

    return compiled(addressed, size)
