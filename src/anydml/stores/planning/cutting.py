"""Parts of moves: the coordinates whose bytes, on one side, are in a box of an array.

An array is seen as bytes with a pitch per axis but the last: byte ``a`` lies in row ``a // pitch`` of the first axis,
and the other axes divide ``a % pitch`` likewise. Without a pitch, a box is an interval of bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from anydml.moves import Access, Fill, Move
from anydml.moves.simplify import is_injective
from anydml.stores.formats.chunk_grid import Box

Side = Literal["destination", "source"]

Span = tuple[int, int]
"""First coordinate, and the number of coordinates."""


def end_of(move: Move, side: Side) -> Access:
    """Return a move's access on one side, which must not be a fill."""
    return move.destination if side == "destination" else move.reads


def with_end(move: Move, side: Side, end: Access) -> Move:
    """Return the move with another access on one side."""
    return move._replace(destination=end) if side == "destination" else move._replace(source=end)


def can_be_cut(move: Move, side: Side) -> bool:
    """Whether an access touches each byte once, at increasing addresses, with nested dimensions."""
    if side == "source" and isinstance(move.source, Fill):
        return False
    end = end_of(move, side)
    if end.lookups or any(stride <= 0 for size, stride in zip(move.sizes, end.strides, strict=True) if size > 1):
        return False
    return is_injective(zip(move.sizes, end.strides, strict=True), move.element_size)


def with_pitch(move: Move, side: Side, pitch: int) -> Move | None:
    """Return the move with dimensions that each stay within a row or step by whole rows; None if that is impossible.

    Runs over several whole rows are divided into rows.
    """
    end = end_of(move, side)
    bytes_left = pitch - end.offset % pitch
    reach = move.element_size
    if reach > bytes_left:
        if end.offset % pitch or reach % pitch:
            return None
        return with_pitch(_dimension_of_run(move, pitch), side, pitch)
    for axis in sorted(range(len(move.sizes)), key=lambda k: end.strides[k]):
        size, stride = move.sizes[axis], end.strides[axis]
        if stride % pitch == 0 or size == 1:
            continue
        reach += (size - 1) * stride
        if reach > bytes_left:
            count = pitch // stride
            if pitch % stride or not 0 < count < size or size % count:
                return None
            return with_pitch(split_dimension(move, axis, count), side, pitch)
    return move


def with_elements_of(move: Move, size: int) -> Move:
    """Return the move with elements of at most `size` bytes; larger elements become a further dimension."""
    return _dimension_of_run(move, size) if move.element_size > size and move.element_size % size == 0 else move


def _dimension_of_run(move: Move, run: int) -> Move:
    """Return the move with elements of `run` bytes, and one more dimension."""
    destination, source = move.destination, move.source
    further = destination._replace(strides=(*destination.strides, run))
    if isinstance(source, Access):
        source = source._replace(strides=(*source.strides, run))
    return Move((*move.sizes, move.element_size // run), further, source, run)


def split_dimension(move: Move, axis: int, inner: int) -> Move:
    """Return the move with one dimension split in two, the inner one with `inner` coordinates."""

    def split(end: Access) -> Access:
        strides = end.strides
        return end._replace(strides=(*strides[:axis], strides[axis] * inner, strides[axis], *strides[axis + 1 :]))

    sizes = (*move.sizes[:axis], move.sizes[axis] // inner, inner, *move.sizes[axis + 1 :])
    source = move.source if isinstance(move.source, Fill) else split(move.source)
    return Move(sizes, split(move.destination), source, move.element_size)


def split_move(move: Move, side: Side, pitches: Sequence[int], area: Box) -> Iterator[Move]:
    """Yield the parts of a move in a box; no byte is in two of them. Arguments are those of `boxes_in`."""
    for box in boxes_in(move, side, pitches, area):
        yield part_of(move, box)


def boxes_in(move: Move, side: Side, pitches: Sequence[int], area: Box) -> Iterator[dict[int, Span]]:
    """Yield the coordinates of a move with bytes in a box, as spans by dimension; the last is of an element's bytes.

    Args:
        move: a move that can be cut on that side, with each dimension along one axis, as from `with_pitch`.
        side: the side whose bytes are in the box.
        pitches: bytes per step along each axis but the last, whose steps are bytes.
        area: the box.
    """
    end = end_of(move, side)
    remaining = [(size, stride, k) for k, (size, stride) in enumerate(zip(move.sizes, end.strides, strict=True))]
    offset, part_boxes = end.offset, []
    for pitch, (low, high) in zip(pitches, area, strict=False):
        matching = [(size, stride // pitch, k) for size, stride, k in remaining if stride % pitch == 0]
        remaining = [entry for entry in remaining if entry[1] % pitch]
        row, offset = divmod(offset, pitch)
        part_boxes.append([*_boxes(_nested(matching), row, low, high)])
    remaining.append((move.element_size, 1, len(move.sizes)))
    part_boxes.append([*_boxes(_nested(remaining), offset, *area[-1])])
    for boxes in itertools.product(*part_boxes):
        yield {k: span for box in boxes for k, span in box.items()}


_Level = tuple[int, int, int, int]
"""Size, stride and number of a dimension, and the bytes that its inner dimensions span."""


def _nested(dimensions: Sequence[tuple[int, int, int]]) -> list[_Level]:
    """Return dimensions, the outermost first."""
    levels: list[_Level] = []
    reach = 1
    for size, stride, dimension in sorted(dimensions, key=lambda entry: (entry[1], entry[0])):
        levels.append((size, stride, dimension, reach))
        reach += (size - 1) * stride
    return levels[::-1]


def _boxes(levels: Sequence[_Level], offset: int, low: int, high: int) -> Iterator[dict[int, Span]]:
    """Yield the coordinates with addresses in ``[low, high)`` as boxes: spans by number of the dimension."""
    if not levels:
        if low <= offset < high:
            yield {}
        return
    (size, stride, dimension, reach), inner = levels[0], levels[1:]
    if size == 1:
        for box in _boxes(inner, offset, low, high):
            yield {dimension: (0, 1), **box}
        return
    first = max(0, (low - offset - reach) // stride + 1)
    last = min(size - 1, -(-(high - offset) // stride) - 1)
    whole_first = max(first, -(-(low - offset) // stride))
    whole_last = min(last, (high - offset - reach) // stride)
    if whole_first > whole_last:
        whole_first, whole_last = last + 1, last
    for k in range(first, whole_first):
        for box in _boxes(inner, offset + k * stride, low, high):
            yield {dimension: (k, 1), **box}
    if whole_first <= whole_last:
        yield {
            dimension: (whole_first, whole_last - whole_first + 1),
            **{entry[2]: (0, entry[0]) for entry in inner},
        }
    for k in range(max(whole_last + 1, whole_first), last + 1):
        for box in _boxes(inner, offset + k * stride, low, high):
            yield {dimension: (k, 1), **box}


def part_of(move: Move, box: Mapping[int, Span]) -> Move:
    """Return the part of a move in a box, whose last dimension is the bytes of an element."""
    count = len(move.sizes)
    first, run = box[count]
    remaining = [k for k in range(count) if box[k][1] > 1]

    def part(end: Access) -> Access:
        offset = end.offset + first + sum(box[k][0] * end.strides[k] for k in range(count))
        return Access(end.operand, offset, tuple(end.strides[k] for k in remaining))

    source = move.source
    if isinstance(source, Fill):
        shift = first % len(source.pattern)
        source = Fill(source.pattern[shift:] + source.pattern[:shift])
    else:
        source = part(source)
    return Move(tuple(box[k][1] for k in remaining), part(move.destination), source, run)
