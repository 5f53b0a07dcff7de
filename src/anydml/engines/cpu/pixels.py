"""Which moves are pixels, groups of a few bytes at a step of their own on both sides, and their kernel's table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from anydml.engines.cpu.columns import Admits
from anydml.engines.cpu.kernel_call import KernelCall, Word, kernel_call, units_per_claim
from anydml.moves import Move
from anydml.text import counted

MOST_BYTES = 32
"""Bytes of a pixel, and from pixel to pixel, at most."""

SPARSE = 4
"""How many times a pixel's bytes the steps may be."""

MOST_AXES = 2
"""Small axes that a pixel may have."""

LINE = 64
MOST_BLOCK, UNIT = 1024, 16384
"""Bytes of a line; of the destination of a block at most, and of a unit, about."""

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
    for axes in range(min(MOST_AXES + 1, rank)):
        if math.prod(first.sizes[rank - axes :]) * sum(move.element_size for move in moves) > MOST_BYTES:
            return None
        outer = rank - axes
        if not all(_is_beside(move, first, outer) for move in moves):
            return None
        runs = _merged(sorted(run for move in moves for run in _runs(move, outer)))
        if spec := _spec(first, outer, runs):
            return _step(moves, outer, runs, spec, streamed, admits)
    return None


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


def _spec(first: Move, outer: int, runs: Sequence[Run]) -> str:
    """The kernel's pattern, or nothing where there is none."""
    to_step, from_step = first.destination.strides[outer - 1], first.reads.strides[outer - 1]
    lowest, nearest, _ = map(min, zip(*runs, strict=True))
    used = sum(size for _, _, size in runs)
    spans = max(to + size for to, _, size in runs) - lowest, max(at + size for _, at, size in runs) - nearest
    most = min(MOST_BYTES, SPARSE * used)
    if spans[0] > to_step or spans[1] > MOST_BYTES or not from_step or max(to_step, abs(from_step)) > most:
        return ""
    # One run of 2, 4, 8, … bytes is moved as fast by itself, and where another axis runs between the source's pixels,
    # a line is read again and again.
    if (len(runs) == 1 and used % 2 == 0) or any(
        0 < abs(step) < abs(from_step) for step in first.reads.strides[: outer - 1]
    ):
        return ""
    count = LINE // math.gcd(LINE, to_step)
    while count * abs(from_step) < 2 * LINE:
        count *= 2
    if count > first.sizes[outer - 1] or count * to_step > MOST_BLOCK:
        return ""
    inside = [(to - lowest, source - nearest, size) for to, source, size in runs]
    word = math.gcd(8, to_step, from_step, *(number for run in inside for number in run))
    pattern = ",".join(":".join(map(str, run)) for run in inside)
    return f"{word} {to_step} {from_step} {count} {pattern}"


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
    units = math.prod(lines) * -(-inner // segment)
    moved = math.prod(lines) * inner * to_step
    words: list[Word] = [units, units_per_claim(units, moved), int(streamed), 1, len(lines), inner, segment, *lines]
    words += [(to.operand, min(at for at, _, _ in runs)), *to.strides[: outer - 1]]
    words += [(source.operand, min(at for _, at, _ in runs)), *source.strides[: outer - 1]]
    used = sum(size for _, _, size in runs)
    reason = f"{counted(len(runs), 'run')} in pixels of {used} B, every {from_step} B to every {to_step} B"
    return kernel_call("pixels", partial(pixels_kernel, spec), f"{reason}, {count} at a time", moves, words)
