"""Two moves that are one choice, all of one source and another one's elements by a mask, and their kernel's table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

from anydml.engines.cpu.kernel_call import KernelCall, Word, kernel_call, units_per_claim
from anydml.moves import Access, Move

SIZES = (1, 2, 4, 8, 16)
"""Elements, in bytes, that are chosen in registers."""

SEGMENT_BYTES = 16 << 10
"""Bytes of a unit, about."""


def parted(moves: Sequence[Move]) -> Iterator[list[Move] | tuple[Move, Access]]:
    """Moves in order: lists of some that are no choices, and each choice as its second move and where it reads else."""
    others: list[Move] = []
    for move in moves:
        if others and _is_masked(move) and (source := _otherwise(others[-1], move)) is not None:
            del others[-1]
            if others:
                yield others
            others = []
            yield move, source
        else:
            others.append(move)
    if others:
        yield others


def _is_masked(move: Move) -> bool:
    lookups = move.reads.lookups
    return len(lookups) == 1 and lookups[0].is_mask and not move.destination.lookups


def _otherwise(first: Move, second: Move) -> Access | None:
    """The first move's source along the second one's box, where both write the same elements; else None."""
    to, after, source = first.destination, second.destination, first.reads
    if first.has_lookups or (to.operand, to.offset) != (after.operand, after.offset):
        return None
    axes = [*zip(to.strides, first.sizes, source.strides, strict=True), (1, first.element_size, 1)]
    box = [*zip(after.strides, second.sizes, range(len(second.sizes)), strict=True), (1, second.element_size, -1)]
    strides = [0] * len(box)
    for step, size, reads in axes:
        inside = sorted(each for each in box if step <= each[0] < step * size or each[0] == step)
        reach = step
        for stride, count, number in inside:
            if stride != reach or (number < 0 and reads != 1):
                return None
            strides[number] = stride // step * reads
            reach *= count
        if reach != step * size:
            return None
        box = [each for each in box if each not in inside]
    return None if box else Access(source.operand, source.offset, tuple(strides[:-1]))


def choice(move: Move, otherwise: Access, streamed: bool) -> KernelCall:
    """The step for a masked move, and what stands where the mask is not 0."""
    from anydml.engines.cpu.kernels.select import select_kernel

    to, source, (mask,) = move.destination, move.reads, move.reads.lookups
    sizes, size = move.sizes or (1,), move.element_size
    *outer, inner = sizes
    segment = max(1, min(inner, SEGMENT_BYTES // size))
    units = math.prod(outer) * -(-inner // segment)
    words: list[Word] = [units, units_per_claim(units, move.bytes_written), int(streamed), 1, len(outer)]
    words += [inner, segment, size, *outer]
    for end in (to, otherwise, source, mask):
        *strides, step = end.strides or (0,)
        words += [(end.operand, end.offset), step, *strides]
    load = partial(select_kernel, size if size in SIZES else 0)
    made = kernel_call("select", load, f"{size} B of one source or of another, by a mask", (move,), words)
    first = Move(move.sizes, to, otherwise, size)
    return made._replace(moves=(first, move))
