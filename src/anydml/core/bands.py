"""Diagonal bands of a matrix as a few boxes: parallelograms, rectangles, and triangles divided into squares.

A triangle of 2ⁿ rows is a square and two triangles of half the size, one after the other along the diagonal: all
squares of one size form one box. The number of boxes grows with the square of the logarithm of the band's size.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple


class Box(NamedTuple):
    """The first element of a box, its sizes, and the step of each dimension in rows and columns."""

    row: int
    column: int
    sizes: tuple[int, ...]
    steps: tuple[tuple[int, int], ...]


DOWN, RIGHT, ALONG = (1, 0), (0, 1), (1, 1)


def cuts(height: int, width: int, first: int, end: int) -> tuple[int, int, int, int]:
    """Return a band's first row, its first not cut off on the left, its first cut off on the right, and its end."""
    top = min(max(0, 1 - end), height)
    bottom = max(min(height, width - first), top)
    return top, min(max(-first, top), bottom), min(max(width - end, top), bottom), bottom


def band(height: int, width: int, first: int, end: int) -> Iterator[Box]:
    """Yield boxes that cover every element with ``first ≤ column − row < end`` exactly once.

    Args:
        height: rows of the matrix.
        width: columns.
        first: the first diagonal, any integer.
        end: the diagonal after the last, any integer.
    """
    top, inside, border, bottom = cuts(height, width, first, end)
    if first >= end:
        return
    for row, until in itertools.pairwise(sorted({top, inside, border, bottom})):
        rows = until - row
        is_left, is_right = row < inside, row >= border
        left = 0 if is_left else row + first
        right = width if is_right else row + end
        if is_left == is_right:
            # A rectangle, or rows that each begin one column further right.
            yield Box(row, left, (rows, right - left), (DOWN if is_left else ALONG, RIGHT))
        elif is_left:
            yield Box(row, left, (rows, right - left), (DOWN, RIGHT))
            yield from _triangle(row, right, rows, DOWN, RIGHT)
        else:
            last = left + rows - 1
            yield Box(row, last, (rows, right - last), (DOWN, RIGHT))
            yield from _triangle(row, left - 1, rows, RIGHT, DOWN)


def _triangle(row: int, column: int, count: int, longer: tuple[int, int], other: tuple[int, int]) -> Iterator[Box]:
    """Yield lines of 0, 1, … `count` − 1 elements along `other`, one per step of `longer`."""
    while count > 1:
        whole = 1 << (count.bit_length() - 1)
        half = whole // 2
        while half:
            start = row + half * longer[0], column + half * longer[1]
            yield Box(*start, (whole // (2 * half), half, half), ((2 * half, 2 * half), longer, other))
            half //= 2
        count -= whole
        if count:
            # The rectangle below or to the right of the triangle of `whole` rows.
            yield Box(row + whole * longer[0], column + whole * longer[1], (count, whole), (longer, other))
        row, column = row + whole, column + whole
