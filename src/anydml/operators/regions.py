"""Moves that several operators have in common: all of a tensor, and all around a part of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anydml.moves import Access, Fill, Move
from anydml.tensor import Layout


def copied(source: tuple[int, Layout], destination: tuple[int, Layout], starts: Sequence[int] | None = None) -> Move:
    """The whole source into the destination, from `starts` on.

    Args:
        source: operand and layout.
        destination: likewise.
        starts: where the first element goes, one coordinate a dimension; the first by default.
    """
    (read, own), (written, to) = source, destination
    offset = sum(start * stride for start, stride in zip(starts or (), to.strides, strict=False))
    return Move(own.sizes, Access(written, offset, to.strides), Access(read, 0, own.strides), own.element_size)


def filled(operand: int, layout: Layout, pattern: bytes) -> Move:
    """Every element of an operand."""
    return Move(layout.sizes, Access(operand, 0, layout.strides), Fill(pattern), layout.element_size)


def surrounded(
    operand: int, layout: Layout, starts: Sequence[int], sizes: Sequence[int], pattern: bytes, offset: int = 0
) -> Iterator[Move]:
    """Every element outside a box, once: what lies before and behind it in one dimension after the other.

    Args:
        operand: its number.
        layout: where its elements lie, from `offset` bytes on.
        starts: the box's first coordinate.
        sizes: the box's sizes.
        pattern: the bytes of an element.
        offset: bytes.
    """
    for d, (start, size, whole) in enumerate(zip(starts, sizes, layout.sizes, strict=True)):
        begin = offset + sum(starts[k] * layout.strides[k] for k in range(d))
        for first, end in ((0, start), (start + size, whole)):
            if end > first:
                box = (*sizes[:d], end - first, *layout.sizes[d + 1 :])
                to = Access(operand, begin + first * layout.strides[d], layout.strides)
                yield Move(box, to, Fill(pattern), layout.element_size)
