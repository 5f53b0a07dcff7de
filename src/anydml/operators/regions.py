"""Moves that several operators share: copies and fills of a tensor, scattering, and fills around a box."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anydml.moves import Access, Fill, Move
from anydml.tensor import Layout

MOST_COLUMNS = 8
"""Maximum step along the last dimension for which the gaps are filled column by column."""


def copied(source: tuple[int, Layout], destination: tuple[int, Layout], starts: Sequence[int] | None = None) -> Move:
    """Return the move that copies a tensor into another, from `starts` on.

    Args:
        source: operand number and layout.
        destination: operand number and layout.
        starts: destination of the first element, one coordinate per dimension; 0 by default.
    """
    (from_operand, from_layout), (to_operand, to_layout) = source, destination
    offset = sum(start * stride for start, stride in zip(starts or (), to_layout.strides, strict=False))
    write = Access(to_operand, offset, to_layout.strides)
    return Move(from_layout.sizes, write, Access(from_operand, 0, from_layout.strides), from_layout.element_size)


def scattered(sizes: Sequence[int], to: Access, source: Access, element_size: int) -> Move:
    """Return the move that writes updates to looked-up places.

    Along dimensions on which no place depends, each update overwrites the one before, so only the last is written.

    Args:
        sizes: the updates' sizes.
        to: an access with lookups that contain no others.
        source: the updates.
        element_size: bytes per element.
    """
    writes = [to.strides, *(lookup.strides for lookup in to.lookups)]
    dropped = [d for d, size in enumerate(sizes) if size > 1 and not any(strides[d] for strides in writes)]
    offset = source.offset + sum((sizes[d] - 1) * source.strides[d] for d in dropped)
    box = tuple([1 if d in dropped else size for d, size in enumerate(sizes)])
    return Move(box, to, source._replace(offset=offset), element_size)


def filled(operand: int, layout: Layout, pattern: bytes) -> Move:
    """Return the move that fills an operand."""
    return Move(layout.sizes, Access(operand, 0, layout.strides), Fill(pattern), layout.element_size)


def surrounded(
    operand: int,
    layout: Layout,
    starts: Sequence[int],
    sizes: Sequence[int],
    pattern: bytes,
    offset: int = 0,
    steps: Sequence[int] | None = None,
) -> Iterator[Move]:
    """Yield moves that fill every element outside a box once: for each dimension, before it, in its gaps and after it.

    Args:
        operand: operand number of the tensor.
        layout: the tensor's layout, from `offset` bytes on.
        starts: the box's first coordinate.
        sizes: the box's sizes.
        pattern: the bytes of an element.
        offset: offset in bytes.
        steps: steps between coordinates of the box, at least 1, one per dimension; 1 by default.
    """
    steps = steps or (1,) * len(sizes)
    strides, taken = layout.strides, tuple(step * stride for step, stride in zip(steps, layout.strides, strict=True))

    def filling(box: tuple[int, ...], at: int, by: tuple[int, ...]) -> Move:
        return Move(box, Access(operand, at, by), Fill(pattern), layout.element_size)

    for d, (start, size, step, whole) in enumerate(zip(starts, sizes, steps, layout.sizes, strict=True)):
        begin = offset + sum(starts[k] * strides[k] for k in range(d))
        outer, inner, stride = tuple(sizes[:d]), layout.sizes[d + 1 :], strides[d]
        end = start + (size - 1) * step + 1
        if 1 < step <= MOST_COLUMNS and not inner and start + size * step <= whole:
            for k in range(1, step):
                yield filling((*outer, size), begin + (start + k) * stride, taken)
            end = start + size * step
        elif step > 1 < size:
            gaps = (*outer, size - 1, step - 1, *inner)
            yield filling(gaps, begin + (start + 1) * stride, (*taken[: d + 1], *strides[d:]))
        for first, last in ((0, start), (end, whole)):
            if last > first:
                yield filling((*outer, last - first, *inner), begin + first * stride, (*taken[:d], *strides[d:]))
