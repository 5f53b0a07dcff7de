"""Boxes that several moves share are cut into alternating stripes, so that no move hides another."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Place = tuple[int, int, int, int]
"""x, y, width and height."""

MOST_STRIPES, LEAST_STRIPE = 4, 6
"""Stripes per move, at most, and the least pixels of a stripe, if there is room."""


class Touch(NamedTuple):
    """The part of a tensor that a move accesses.

    Attributes:
        operand: the tensor's number.
        place: the bounding box.
        is_under: whether the move writes the whole box, so that later moves are drawn above it.
        has_whole_rows: whether the move accesses each row of the box completely or not at all.
        back: the first pixel and the last that it goes back, of a block.
    """

    operand: int
    place: Place
    is_under: bool = False
    has_whole_rows: bool = False
    back: tuple[int, int] = (0, 1)


def striped(moves: Sequence[Sequence[Touch]]) -> tuple[list[list[tuple[int, list[Place]]]], bool]:
    """Return the operands and places that each move accesses, and whether any place consists of stripes.

    Boxes that overlap, even indirectly, are cut into alternating stripes: each move has the stripes of its lane.
    Stripes are horizontal if all of these moves access whole rows, and vertical otherwise.
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
                vertical = _stripes(_transposed(box), lanes[k], count, [_transposed(each) for each in boxes])
                places[k] = [_transposed(each) for each in vertical]
            else:
                places[k] = _stripes(box, lanes[k], count, boxes)
    found: list[list[tuple[int, list[Place]]]] = [[] for _ in moves]
    for (n, touch), each in zip(touches, places, strict=True):
        found[n].append((touch.operand, each))
    return found, max(lanes, default=0) > 0


def _groups(meets: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the connected components of the touches."""
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
    """Return the vertical stripes of one of `count` lanes in one of the connected boxes."""
    x, y, width, height = box
    origin, least = min(each[0] for each in boxes), min(each[2] for each in boxes)
    stripes = max(1, min(MOST_STRIPES, least // (count * LEAST_STRIPE)))
    found = []
    for number in itertools.count(lane, count):
        start, end = (origin + least * each // (stripes * count) for each in (number, number + 1))
        if start >= x + width:
            break
        left, right = max(start, x), min(end, x + width)
        if left < right:
            found.append((left, y, right - left, height))
    # A box with fewer pixels than lanes has one pixel of this lane.
    return found or [(x + lane % width, y, 1, height)]


def _share(one: Touch, other: Touch, is_first: bool) -> bool:
    """Whether two touches overlap, and the order of the moves puts neither above the other."""
    first = one if is_first else other
    return (
        one.operand == other.operand
        and not first.is_under
        and max(one.back[0], other.back[0]) < min(one.back[1], other.back[1])
        and all(
            max(one.place[k], other.place[k])
            < min(one.place[k] + one.place[k + 2], other.place[k] + other.place[k + 2])
            for k in (0, 1)
        )
    )
