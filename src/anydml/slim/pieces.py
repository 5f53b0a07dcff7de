"""Flat pieces: the sources of a tensor's elements, independent of its shape.

Elements are numbered in row-major order, so Reshape changes nothing. A piece says that element ``at + Σ digit·step`` of
the tensor is element ``offset + Σ digit·stride`` of a source, or a fill. Equal pieces have equal digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from anydml.moves.move import Fill
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value
from anydml.tensor import packed_strides

MAX_MERGED = 256
"""Maximum number of pieces of a tensor that are merged."""

MAX_COMPARED_PREDECESSORS = 8
"""Number of preceding pieces with which a piece may be merged."""

Numbers = np.ndarray[Any, np.dtype[np.int64]]

Window = list[tuple[int, int, int]]
"""The first coordinate, the number of coordinates, and the step between them, for each axis."""


class Digit(NamedTuple):
    """A digit of a piece: its size, and the distances between neighbours in the tensor and in the source."""

    size: int
    step: int
    stride: int


class FlatPiece(NamedTuple):
    """A strided set of elements with one source.

    Attributes:
        source: number of the source; −1 for a fill.
        first_index: index of the piece's first element in the tensor.
        offset: index of its first element in the source.
        digits: the digits, by descending steps; none has size 1, and adjacent ones cannot be merged.
        fill: bytes of an element if it is a fill.
    """

    source: int
    first_index: int
    offset: int
    digits: tuple[Digit, ...]
    fill: bytes = b""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(digit.size for digit in self.digits)

    @property
    def is_reversed(self) -> bool:
        """Whether a stride is negative."""
        return any(digit.stride < 0 for digit in self.digits)

    def elements(self) -> tuple[Numbers, Numbers]:
        """Return the numbers of all elements in the tensor and in the source."""
        to, sources = np.array([self.first_index]), np.array([self.offset])
        for size, step, stride in self.digits:
            numbers = np.arange(size)
            to = (to[:, None] + numbers * step).reshape(-1)
            sources = (sources[:, None] + numbers * stride).reshape(-1)
        return to, sources


Pieces = tuple[FlatPiece, ...]


def flat_pieces(value: Value) -> Pieces:
    """Return the flat pieces of a value whose sources are contiguous.

    Raises:
        NotComposableError: the value contains lookups.
    """
    steps, width = packed_strides(value.sizes), value.element_size
    flat = []
    for start, factors, source in value.pieces:
        first_index = sum(first * step for first, step in zip(start, steps, strict=True))
        if isinstance(source, Fill):
            digits = [Digit(size, step * steps[axis], 0) for axis, size, step in factors]
            pattern = source.pattern * (width // len(source.pattern))
            flat.append(FlatPiece(-1, first_index, 0, tidy(digits), pattern))
            continue
        if source.lookups:
            raise NotComposableError("elements are looked up")
        digits = [
            Digit(factor.size, factor.step * steps[factor.axis], stride // width)
            for factor, stride in zip(factors, source.strides, strict=True)
        ]
        flat.append(FlatPiece(source.operand, first_index, source.offset // width, tidy(digits)))
    return merge(flat)


def tidy(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    """Return digits by descending steps, with adjacent ones merged where possible."""
    tidied: list[Digit] = []
    for digit in sorted((digit for digit in digits if digit.size != 1), key=lambda digit: -digit.step):
        if tidied:
            size, step, stride = tidied[-1]
            if step == digit.size * digit.step and stride == digit.size * digit.stride:
                tidied[-1] = Digit(size * digit.size, digit.step, digit.stride)
                continue
        tidied.append(digit)
    return tuple(tidied)


def sliced_axes(count: int, offset: int, digits: Sequence[Digit]) -> tuple[list[int], Window, list[int]] | None:
    """Split a source's elements into axes so that each digit is a slice of one axis.

    Args:
        count: the number of elements of the source.
        offset: the first element that the digits select.
        digits: digits with strides other than 0.

    Returns:
        The axes, the window of each, and the permutation to the order of the digits; None if no such axes exist.
    """
    offset_left = offset + sum((digit.size - 1) * digit.stride for digit in digits if digit.stride < 0)
    axes: list[int] = []
    window: Window = []
    axis_of_digit: dict[int, int] = {}
    for k in sorted(range(len(digits)), key=lambda k: -abs(digits[k].stride)):
        size, _, stride = digits[k]
        first, offset_left = divmod(offset_left, abs(stride))
        if count % stride or first + size > count // abs(stride):
            return None
        axis_of_digit[k] = len(axes)
        axes.append(count // abs(stride))
        window.append((first, size, 1) if stride > 0 else (first + size - 1, size, -1))
        count = abs(stride)
    perm = [axis_of_digit[k] for k in range(len(digits))]
    if count > 1:
        perm.append(len(axes))
        axes.append(count)
        window.append((offset_left, 1, 1))
    return axes, window, perm


def merge(pieces: Sequence[FlatPiece]) -> Pieces:
    """Merge pieces where possible, and sort them by their first elements."""
    ordered = sorted(pieces, key=lambda piece: piece.first_index)
    while 1 < len(ordered) <= MAX_MERGED:
        fewer = _merge_equidistant(ordered)
        fewer = _merge_equidistant(_merge_adjacent(sorted(fewer, key=lambda piece: piece.first_index)))
        if len(fewer) == len(ordered):
            break
        ordered = sorted(fewer, key=lambda piece: piece.first_index)
    return tuple(ordered)


def _merge_adjacent(pieces: Sequence[FlatPiece]) -> list[FlatPiece]:
    """Merge pairs of pieces of which one continues a digit of the other."""
    adjacent: list[FlatPiece] = []
    for piece in pieces:
        for k in range(max(0, len(adjacent) - MAX_COMPARED_PREDECESSORS), len(adjacent)):
            joined = _merge_pair(adjacent[k], piece)
            if joined is not None:
                adjacent[k] = joined
                break
        else:
            adjacent.append(piece)
    return adjacent


def _merge_pair(piece: FlatPiece, following: FlatPiece) -> FlatPiece | None:
    """Merge two pieces of which the second continues a digit of the first; None if it does not."""
    if (piece.source, piece.fill) != (following.source, following.fill):
        return None
    step, stride = following.first_index - piece.first_index, following.offset - piece.offset
    for digits, other_digits in ((piece.digits, following.digits), (following.digits, piece.digits)):
        for k, digit in enumerate(digits):
            remaining_digits = (*digits[:k], *digits[k + 1 :])
            if remaining_digits == other_digits:
                # The other piece has size 1 along this digit.
                first, total = (digit.size if digits is piece.digits else 1), digit.size + 1
            elif (
                len(digits) == len(other_digits)
                and remaining_digits == (*other_digits[:k], *other_digits[k + 1 :])
                and digit[1:] == other_digits[k][1:]
            ):
                first, total = piece.digits[k].size, digit.size + other_digits[k].size
            else:
                continue
            if step == first * digit.step and stride == first * digit.stride:
                return piece._replace(digits=tidy([*remaining_digits, Digit(total, digit.step, digit.stride)]))
    return None


def _merge_equidistant(pieces: Sequence[FlatPiece]) -> list[FlatPiece]:
    """Merge pieces with equal digits at equal distances; the distance becomes a new digit."""
    groups: dict[tuple[object, ...], list[FlatPiece]] = {}
    for piece in pieces:
        groups.setdefault((piece.source, piece.fill, piece.digits), []).append(piece)
    equidistant: list[FlatPiece] = []
    for group in groups.values():
        gaps = [
            (following.first_index - piece.first_index, following.offset - piece.offset)
            for piece, following in pairwise(group)
        ]
        first = 0
        while first < len(group):
            end = first + 1
            while end < len(group) and gaps[end - 1] == gaps[first]:
                end += 1
            piece = group[first]
            if end - first > 1:
                piece = piece._replace(digits=tidy([*piece.digits, Digit(end - first, *gaps[first])]))
            equidistant.append(piece)
            first = end
    return equidistant


class Box(NamedTuple):
    """A piece as a box in a shape: its first coordinates, and its digits with their axes and steps along these."""

    start: tuple[int, ...]
    digits: tuple[tuple[int, Digit], ...]

    def ends(self) -> list[int]:
        """Return one more than its last coordinate along each axis."""
        ends = [first + 1 for first in self.start]
        for axis, digit in self.digits:
            ends[axis] += (digit.size - 1) * digit.step
        return ends


def as_box(piece: FlatPiece, sizes: Sequence[int]) -> Box | None:
    """Return a piece as a box in a shape; None if it is not one."""
    strides, start, offset_left = packed_strides(sizes), [], piece.first_index
    for stride in strides:
        start.append(offset_left // stride)
        offset_left %= stride
    digits: list[tuple[int, Digit]] = []
    for size, step, stride in piece.digits:
        remaining, digit_step, source_stride = size, step, stride
        # From the innermost axis on, because a digit may extend over several axes.
        for axis in reversed(range(len(sizes))):
            unit, end = strides[axis], strides[axis] * sizes[axis]
            if remaining == 1 or digit_step >= end:
                continue
            count = min(remaining, end // digit_step)
            if digit_step % unit or (remaining > count and end % digit_step) or remaining % count:
                return None
            if count > 1:
                digits.append((axis, Digit(count, digit_step // unit, source_stride)))
            remaining, digit_step, source_stride = remaining // count, digit_step * count, source_stride * count
        if remaining > 1:
            return None
    box = Box(tuple(start), tuple(digits))
    return box if all(end <= size for end, size in zip(box.ends(), sizes, strict=True)) else None


def crop(piece: FlatPiece, box: Box, first: Sequence[int], sizes: Sequence[int]) -> FlatPiece:
    """Return a piece of a tensor as a piece of the tensor's part that begins at `first` and has the shape `sizes`."""
    strides = packed_strides(sizes)
    first_index = sum((a - b) * stride for a, b, stride in zip(box.start, first, strides, strict=True))
    digits = (Digit(digit.size, digit.step * strides[axis], digit.stride) for axis, digit in box.digits)
    return piece._replace(first_index=first_index, digits=tidy(digits))
