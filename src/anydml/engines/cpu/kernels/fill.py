"""Fills: runs of one element again and again. It is read once a run, and what leaves the registers is whole lines."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir

from anydml.engines.cpu.kernels.driver import HEADER, RANK, STREAMED, UNITS, claim, compiled, walk, word
from anydml.engines.cpu.kernels.ir import (
    I8,
    I32,
    I64,
    LINE,
    copy,
    copy_rest,
    fence,
    literal_value,
    load,
    load_as,
    scratch,
    short_of_line,
    store_as,
    stream_line,
)
from anydml.engines.cpu.kernels.language import helper, intrinsic, types, uint64
from anydml.engines.cpu.kernels.loading import Kernel

TO, SOURCE, ELEMENT, RUN, LAST_RUN, DIFFERS = range(HEADER, HEADER + 6)
SIZES = HEADER + 6
"""Words of the table after the header: both addresses, bytes of the element (a power of two, a line at most), of a run,
and of the last run of a line of runs, one at least, and 1 where runs have elements of their own; then sizes, and the
strides of destination and source."""

LINES = 192
"""Bytes of scratch: a line of elements that begins anywhere in the first."""


@helper
def fill_run(to, size, lines, element, streamed):
    """Fill a run with what stands, again and again, from `lines` on."""
    if size < uint64(2 * LINE):
        at = uint64(0)
        if size >= uint64(LINE):
            copy(to, lines, uint64(LINE))
            at = uint64(LINE)
        copy_rest(to + at, lines, size - at)
        return
    copy(to, lines, uint64(LINE))
    rest = (size - uint64(LINE)) & (element - uint64(1))
    copy(to + size - uint64(LINE), lines + rest, uint64(LINE))
    at = short_of_line(to)
    whole = lines + (at & (element - uint64(1)))
    end = to + size - uint64(LINE)
    at += to
    if streamed != uint64(0):
        while at <= end:
            stream_line(at, whole)
            at += uint64(LINE)
        return
    while at + uint64(3 * LINE) <= end:
        copy(at, whole, uint64(LINE))
        copy(at + uint64(LINE), whole, uint64(LINE))
        copy(at + uint64(2 * LINE), whole, uint64(LINE))
        copy(at + uint64(3 * LINE), whole, uint64(LINE))
        at += uint64(4 * LINE)
    while at <= end:
        copy(at, whole, uint64(LINE))
        at += uint64(LINE)


@intrinsic
def repeat_as(typing: Any, lines: Any, source: Any, size: Any) -> Any:
    """Write an element of as many bytes (a constant, a power of two) again and again, by whole lines from `lines` on.

    Whole lines, because those that are loaded soon after find what was stored at once, and smaller parts do not.
    """
    count = literal_value(size)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        element = load_as(builder, arguments[1], ir.VectorType(I8, count))
        order = ir.Constant(ir.VectorType(I32, LINE), [byte % count for byte in range(LINE)])
        line = builder.shuffle_vector(element, element, order)
        for at in range(0, LINES, LINE):
            store_as(builder, line, builder.add(arguments[0], ir.Constant(I64, at)))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, size), generate


@helper
def repeat_element(lines, source, element):
    """Write an element again and again, from `lines` on."""
    if element == uint64(1):
        repeat_as(lines, source, 1)
    elif element == uint64(2):
        repeat_as(lines, source, 2)
    elif element == uint64(4):
        repeat_as(lines, source, 4)
    elif element == uint64(8):
        repeat_as(lines, source, 8)
    elif element == uint64(16):
        repeat_as(lines, source, 16)
    elif element == uint64(32):
        repeat_as(lines, source, 32)
    else:
        repeat_as(lines, source, 64)


@cache
def fill_kernel() -> Kernel:
    """The kernel for any element whose size divides a line. A unit is a run."""

    def fill(table, counter, chunks):
        units, streamed, step = word(table, UNITS), word(table, STREAMED), word(table, 1)
        outer = word(table, RANK) - uint64(1)
        element, run, last_run = word(table, ELEMENT), word(table, RUN), word(table, LAST_RUN)
        sizes = table + uint64(8 * SIZES)
        strides = sizes + uint64(8) * (outer + uint64(1))
        sources = strides + uint64(8) * (outer + uint64(1))
        runs, gap = load(sizes + uint64(8) * outer), load(strides + uint64(8) * outer)
        differs, step_of_source = word(table, DIFFERS) != uint64(0), load(sources + uint64(8) * outer)
        lines = scratch(LINES)
        repeat_element(lines, word(table, SOURCE), element)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            end = min(begin + step, units)
            while begin < end:
                line = begin // runs
                first = begin - line * runs
                stop = min(runs, first + end - begin)
                to = word(table, TO) + walk(sizes, outer, line, strides, uint64(8)) + first * gap
                source = word(table, SOURCE)
                if differs:
                    source += walk(sizes, outer, line, sources, uint64(8)) + first * step_of_source
                begin += stop - first
                for k in range(first, stop):
                    if differs:
                        repeat_element(lines, source, element)
                        source += step_of_source
                    fill_run(to, last_run if uint64(k) + uint64(1) == runs else run, lines, element, streamed)
                    to += gap
        fence()
        return uint64(1)

    return compiled(fill)
