"""Which moves are pixels, groups of a few bytes at a step of their own on both sides, and their kernel's table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from anydml.engines.cpu.columns import Admits
from anydml.engines.cpu.kernel_call import KernelCall, Word, kernel_call, units_per_claim
from anydml.moves import Move
from anydml.text import counted

MOST_BYTES = 64
"""Bytes of a pixel, and from pixel to pixel, at most."""

SPARSE = 4
"""How many times a pixel's bytes the steps may be."""

LEAST_BYTES = 1024
"""Bytes that are written, for which a pattern is worth a kernel at least."""

MOST_AXES = 2
"""Small axes that a pixel may have."""

LINE = 64
MOST_BLOCK, UNIT = 1024, 16384
"""Bytes of a line; of the destination of a block at most, and of a unit, about."""

SHORT_LINE, JOINED_BYTES = 2048, 8192
"""Bytes of lines of which several make a unit, and of such a unit, at most."""

Run = tuple[int, int, int]
"""Where a run begins in the destination's pixel and in the source's, and its bytes."""


def pixels(moves: Sequence[Move], streamed: bool, admits: Admits) -> KernelCall | None:
    """The step for moves of one box that move pixels, or None where they do not, or are not admitted.

    Args:
        moves: what is to be done, simplified, without lookups.
        streamed: whether to use non-temporal stores.
        admits: whether their pattern may have a kernel.
    """
    first, rank = moves[0], len(moves[0].sizes)
    if sum(move.bytes_written for move in moves) < LEAST_BYTES:
        return None
    chosen: tuple[int, list[Run], str] | None = None
    for axes in range(min(MOST_AXES + 1, rank)):
        if math.prod(first.sizes[rank - axes :]) * sum(move.element_size for move in moves) > MOST_BYTES:
            break
        outer = rank - axes
        if not all(_is_beside(move, first, outer) for move in moves):
            break
        runs = _merged(sorted(run for move in moves for run in _runs(move, outer)))
        spec, is_long = _spec(first, outer, runs)
        if spec and (is_long or chosen is None):
            chosen = outer, runs, spec
        if is_long:
            break
    return _step(moves, *chosen, streamed, admits) if chosen else None


def has_short_lines(move: Move) -> bool:
    """Whether lines, more than pixels, are so short that several make a unit: others have more to do for each."""
    return len(move.sizes) > 1 and MOST_BYTES < move.sizes[-1] * move.destination.strides[-1] < SHORT_LINE


def _is_beside(move: Move, first: Move, outer: int) -> bool:
    """Whether a move's pixels lie between another one's, on both sides."""
    pairs = (move.destination, first.destination), (move.reads, first.reads)
    return all((a.operand, a.strides[:outer]) == (b.operand, b.strides[:outer]) for a, b in pairs)


def _runs(move: Move, outer: int) -> Iterator[Run]:
    """A move's runs in one pixel, whose axes are those after the outer ones."""
    to, source = move.destination, move.reads
    places = [(to.offset, source.offset)]
    for count, step, other in zip(move.sizes[outer:], to.strides[outer:], source.strides[outer:], strict=True):
        places = [(at + k * step, from_at + k * other) for at, from_at in places for k in range(count)]
    return ((at, from_at, move.element_size) for at, from_at in places)


def _merged(runs: Sequence[Run]) -> list[Run]:
    """Runs in the destination's order; those that follow each other on both sides are one."""
    result: list[Run] = []
    for to, source, size in runs:
        at, from_at, before = result[-1] if result else (0, 0, 0)
        if before and (to, source) == (at + before, from_at + before):
            result[-1] = at, from_at, before + size
        else:
            result.append((to, source, size))
    return result


def _spec(first: Move, outer: int, runs: Sequence[Run]) -> tuple[str, bool]:
    """The kernel's pattern, or nothing where there is none; whether lines are as long as a block."""
    to_step, from_step = first.destination.strides[outer - 1], first.reads.strides[outer - 1]
    lowest, nearest, _ = map(min, zip(*runs, strict=True))
    used = sum(size for _, _, size in runs)
    spans = max(to + size for to, _, size in runs) - lowest, max(at + size for _, at, size in runs) - nearest
    most = min(MOST_BYTES, SPARSE * used)
    if spans[0] > to_step or spans[1] > MOST_BYTES or not from_step or max(to_step, abs(from_step)) > most:
        return "", False
    # One run of 2, 4, 8, … bytes with a gap is moved as fast by itself, and where another axis runs between the pixels
    # of the source, a line is read again and again.
    if (len(runs) == 1 and 1 < used < to_step and used.bit_count() == 1) or any(
        0 < abs(step) < abs(from_step) for step in first.reads.strides[: outer - 1]
    ):
        return "", False
    count = LINE // math.gcd(LINE, to_step)
    while count * abs(from_step) < 2 * LINE:
        count *= 2
    if count * to_step > MOST_BLOCK:
        return "", False
    inside = [(to - lowest, source - nearest, size) for to, source, size in runs]
    word = math.gcd(8, to_step, from_step, *(number for run in inside for number in run))
    pattern = ",".join(":".join(map(str, run)) for run in inside)
    spec = f"{word} {to_step} {from_step} {count} {pattern}"
    from anydml.engines.cpu.kernels.pixel_registers import parse_spec

    length = first.sizes[outer - 1]
    return (spec, length >= count) if length >= parse_spec(spec).few else ("", False)


def _step(
    moves: Sequence[Move], outer: int, runs: Sequence[Run], spec: str, streamed: bool, admits: Admits
) -> KernelCall | None:
    if not admits(f"pixels {spec}", sum(move.bytes_written for move in moves)):
        return None
    from anydml.engines.cpu.kernels.pixels import pixels_kernel

    to, source, count = moves[0].destination, moves[0].reads, int(spec.split(" ")[3])
    *lines, inner = moves[0].sizes[:outer]
    to_step, from_step = to.strides[outer - 1], source.strides[outer - 1]
    segment = UNIT // (count * to_step) * count
    number, line_bytes = math.prod(lines), inner * to_step
    together = JOINED_BYTES // line_bytes if line_bytes < SHORT_LINE else 1
    # Lines that share lines of memory with each other leave together.
    joined = together > 1 and streamed and line_bytes % LINE > 0 and _is_packed(moves[0].sizes[:outer], to.strides)
    units = -(-number // together) * -(-inner // segment)
    moved = number * inner * to_step
    words: list[Word] = [units, units_per_claim(units, moved), int(streamed), 1, len(lines)]
    words += [inner, segment, number, together, int(joined), *lines]
    words += [(to.operand, min(at for at, _, _ in runs)), *to.strides[: outer - 1]]
    words += [(source.operand, min(at for _, at, _ in runs)), *source.strides[: outer - 1]]
    used = sum(size for _, _, size in runs)
    reason = f"{counted(len(runs), 'run')} in pixels of {used} B, every {from_step} B to every {to_step} B"
    return kernel_call("pixels", partial(pixels_kernel, spec), f"{reason}, {count} at a time", moves, words)


def _is_packed(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether lines follow each other."""
    return all(strides[d] == sizes[d + 1] * strides[d + 1] for d in range(len(sizes) - 1))
