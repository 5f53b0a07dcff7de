"""Where elements are not zero, in two passes of one kernel: how many of each piece, then the coordinates of each.

Between the passes the counts become the rows at which pieces begin. A piece's flags are made first, by vectors; what
they let through is put together without a branch that nobody could foresee.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir

from anydml.engines.cpu.kernels.driver import HEADER, RANK, UNITS, UNITS_PER_CLAIM, claim, compiled, word
from anydml.engines.cpu.kernels.ir import I64, literal_value, load, load_as, scratch, store, store_as
from anydml.engines.cpu.kernels.language import helper, intrinsic, types, uint64
from anydml.engines.cpu.kernels.loading import Kernel

SOURCE, TOTAL, ELEMENT, KEPT, WRITES, ROWS, TARGET, WIDTH = range(HEADER, HEADER + 8)
SIZES = HEADER + 8
"""Words of the table after the header: the elements' address, how many they are, bytes of each, the bits of it that
count, whether this is the second pass; the address of a number a piece; that of the coordinates, and bytes of each.
Then the sizes: as many as the header says."""

PIECE = 4096
"""Elements of a unit."""

MOST_DIMENSIONS = 64

WORD = 8
"""Flags that are looked at together."""

FOUND = 4 * (PIECE + WORD)
COORDINATES = 8 * MOST_DIMENSIONS
"""Bytes of scratch for places that were found, and for the coordinates of a line."""


@intrinsic
def is_kept(typing: Any, address: Any, kept: Any, size: Any) -> Any:
    """1 where an element of `size` bytes (a constant) has one of the kept bits, else 0."""
    kind = ir.IntType(8 * literal_value(size))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = arguments[1] if kind == I64 else builder.trunc(arguments[1], kind)
        bits = builder.and_(load_as(builder, arguments[0], kind), bits)
        return builder.zext(builder.icmp_unsigned("!=", bits, ir.Constant(kind, 0)), I64)

    return types.uint64(types.uint64, types.uint64, size), generate


@intrinsic
def load_small(typing: Any, address: Any, size: Any) -> Any:
    """The number of `size` bytes, a constant, at an address."""
    kind = ir.IntType(8 * literal_value(size))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.zext(load_as(builder, arguments[0], kind), I64)

    return types.uint64(types.uint64, size), generate


@intrinsic
def store_small(typing: Any, address: Any, value: Any, size: Any) -> Any:
    """Write the low `size` bytes, a constant, of a number."""
    kind = ir.IntType(8 * literal_value(size))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        store_as(builder, builder.trunc(arguments[1], kind), arguments[0])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, size), generate


@helper
def flag(source, count, kept, flags, size):
    """Write a byte for each element, 1 where it is not zero; gives how many are."""
    total = uint64(0)
    for k in range(count):
        one = is_kept(source + uint64(k) * uint64(size), kept, size)
        store_small(flags + uint64(k), one, 1)
        total += one
    return total


@helper
def flag_any(source, count, kept, flags, element):
    """The same for elements of 1, 2, 4 or 8 bytes."""
    if element == uint64(1):
        return flag(source, count, kept, flags, 1)
    if element == uint64(2):
        return flag(source, count, kept, flags, 2)
    if element == uint64(4):
        return flag(source, count, kept, flags, 4)
    return flag(source, count, kept, flags, 8)


@helper
def places(flags, begin, end, found):
    """Write which flags are set, counted from `begin`, and give how many."""
    many, k = uint64(0), begin
    while k + uint64(WORD) <= end:
        if load(flags + k) != uint64(0):
            for j in range(WORD):
                store_small(found + uint64(4) * many, k - begin + uint64(j), 4)
                many += load_small(flags + k + uint64(j), 1)
        k += uint64(WORD)
    while k < end:
        store_small(found + uint64(4) * many, k - begin, 4)
        many += load_small(flags + k, 1)
        k += uint64(1)
    return many


@helper
def put(to, step, count, number, width):
    """Write a number of 4 or 8 bytes to each of some rows."""
    if width == uint64(8):
        for j in range(count):
            store(to + uint64(j) * step, number)
    else:
        for j in range(count):
            store_small(to + uint64(j) * step, number, 4)


@helper
def put_places(to, step, count, found, first, width):
    """The same for places that were found, counted from `first`."""
    if width == uint64(8):
        for j in range(count):
            store(to + uint64(j) * step, first + load_small(found + uint64(4) * uint64(j), 4))
    else:
        for j in range(count):
            store_small(to + uint64(j) * step, first + load_small(found + uint64(4) * uint64(j), 4), 4)


@cache
def nonzero_kernel() -> Kernel:
    """The kernel for packed elements of 1, 2, 4 or 8 bytes."""

    def nonzero(table, counter, chunks):
        units, step, rank = word(table, UNITS), word(table, UNITS_PER_CLAIM), word(table, RANK)
        source, total, element = word(table, SOURCE), word(table, TOTAL), word(table, ELEMENT)
        kept, writes, rows = word(table, KEPT), word(table, WRITES), word(table, ROWS)
        target, width = word(table, TARGET), word(table, WIDTH)
        sizes = table + uint64(8 * SIZES)
        last = rank - uint64(1)
        inner, row_bytes = load(sizes + uint64(8) * last), rank * width
        flags, found, at = scratch(PIECE), scratch(FOUND), scratch(COORDINATES)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                first = unit * uint64(PIECE)
                count = min(uint64(PIECE), total - first)
                many = flag_any(source + first * element, count, kept, flags, element)
                if writes == uint64(0):
                    store(rows + uint64(8) * unit, many)
                    continue
                row = load(rows + uint64(8) * unit)
                # Where somebody else writes to the elements meanwhile, there is place for no more than were counted.
                left = load(rows + uint64(8) * (unit + uint64(1))) - row
                if min(many, left) == uint64(0):
                    continue
                to = target + row * row_bytes
                rest = first
                d = rank
                while d > uint64(0):
                    d -= uint64(1)
                    size = load(sizes + uint64(8) * d)
                    store(at + uint64(8) * d, rest % size)
                    rest = rest // size
                k = uint64(0)
                while k < count:
                    column = load(at + uint64(8) * last)
                    stop = min(count, k + inner - column)
                    many = min(places(flags, k, stop, found), left)
                    left -= many
                    if many != uint64(0):
                        for q in range(last):
                            put(to + uint64(q) * width, row_bytes, many, load(at + uint64(8) * uint64(q)), width)
                        put_places(to + last * width, row_bytes, many, found, column, width)
                        to += many * row_bytes
                    k = stop
                    store(at + uint64(8) * last, uint64(0))
                    d = last
                    while d > uint64(0):
                        d -= uint64(1)
                        following = load(at + uint64(8) * d) + uint64(1)
                        if following < load(sizes + uint64(8) * d):
                            store(at + uint64(8) * d, following)
                            break
                        store(at + uint64(8) * d, uint64(0))
        return uint64(1)

    return compiled(nonzero)
