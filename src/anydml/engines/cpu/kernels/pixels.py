"""Pixels: groups of a few bytes that follow each other at a step of their own on both sides, each permuted in itself.

RGB to BGR, bytes of a word swapped, alpha left out or left alone. Some pixels, whose places are whole lines, make a
block: each vector of the destination is a permutation, known when this is compiled, of one or two vectors of the
source. What is left of a line of pixels is done by one more block, which begins earlier and does some of them again.
Blocks read nothing before their first byte that is needed, and nothing behind their last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from llvmlite import binding, ir

from anydml.engines.cpu.kernels.blanks import Filling, blank, constant
from anydml.engines.cpu.kernels.driver import HEADER, RANK, STREAMED, UNITS, claim, compiled, walk, word
from anydml.engines.cpu.kernels.interleave import rows_to_line
from anydml.engines.cpu.kernels.ir import (
    I1,
    I32,
    I64,
    LINE,
    copy_lines,
    fence,
    load,
    load_as,
    scratch,
    short_of_line,
    store_as,
    stream,
    stream_as,
)
from anydml.engines.cpu.kernels.language import cgutils, intrinsic, types, uint64
from anydml.engines.cpu.kernels.loading import Kernel

INNER, SEGMENT, LINES, TOGETHER, JOINED = range(HEADER, HEADER + 5)
SIZES = HEADER + 5
"""Words of the table after the header: pixels of a line, pixels of a unit, lines, lines of a unit, whether these follow
each other in the destination and leave together; then the sizes of the box of lines, and the addresses of destination
and source, each with its strides."""

SCRATCH = 16384
"""Bytes of scratch that a unit's pixels must fit in."""

LANE = 16
"""Bytes that every processor permutes at once."""

PERMUTES = {1: "avx512vbmi", 2: "avx512bw", 4: "avx512f", 8: "avx512f"}
"""By bytes of a word, what a processor needs that permutes the words of a whole line at once."""

MASKS = "avx512bw"
"""What a processor needs that stores some bytes of a line at once, and leaves the others alone."""


class Spec(NamedTuple):
    """A pattern, written ``"word to_step from_step block to:from:run,…"``; all but the block in bytes.

    Attributes:
        word: bytes of a word, 8 at most; all others are multiples.
        to_step, from_step: from pixel to pixel, on either side.
        block: pixels of a block; those of the destination are whole lines.
        runs: of each run, where it begins in the destination's pixel and in the source's, and how long it is.
    """

    word: int
    to_step: int
    from_step: int
    block: int
    runs: tuple[tuple[int, int, int], ...]

    @property
    def few(self) -> int:
        """Pixels of a block of a short line."""
        count = LANE // math.gcd(LANE, self.to_step)
        while count * abs(self.from_step) < 2 * LANE:
            count *= 2
        return count

    @property
    def has_gaps(self) -> bool:
        """Whether some bytes of the destination must stay as they are."""
        return sum(run for _, _, run in self.runs) < self.to_step


def parse_spec(text: str) -> Spec:
    """The parts of a pattern."""
    *numbers, runs = text.split(" ")
    pairs = (run.split(":") for run in runs.split(","))
    word_bytes, to_step, from_step, block = map(int, numbers)
    return Spec(word_bytes, to_step, from_step, block, tuple((int(a), int(b), int(c)) for a, b, c in pairs))


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
        "move_block": _block(pattern, False),
        "move_few": _block(pattern._replace(block=pattern.few), False, LANE),
        "move_block_streamed": 0 if pattern.has_gaps else _block(pattern, True),
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

    return compiled(pixels, spec, blanks=blanks)


def _block(spec: Spec, streamed: bool, most: int = LINE) -> Filling:
    """The code of `move_block`, in vectors of so many bytes at most."""

    def write(builder: Any, arguments: list[Any]) -> None:
        to, source = arguments
        if spec.has_gaps and not _has(MASKS):
            _one_by_one(spec, builder, to, source)
            return
        needed, lowest = _needed(spec)
        source = builder.add(source, ir.Constant(I64, lowest))
        lanes = min(_lanes(needed, spec.word), most // spec.word)
        for first in range(0, len(needed), lanes):
            order = needed[first : first + lanes]
            value = _gathered(builder, source, order, max(_known(needed)) + 1, spec.word)
            at = builder.add(to, ir.Constant(I64, first * spec.word))
            if None in order:
                _store_some(builder, value, at, order)
            elif streamed:
                stream_as(builder, value, at)
            else:
                store_as(builder, value, at)

    return write


def _needed(spec: Spec) -> tuple[list[int | None], int]:
    """Of each word of a block's destination, which word of the source it takes, from the first on that any does.

    Returns:
        those, and where that first one lies from the block's first pixel on, in bytes.
    """
    bytes_of: dict[int, int] = {}
    for pixel in range(spec.block):
        for to, source, run in spec.runs:
            for k in range(0, run, spec.word):
                bytes_of[pixel * spec.to_step + to + k] = pixel * spec.from_step + source + k
    lowest = min(bytes_of.values())
    places = range(0, spec.block * spec.to_step, spec.word)
    return [(bytes_of[at] - lowest) // spec.word if at in bytes_of else None for at in places], lowest


def _known(needed: Sequence[int | None]) -> list[int]:
    return [at for at in needed if at is not None]


@cache
def _has(feature: str) -> bool:
    """Whether this machine's processor has a feature, as LLVM names it."""
    try:
        return bool(binding.get_host_cpu_features().get(feature))
    except RuntimeError:
        return False


def _lanes(needed: Sequence[int | None], word: int) -> int:
    """Words of a vector: of a line, where this processor permutes lines at once, else of fewer bytes."""
    part = LANE // word
    stays = all(at is None or at // part == place // part for place, at in enumerate(needed))
    return (LINE if stays or _has(PERMUTES[word]) else LANE) // word


def _gathered(builder: Any, source: Any, order: Sequence[int | None], span: int, word: int) -> Any:
    """A vector of words of the source, of which there are `span`; what is None may be anything."""
    lanes, left = len(order), set(_known(order))
    kind = ir.VectorType(ir.IntType(8 * word), lanes)
    value = ir.Constant(kind, ir.Undefined)
    while left:
        start = min(*left, span - lanes)
        loaded = load_as(builder, builder.add(source, ir.Constant(I64, start * word)), kind)
        here = {at for at in left if at < start + lanes}
        places = [lanes + at - start if at in here else place for place, at in enumerate(order)]
        value = builder.shuffle_vector(value, loaded, ir.Constant(ir.VectorType(I32, lanes), places))
        left -= here
    return value


def _store_some(builder: Any, value: Any, to: Any, order: Sequence[int | None]) -> None:
    """Store the lanes that are known."""
    lanes, bits = value.type.count, value.type.element.width
    mask = ir.VectorType(I1, lanes)
    pointer = value.type.as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [value.type, pointer, I32, mask])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.store.v{lanes}i{bits}.p0")
    flags = ir.Constant(mask, [int(at is not None) for at in order])
    builder.call(function, [value, builder.inttoptr(to, pointer), ir.Constant(I32, 1), flags])


def _one_by_one(spec: Spec, builder: Any, to: Any, source: Any) -> None:
    """Move each run of a block by itself."""
    for pixel in range(spec.block):
        for to_at, from_at, run in spec.runs:
            at = builder.add(source, ir.Constant(I64, pixel * spec.from_step + from_at))
            value = load_as(builder, at, ir.VectorType(ir.IntType(8 * spec.word), run // spec.word))
            store_as(builder, value, builder.add(to, ir.Constant(I64, pixel * spec.to_step + to_at)))
