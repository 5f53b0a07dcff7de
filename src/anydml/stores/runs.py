"""Runs of bytes that moves read: counted, listed and merged, none of which is listed unasked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import ModelError
from anydml.moves import Access, Move
from anydml.text import counted

MOST_RUNS = 1 << 24
"""That are listed at once: each takes some 30 bytes."""

Offsets = np.ndarray[Any, np.dtype[np.int64]]


class Run(NamedTuple):
    """Bytes of a file that follow each other in a tensor, too.

    Attributes:
        path: the file.
        offset: of the first byte in the file.
        tensor: its name.
        start: of the first byte in the tensor, which lies in C order.
        length: bytes.
    """

    path: Path
    offset: int
    tensor: str
    start: int
    length: int


class Spans(NamedTuple):
    """Bytes that one end of a move touches, in runs of one length.

    Attributes:
        low: the first byte.
        length: of a run.
        outer: how many runs there are along each dimension, and bytes from one to the next.
    """

    low: int
    length: int
    outer: tuple[tuple[int, int], ...]

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return math.prod(size for size, _ in self.outer)

    def firsts(self) -> Offsets:
        """The first byte of each run."""
        return listed(self.low, *zip(*self.outer, strict=True)) if self.outer else np.array([self.low], np.int64)


def spans_of(access: Access, move: Move, gap: int) -> Spans:
    """What one end of a move touches; runs that are at most `gap` bytes apart along a dimension are one."""
    length, outer = move.element_size, list[tuple[int, int]]()
    steps = [(abs(step), size) for size, step in zip(move.sizes, access.strides, strict=True) if step and size > 1]
    for step, size in sorted(steps):
        if not outer and step - length <= gap:
            length += (size - 1) * step
        else:
            outer.append((size, step))
    low = access.offset + sum((n - 1) * s for n, s in zip(move.sizes, access.strides, strict=True) if s < 0)
    return Spans(low, length, tuple(outer))


def listed(offset: int, sizes: Sequence[int], strides: Sequence[int]) -> Offsets:
    """The place of each coordinate, in their order."""
    found = np.array([offset], np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        found = (found[:, None] + np.arange(size, dtype=np.int64) * stride).reshape(-1)
    return found


def check_few(count: int, what: str, instead: str) -> None:
    """Refuse to list more than `MOST_RUNS`.

    Raises:
        ModelError: they are more.
    """
    if count > MOST_RUNS:
        raise ModelError(f"plan_load: {what} are {counted(count, 'run')} of bytes; {MOST_RUNS} are the most: {instead}")


def merged(starts: Offsets, ends: Offsets, gap: int) -> Offsets:
    """Intervals, sorted, with those together that overlap, or are at most `gap` bytes apart; a row for each."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    firsts = np.flatnonzero(np.concatenate([[True], starts[1:] > ends[:-1] + gap]))
    lasts = np.append(firsts[1:] - 1, len(starts) - 1)
    return np.stack([starts[firsts], ends[lasts]], 1)


def box_of(access: Access, move: Move, shape: Sequence[int], strides: Sequence[int]) -> str:
    """A box of an array without gaps that holds what one end of a move touches, as slices.

    It is the smallest, but that all of the axes behind one are in it where a run goes on in the next row.
    """
    offset, steps = access.offset, [*access.strides]
    slices = [f"0:{size}" for size in shape]
    for axis in sorted(range(len(shape)), key=lambda k: -strides[k]):
        whole = [int(math.copysign(abs(step) // strides[axis], step)) for step in steps]
        first, offset = divmod(offset, strides[axis])
        rest = [step - own * strides[axis] for step, own in zip(steps, whole, strict=True)]
        (low, high), (left, right) = (_reach(move.sizes, each) for each in (whole, rest))
        if offset + left < 0 or offset + right + move.element_size > strides[axis]:
            low, high = _reach(move.sizes, steps)
            low, high = (offset + low) // strides[axis], (offset + high + move.element_size - 1) // strides[axis]
            slices[axis] = f"{first + low}:{first + high + 1}"
            break
        slices[axis] = f"{first + low}:{first + high + 1}"
        steps = rest
    return f"[{', '.join(slices)}]"


def _reach(sizes: Sequence[int], steps: Sequence[int]) -> tuple[int, int]:
    """The least and the largest sum of steps."""
    ends = [(size - 1) * step for size, step in zip(sizes, steps, strict=True)]
    return sum(end for end in ends if end < 0), sum(end for end in ends if end > 0)
