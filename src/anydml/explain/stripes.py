"""Boxes that several moves share: each move has a stripe, so that none is painted over another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Place = tuple[int, int, int, int]
"""x, y, width and height."""


class Touch(NamedTuple):
    """What a move touches of a tensor.

    Attributes:
        operand: the tensor's number.
        place: the box that all of it lies in.
        is_under: whether the move writes all of the box, so that what comes later lies above it.
    """

    operand: int
    place: Place
    is_under: bool = False


def striped(moves: Sequence[Sequence[Touch]]) -> tuple[list[list[tuple[int, Place]]], bool]:
    """The operands and places of what each move touches, and whether any is a stripe of its box.

    Boxes that overlap are cut into as many stripes as there are moves that meet there.
    """
    touches = [(n, each) for n, every in enumerate(moves) for each in every]
    meets = [
        [k for k, (n, other) in enumerate(touches) if n != own and _share(each, other, own < n)]
        for own, each in touches
    ]
    lanes: list[int] = []
    for k in range(len(touches)):
        taken = {lanes[other] for other in meets[k] if other < k}
        lanes.append(next(lane for lane in range(len(touches)) if lane not in taken))
    counts = [lane + 1 for lane in lanes]
    # All that hang together, be it by way of others, are cut alike.
    while (spread := [max([count, *(counts[k] for k in meets[n])]) for n, count in enumerate(counts)]) != counts:
        counts = spread
    found: list[list[tuple[int, Place]]] = [[] for _ in moves]
    for (n, touch), lane, count in zip(touches, lanes, counts, strict=True):
        x, y, width, height = touch.place
        left, right = (width * each // count for each in (lane, lane + 1))
        found[n].append((touch.operand, (x + min(left, width - 1), y, max(right - left, 1), height)))
    return found, max(counts, default=1) > 1


def _share(one: Touch, other: Touch, is_first: bool) -> bool:
    """Whether two touches overlap where neither lies above the other by what happens."""
    first = one if is_first else other
    return (
        one.operand == other.operand
        and not first.is_under
        and all(
            max(one.place[k], other.place[k])
            < min(one.place[k] + one.place[k + 2], other.place[k] + other.place[k + 2])
            for k in (0, 1)
        )
    )
