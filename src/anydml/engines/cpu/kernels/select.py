"""Elements of one source or of another, by a mask of bytes: a line of them at a time, without a branch.

Nobody could foresee which way a branch goes. A source that stands still, as a broadcast one does, is a line of copies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir

from anydml.engines.cpu.kernels.blanks import Filling, blank, constant
from anydml.engines.cpu.kernels.driver import HEADER, RANK, STREAMED, UNITS, claim, compiled, walk, word
from anydml.engines.cpu.kernels.ir import (
    I8,
    I32,
    LINE,
    copy,
    fence,
    load,
    load_as,
    scratch,
    short_of_line,
    store_as,
    stream,
    stream_as,
)
from anydml.engines.cpu.kernels.language import helper, intrinsic, types, uint64
from anydml.engines.cpu.kernels.loading import Kernel

INNER, SEGMENT, ELEMENT = range(HEADER, HEADER + 3)
SIZES = HEADER + 3
"""Words of the table after the header: elements of a line, elements of a unit, bytes of an element; then the sizes of
the box of lines, and the entries of destination, both sources and mask: address, inner stride, stride a dimension."""


@intrinsic
def select_line(typing: Any, to: Any, a: Any, b: Any, mask: Any) -> Any:
    """A line: elements of a where the mask's byte is not 0, else of b."""
    return types.void(types.uint64, types.uint64, types.uint64, types.uint64), blank("select_line")


@intrinsic
def select_line_streamed(typing: Any, to: Any, a: Any, b: Any, mask: Any) -> Any:
    """The same, by a non-temporal store to an aligned address."""
    return types.void(types.uint64, types.uint64, types.uint64, types.uint64), blank("select_line_streamed")


def _line(element: int, store: Callable[[Any, Any, Any], Any]) -> Filling:
    """The code of `select_line` for elements of so many bytes."""
    word_bytes = min(element, 8)

    def write(builder: Any, arguments: list[Any]) -> None:
        lanes = LINE // element
        kind = ir.VectorType(ir.IntType(8 * word_bytes), LINE // word_bytes)
        bytes_of = ir.VectorType(I8, lanes)
        chosen = load_as(builder, arguments[3], bytes_of)
        holds = builder.icmp_unsigned("!=", chosen, ir.Constant(bytes_of, None))
        if element > word_bytes:
            order = [k * word_bytes // element for k in range(kind.count)]
            places = ir.Constant(ir.VectorType(I32, kind.count), order)
            holds = builder.shuffle_vector(holds, ir.Constant(holds.type, ir.Undefined), places)
        value = builder.select(holds, *(load_as(builder, each, kind) for each in arguments[1:3]))
        store(builder, value, arguments[0])

    return write


@intrinsic
def chosen(typing: Any, a: Any, b: Any, mask: Any) -> Any:
    """The first address where the byte at the third is not 0, else the second."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        holds = builder.icmp_unsigned("!=", load_as(builder, arguments[2], I8), ir.Constant(I8, 0))
        return builder.select(holds, arguments[0], arguments[1])

    return types.uint64(types.uint64, types.uint64, types.uint64), generate


@helper
def entry_of(entries, number, rank, line, first, sizes):
    """The address of an operand's element of a line."""
    entry = entries + uint64(8) * uint64(number) * (uint64(2) + rank)
    return load(entry) + first * word(entry, 1) + walk(sizes, rank, line, entry + uint64(16), uint64(8))


@helper
def step_of(entries, number, rank):
    """An operand's inner stride."""
    return load(entries + uint64(8) * (uint64(number) * (uint64(2) + rank) + uint64(1)))


@cache
def select_kernel(size: int) -> Kernel:
    """The kernel for elements of `size` bytes; 0: of as many as the table says, one by one."""
    element = max(size, 1)
    blanks = {"size": size, "select_line": _line(element, store_as), "select_line_streamed": _line(element, stream_as)}

    def select(table, counter, chunks):
        size = constant("size")
        element = max(size, uint64(1))
        lanes = uint64(LINE) // element
        units, streamed, rank, step = word(table, UNITS), word(table, STREAMED), word(table, RANK), word(table, 1)
        inner, segment, length = word(table, INNER), word(table, SEGMENT), word(table, ELEMENT)
        sizes = table + uint64(8 * SIZES)
        entries = sizes + uint64(8) * rank
        to_step, a_step = step_of(entries, uint64(0), rank), step_of(entries, uint64(1), rank)
        b_step, mask_step = step_of(entries, uint64(2), rank), step_of(entries, uint64(3), rank)
        segments = (inner + segment - uint64(1)) // segment
        in_lines = size != uint64(0) and to_step == size and mask_step == uint64(1)
        in_lines = in_lines and (a_step == uint64(0) or a_step == size)
        in_lines = in_lines and (b_step == uint64(0) or b_step == size)
        still_a, still_b = scratch(LINE), scratch(LINE)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                line = unit // segments
                first = (unit - line * segments) * segment
                count = min(segment, inner - first)
                to = entry_of(entries, uint64(0), rank, line, first, sizes)
                a = entry_of(entries, uint64(1), rank, line, first, sizes)
                b = entry_of(entries, uint64(2), rank, line, first, sizes)
                mask = entry_of(entries, uint64(3), rank, line, first, sizes)
                if size == uint64(0):
                    for k in range(count):
                        at = chosen(a + uint64(k) * a_step, b + uint64(k) * b_step, mask + uint64(k) * mask_step)
                        stream(to + uint64(k) * to_step, at, length, streamed)
                    continue
                k = uint64(0)
                if in_lines and count >= uint64(2) * lanes:
                    until = uint64(0)
                    if streamed != uint64(0) and to % element == uint64(0):
                        until = short_of_line(to) // element
                    while k < until:
                        at = chosen(a + k * a_step, b + k * b_step, mask + k)
                        copy(to + k * size, at, size)
                        k += uint64(1)
                    line_a, line_b = a + k * a_step, b + k * b_step
                    if a_step == uint64(0):
                        line_a = still_a
                        for j in range(lanes):
                            copy(still_a + uint64(j) * size, a, size)
                    if b_step == uint64(0):
                        line_b = still_b
                        for j in range(lanes):
                            copy(still_b + uint64(j) * size, b, size)
                    by_a, by_b = a_step * lanes, b_step * lanes
                    is_direct = streamed != uint64(0) and (to + k * size) % uint64(LINE) == uint64(0)
                    if is_direct:
                        while k + lanes <= count:
                            select_line_streamed(to + k * size, line_a, line_b, mask + k)
                            line_a += by_a
                            line_b += by_b
                            k += lanes
                    while k + lanes <= count:
                        select_line(to + k * size, line_a, line_b, mask + k)
                        line_a += by_a
                        line_b += by_b
                        k += lanes
                while k < count:
                    at = chosen(a + k * a_step, b + k * b_step, mask + k * mask_step)
                    copy(to + k * to_step, at, size)
                    k += uint64(1)
        fence()
        return uint64(1)

    return compiled(select, size, blanks=blanks)
