"""Boxes that several moves share: their stripes take turns, so that none is painted over another."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Place = tuple[int, int, int, int]
"""x, y, width and height."""

TURNS, LEAST_STRIPE = 4, 6
"""How often each move has a turn, and pixels of a stripe, where there is room."""


class Touch(NamedTuple):
    """What a move touches of a tensor.

    Attributes:
        operand: the tensor's number.
        place: the box that all of it lies in.
        is_under: whether the move writes all of the box, so that what comes later lies above it.
        has_whole_rows: whether the move touches each row of the box whole or not at all.
    """

    operand: int
    place: Place
    is_under: bool = False
    has_whole_rows: bool = False


def striped(moves: Sequence[Sequence[Touch]]) -> tuple[list[list[tuple[int, list[Place]]]], bool]:
    """The operands and places of what each move touches, and whether any of them is stripes of its box.

    Boxes that overlap, be it by way of others, are cut into stripes that take turns: each move has those of its lane.
    Stripes lie across where all of these moves touch whole rows, and upright otherwise.
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
    places: list[list[Place]] = [[] for _ in touches]
    for group in _groups(meets):
        boxes = [touches[k][1].place for k in group]
        count = 1 + max(lanes[k] for k in group)
        for k, box in zip(group, boxes, strict=True):
            if count == 1:
                places[k] = [box]
            elif all(touches[each][1].has_whole_rows for each in group):
                upright = _stripes(_transposed(box), lanes[k], count, [_transposed(each) for each in boxes])
                places[k] = [_transposed(each) for each in upright]
            else:
                places[k] = _stripes(box, lanes[k], count, boxes)
    found: list[list[tuple[int, list[Place]]]] = [[] for _ in moves]
    for (n, touch), each in zip(touches, places, strict=True):
        found[n].append((touch.operand, each))
    return found, max(lanes, default=0) > 0


def _groups(meets: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Numbers that hang together."""
    seen: set[int] = set()
    for k in range(len(meets)):
        group, waiting = [], [k]
        while waiting:
            if (each := waiting.pop()) not in seen:
                seen.add(each)
                group.append(each)
                waiting += meets[each]
        if group:
            yield group


def _transposed(place: Place) -> Place:
    x, y, width, height = place
    return y, x, height, width


def _stripes(box: Place, lane: int, count: int, boxes: Sequence[Place]) -> list[Place]:
    """The stripes of a lane, one of several, in one of the boxes that hang together."""
    x, y, width, height = box
    origin, least = min(each[0] for each in boxes), min(each[2] for each in boxes)
    turns = max(1, min(TURNS, least // (count * LEAST_STRIPE)))
    found = []
    for number in itertools.count(lane, count):
        start, end = (origin + least * each // (turns * count) for each in (number, number + 1))
        if start >= x + width:
            break
        left, right = max(start, x), min(end, x + width)
        if left < right:
            found.append((left, y, right - left, height))
    # A box of fewer pixels than there are lanes is one of them.
    return found or [(x + lane % width, y, 1, height)]


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
