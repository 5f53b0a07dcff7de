"""A box of a tensor that goes on beyond its sides: its edge, its mirror image or itself, again and again.

One dimension after the other is made from what already stands in the tensor, so that each element is written once and
the number of moves does not depend on the sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anydml.moves import Access, Move
from anydml.operators.enums import PaddingMode
from anydml.tensor import Layout


class _Run(NamedTuple):
    """`length` elements from `start` on: those from `source` on by `step`. And so `repeats` times, `period` apart."""

    start: int
    length: int
    source: int
    step: int
    repeats: int = 1
    period: int = 0


def extended(
    operand: int, layout: Layout, starts: Sequence[int], sizes: Sequence[int], mode: PaddingMode
) -> Iterator[Move]:
    """What is outside a box of an operand, from what is inside.

    Args:
        operand: its number.
        layout: where its elements lie.
        starts: the box's first coordinate.
        sizes: the box's sizes.
        mode: any but CONSTANT.
    """
    for d, (start, size, whole) in enumerate(zip(starts, sizes, layout.sizes, strict=True)):
        # The dimensions before this one are whole by now, those after it are not yet.
        origin = sum(starts[k] * layout.strides[k] for k in range(d, len(sizes)))
        stride = layout.strides[d]
        others = (*layout.strides[:d], *layout.strides[d + 1 :])
        box = (*layout.sizes[:d], *sizes[d + 1 :])
        for run in (*_runs(mode, size, -start, 0), *_runs(mode, size, size, whole - start)):
            to = Access(operand, origin + run.start * stride, (*others, run.period * stride, stride))
            source = Access(operand, origin + run.source * stride, (*others, 0, run.step * stride))
            yield Move((*box, run.repeats, run.length), to, source, layout.element_size)


def _runs(mode: PaddingMode, n: int, first: int, end: int) -> Iterator[_Run]:
    """What stands from `first` to `end`, counted from the box's first element, where the box has `n`."""
    if end <= first:
        return
    if mode == PaddingMode.EDGE or (mode == PaddingMode.REFLECTION and n == 1):
        yield _Run(first, end - first, 0 if first < 0 else n - 1, 0)
        return
    pieces = {
        PaddingMode.REFLECTION: [(0, n, 0, 1), (n, n - 2, n - 2, -1)],
        PaddingMode.SYMMETRIC: [(0, n, 0, 1), (n, n, n - 1, -1)],
        PaddingMode.WRAP: [(0, n, 0, 1)],
    }[mode]
    period = sum(count for _, count, _, _ in pieces)
    for begin, count, source, step in pieces:
        # The piece in whole, from the k-th period on, and what is cut off it at either end.
        k = -((begin - first) // period)
        whole = (end - begin - count) // period - k + 1
        if whole > 0 and count:
            yield _Run(begin + k * period, count, source, step, whole, period)
        for cut in {k - 1, k + max(whole, 0)} if count else ():
            at = begin + cut * period
            low, high = max(at, first), min(at + count, end)
            if low < high:
                yield _Run(low, high - low, source + (low - at) * step, step)
