"""Pixels: groups of a few bytes that follow each other at a step of their own on both sides, each permuted in itself.

RGB to BGR, bytes of a word swapped, alpha left out or left alone. Some pixels, whose places are whole lines, make a
block: each vector of the destination is a permutation, known when this is compiled, of one or two vectors of the
source. What is left of a line of pixels is done by one more block, which begins earlier and does some of them again.
Blocks read nothing before their first byte that is needed, and nothing behind their last.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from anydml.engines.cpu.kernels.blanks import Filling, blank, constant
from anydml.engines.cpu.kernels.driver import HEADER, RANK, STREAMED, UNITS, claim, code_of, compiled, walk, word
from anydml.engines.cpu.kernels.interleave import rows_to_line
from anydml.engines.cpu.kernels.ir import LINE, copy_lines, fence, load, scratch, short_of_line, stream
from anydml.engines.cpu.kernels.language import intrinsic, types, uint64
from anydml.engines.cpu.kernels.loading import Kernel
from anydml.engines.cpu.kernels.pixel_registers import LANE, block_code, parse_spec

INNER, SEGMENT, LINES, TOGETHER, JOINED = range(HEADER, HEADER + 5)
SIZES = HEADER + 5
"""Words of the table after the header: pixels of a line, pixels of a unit, lines, lines of a unit, whether these follow
each other in the destination and leave together; then the sizes of the box of lines, and the addresses of destination
and source, each with its strides."""

SCRATCH = 16384
"""Bytes of scratch that a unit's pixels must fit in."""

CODE = code_of("pixel_registers.py")


@intrinsic
def move_block(typing: Any, to: Any, source: Any) -> Any:
    """Move a block, given the addresses of its first pixel on both sides."""
    return types.void(types.uint64, types.uint64), blank("move_block")


@intrinsic
def move_block_streamed(typing: Any, to: Any, source: Any) -> Any:
    """The same, by non-temporal stores to an address on a line."""
    return types.void(types.uint64, types.uint64), blank("move_block_streamed")


@intrinsic
def move_few(typing: Any, to: Any, source: Any) -> Any:
    """The same of a block of a short line."""
    return types.void(types.uint64, types.uint64), blank("move_few")


@cache
def pixels_kernel(spec: str) -> Kernel:
    """The kernel for a pattern (see `Spec`); lines have at least as many pixels as a block of a short line."""
    pattern = parse_spec(spec)
    step_to_line, inverse, cycle = rows_to_line(pattern.to_step)
    blanks: dict[str, Filling] = {
        "to_step": pattern.to_step,
        "from_step": pattern.from_step,
        "count": pattern.block,
        "few": pattern.few,
        "has_gaps": int(pattern.has_gaps),
        "step_to_line": step_to_line,
        "inverse": inverse,
        "cycle": cycle,
        "move_block": block_code(pattern, False),
        "move_few": block_code(pattern._replace(block=pattern.few), False, LANE),
        "move_block_streamed": 0 if pattern.has_gaps else block_code(pattern, True),
    }

    def pixels(table, counter, chunks):
        to_step, from_step = constant("to_step"), constant("from_step")
        count, few = constant("count"), constant("few")
        step_to_line, inverse, cycle = constant("step_to_line"), constant("inverse"), constant("cycle")
        units, rank, step = word(table, UNITS), word(table, RANK), word(table, 1)
        inner, segment = word(table, INNER), word(table, SEGMENT)
        lines, together = word(table, LINES), word(table, TOGETHER)
        streamed = word(table, STREAMED) != uint64(0) and constant("has_gaps") == uint64(0)
        joined = streamed and word(table, JOINED) != uint64(0)
        alone = streamed and not joined and inner >= count
        sizes = table + uint64(8 * SIZES)
        to_entry = sizes + uint64(8) * rank
        from_entry = to_entry + uint64(8) * (rank + uint64(1))
        segments = (inner + segment - uint64(1)) // segment
        buffer = scratch(SCRATCH)
        for mine in range(chunks):
            begin = claim(table, counter, uint64(mine))
            if begin >= units:
                fence()
                return uint64(0)
            for unit in range(begin, min(begin + step, units)):
                line = unit // segments
                first = (unit - line * segments) * segment
                line *= together
                end = min(line + together, lines)
                last = min(first + segment, inner)
                target, held = uint64(0), uint64(0)
                while line < end:
                    to = load(to_entry) + walk(sizes, rank, line, to_entry + uint64(8), uint64(8))
                    source = load(from_entry) + walk(sizes, rank, line, from_entry + uint64(8), uint64(8))
                    line += uint64(1)
                    i, length, staged = first, last - first, joined
                    if alone:
                        ahead = short_of_line(to) // step_to_line * inverse % cycle
                        staged = (to + ahead * to_step) & uint64(LINE - 1) != uint64(0)
                        if not staged and inner >= ahead + count:
                            # Units begin where lines do; only the first one has pixels before that.
                            i, stop = first + ahead, min(last + ahead, inner)
                            while i + count <= stop:
                                move_block_streamed(to + i * to_step, source + i * from_step)
                                i += count
                            # Ends by way of scratch: a line that was stored past the caches is not touched again.
                            start, until = uint64(0), uint64(0)
                            if first == uint64(0):
                                until = ahead
                            for _ in range(2):
                                if start < until:
                                    near = min(start, inner - count)
                                    move_block(buffer, source + near * from_step)
                                    size = (until - start) * to_step
                                    copy_lines(to + start * to_step, buffer + (start - near) * to_step, size)
                                start, until = i, stop
                            continue
                        i = min(first, inner - count)
                        length = last - i
                    to += i * to_step
                    source += i * from_step
                    if staged:
                        if held == uint64(0):
                            target = to
                        to = buffer + held
                        held += length * to_step
                    i = uint64(0)
                    if length >= count:
                        while i + count <= length:
                            move_block(to + i * to_step, source + i * from_step)
                            i += count
                        if i < length:
                            i = length - count
                            move_block(to + i * to_step, source + i * from_step)
                    elif inner >= count:
                        # The end of a line that is cut into units.
                        back = count - length
                        move_block(to - back * to_step, source - back * from_step)
                    else:
                        while i < length:
                            i = min(i, length - few)
                            move_few(to + i * to_step, source + i * from_step)
                            i += few
                    if held > uint64(0) and (alone or line == end):
                        stream(target, buffer, held, uint64(1))
                        held = uint64(0)
        fence()
        return uint64(1)

    return compiled(pixels, spec, CODE, blanks=blanks)
