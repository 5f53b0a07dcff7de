"""Alternating stripes for boxes that several moves share, so that no move hides another in a picture."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

Rectangle = tuple[int, int, int, int]
"""x, y, width and height."""

MAX_STRIPES = 4
"""Maximum number of stripes per move."""

MIN_STRIPE = 6
"""Minimum width of a stripe in pixels, if there is room."""


class AccessedArea(NamedTuple):
    """The part of a tensor that a move accesses.

    Attributes:
        operand: the tensor's number.
        rectangle: the bounding box of that part.
        is_under: whether the move writes the whole box, so that later moves are drawn above it.
        has_whole_rows: whether the move accesses each row of the box completely or not at all.
        back: first and last pixel in depth, if the tensor is drawn as a block.
    """

    operand: int
    rectangle: Rectangle
    is_under: bool = False
    has_whole_rows: bool = False
    back: tuple[int, int] = (0, 1)


def divide_into_stripes(
    moves: Sequence[Sequence[AccessedArea]],
) -> tuple[list[list[tuple[int, list[Rectangle]]]], bool]:
    """Divide shared boxes among the moves that access them.

    Boxes that overlap, directly or through others, are cut into alternating stripes, and each move gets those of one
    lane. Stripes are horizontal if all of these moves access whole rows, and vertical otherwise.

    Args:
        moves: the touches of each move, in order of execution.

    Returns:
        For each move, the operands that it accesses, with their rectangles; and whether any are drawn in stripes.
    """
    touches = [(move_number, touch) for move_number, of_move in enumerate(moves) for touch in of_move]
    neighbours = [
        [
            k
            for k, (other_number, neighbour) in enumerate(touches)
            if other_number != move_number and _share_stripe(touch, neighbour, move_number < other_number)
        ]
        for move_number, touch in touches
    ]
    # The lowest lane that no earlier neighbour has taken.
    lanes: list[int] = []
    for k in range(len(touches)):
        neighbour_lanes = {lanes[neighbour] for neighbour in neighbours[k] if neighbour < k}
        lanes.append(next(lane for lane in range(len(touches)) if lane not in neighbour_lanes))
    rectangles: list[list[Rectangle]] = [[] for _ in touches]
    for group in _groups(neighbours):
        boxes = [touches[k][1].rectangle for k in group]
        count = 1 + max(lanes[k] for k in group)
        for k, box in zip(group, boxes, strict=True):
            if count == 1:
                rectangles[k] = [box]
            elif all(touches[member][1].has_whole_rows for member in group):
                vertical = _stripes(_transpose(box), lanes[k], count, [_transpose(neighbour) for neighbour in boxes])
                rectangles[k] = [_transpose(stripe) for stripe in vertical]
            else:
                rectangles[k] = _stripes(box, lanes[k], count, boxes)
    result: list[list[tuple[int, list[Rectangle]]]] = [[] for _ in moves]
    for (move_number, touch), stripes in zip(touches, rectangles, strict=True):
        result[move_number].append((touch.operand, stripes))
    return result, max(lanes, default=0) > 0


def _groups(neighbours: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the connected components of a graph, each as a list of its nodes."""
    visited: set[int] = set()
    for k in range(len(neighbours)):
        group, pending = [], [k]
        while pending:
            if (node := pending.pop()) not in visited:
                visited.add(node)
                group.append(node)
                pending += neighbours[node]
        if group:
            yield group


def _transpose(stripe: Rectangle) -> Rectangle:
    x, y, width, height = stripe
    return y, x, height, width


def _stripes(box: Rectangle, lane: int, count: int, boxes: Sequence[Rectangle]) -> list[Rectangle]:
    """Return the stripes of one of `count` lanes in `box`: vertical, and aligned in all `boxes` of its group."""
    x, y, width, height = box
    origin, narrowest = min(span[0] for span in boxes), min(span[2] for span in boxes)
    stripes = max(1, min(MAX_STRIPES, narrowest // (count * MIN_STRIPE)))
    rectangles = []
    for stripe_number in itertools.count(lane, count):
        start, end = (origin + narrowest * k // (stripes * count) for k in (stripe_number, stripe_number + 1))
        if start >= x + width:
            break
        left, right = max(start, x), min(end, x + width)
        if left < right:
            rectangles.append((left, y, right - left, height))
    # A box with fewer pixels than lanes has one pixel of this lane.
    return rectangles or [(x + lane % width, y, 1, height)]


def _share_stripe(touch: AccessedArea, earlier_touch: AccessedArea, is_first: bool) -> bool:
    """Whether two touches overlap, and the order of the moves puts neither above the other."""
    first = touch if is_first else earlier_touch
    return (
        touch.operand == earlier_touch.operand
        and not first.is_under
        and max(touch.back[0], earlier_touch.back[0]) < min(touch.back[1], earlier_touch.back[1])
        and all(
            max(touch.rectangle[k], earlier_touch.rectangle[k])
            < min(
                touch.rectangle[k] + touch.rectangle[k + 2], earlier_touch.rectangle[k] + earlier_touch.rectangle[k + 2]
            )
            for k in (0, 1)
        )
    )
