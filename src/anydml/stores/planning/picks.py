"""Picks: moves by many known indices, and the elements that they read from chunked arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from anydml.moves import Access, Lookup, Move
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Array
from anydml.stores.planning.cutting import Span, part_of
from anydml.tensor import Layout

CellOf = Callable[[int, int, Array], Array]
"""Returns the numbers of cells, such as chunks, for an input, one of its axes, and coordinates along this axis."""


class PickedBox(NamedTuple):
    """The elements of a pick in one cell of its input.

    Attributes:
        box: the box of these elements and of all that the other dimensions of the move read.
        coordinates: coordinates by axis.
        byte_offsets: offsets in bytes from the beginnings of these elements.
        numbers: numbers of these among the elements that move.
    """

    box: Box
    coordinates: Sequence[Array]
    byte_offsets: Array
    numbers: Array


def distances(sizes: Sequence[int], strides: Sequence[int]) -> Array:
    """Return the offset of each coordinate of a box."""
    offsets = np.zeros(tuple(sizes), np.int64)
    for k, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        offsets += (np.arange(size, dtype=np.int64) * stride).reshape([-1 if n == k else 1 for n in range(len(sizes))])
    return offsets


class Pick(NamedTuple):
    """A move by indices, without its lookups.

    Attributes:
        move: the move, whose source has no strides along the dimensions `by`.
        by: the dimensions that are looked up.
        shift: for each of their coordinates, bytes from the offset of the source.
        is_kept: for each of them, whether its element moves; the others keep their destination unchanged.
    """

    move: Move
    by: tuple[int, ...]
    shift: Array
    is_kept: Array

    @property
    def operand(self) -> int:
        """Number of the input."""
        return self.move.reads.operand

    @property
    def bytes_written(self) -> int:
        """Bytes of the elements that move."""
        other_sizes = math.prod(size for k, size in enumerate(self.move.sizes) if k not in self.by)
        return int(np.count_nonzero(self.is_kept)) * other_sizes * self.move.element_size

    @property
    def runs(self) -> int:
        """Approximate number of evenly spaced runs."""
        steps = np.diff(self.shift, axis=-1) if self.by else np.empty(0, np.int64)
        rows = self.shift.size // self.shift.shape[-1] if self.by else 1
        return int(np.count_nonzero(steps[..., 1:] != steps[..., :-1])) + rows

    def part(self, box: Mapping[int, Span]) -> Pick:
        """Return the part in a box of its coordinates, without dimensions of size 1."""
        at = tuple([slice(box[k][0], box[k][0] + box[k][1]) for k in self.by])
        remaining = [k for k in range(len(self.move.sizes)) if box[k][1] > 1]
        by = tuple([dimension for dimension, k in enumerate(remaining) if k in self.by])
        sizes = [box[remaining[dimension]][1] for dimension in by]
        return Pick(part_of(self.move, box), by, self.shift[at].reshape(sizes), self.is_kept[at].reshape(sizes))

    @property
    def offsets(self) -> Array:
        """The offsets in the input of the elements that move."""
        return self.move.reads.offset + self.shift[self.is_kept]

    def places(self, layout: Layout) -> tuple[list[Array], Array]:
        """Return the input's coordinates of the elements that move, and the byte offsets within these elements."""
        return places_of(self.offsets, layout)

    def boxes(
        self, layout: Layout, steps_by_dimension: Sequence[Sequence[int]], cell_of: CellOf
    ) -> Iterator[PickedBox]:
        """Yield the boxes of the input that contain the elements to read, one per cell.

        Args:
            layout: the layout of the input, which is packed.
            steps_by_dimension: by dimension of the move, steps along each axis of the input.
            cell_of: returns the numbers of cells.
        """
        at, byte_offsets = self.places(layout)
        if not byte_offsets.size:
            return
        cells = np.zeros(byte_offsets.size, np.int64)
        for axis, coordinates in enumerate(at):
            numbers = cell_of(self.operand, axis, coordinates)
            cells = cells * (int(numbers.max()) + 1) + numbers
        below, above = reach(self.move.sizes, steps_by_dimension, len(at))
        order = np.argsort(cells, kind="stable")
        for numbers in np.split(order, np.flatnonzero(np.diff(cells[order])) + 1):
            own_at = [coordinates[numbers] for coordinates in at]
            low = [int(coordinates.min()) + change for coordinates, change in zip(own_at, below, strict=True)]
            high = [int(coordinates.max()) + change for coordinates, change in zip(own_at, above, strict=True)]
            yield PickedBox(box_between(low, high, layout.sizes), own_at, byte_offsets[numbers], numbers)

    def cell_move(
        self,
        picked: PickedBox,
        to: Access,
        read_box: Box,
        strides: Sequence[int],
        source: Access,
        add: Callable[[Array], int],
    ) -> Move:
        """Return the move of one cell's elements between arrays in memory.

        Args:
            picked: the elements.
            to: the destination in memory.
            read_box: the box of the input that is in memory.
            strides: the strides of its axes in memory.
            source: that memory, with a stride per dimension of the move.
            add: adds an operand, and returns its number.
        """
        goes = distances(self.shift.shape, [to.strides[k] for k in self.by])[self.is_kept][picked.numbers]
        comes = picked.byte_offsets.copy()
        for coordinates, (low, _), stride in zip(picked.coordinates, read_box, strides, strict=True):
            comes += (coordinates - low) * stride
        other_dimensions = [k for k in range(len(self.move.sizes)) if k not in self.by]
        ends = []
        for end, numbers in ((to, goes), (source, comes)):
            first, step = int(numbers[0]), int(numbers[1] - numbers[0]) if numbers.size > 1 else 0
            lookups: tuple[Lookup, ...] = ()
            if (np.diff(numbers) != step).any():
                unit, zeros = self.move.element_size, (0,) * len(other_dimensions)
                table = add((numbers // unit).view(np.uint8))
                lookups = (Lookup(table, "int64", 0, (8, *zeros), int(numbers.max()) // unit + 1, unit),)
                first = step = 0
            ends.append(
                Access(end.operand, end.offset + first, (step, *(end.strides[k] for k in other_dimensions)), lookups)
            )
        sizes = (picked.numbers.size, *(self.move.sizes[k] for k in other_dimensions))
        return Move(sizes, ends[0], ends[1], self.move.element_size)


def places_of(offsets: Array, layout: Layout) -> tuple[list[Array], Array]:
    """Return the coordinates of the elements of a packed array at byte offsets, and the offsets within the elements."""
    element_number, byte_offsets = np.divmod(offsets, layout.element_size)
    return [*np.unravel_index(element_number, layout.sizes)] if layout.sizes else [], byte_offsets


def reach(sizes: Sequence[int], steps_by_dimension: Sequence[Sequence[int]], rank: int) -> tuple[list[int], list[int]]:
    """Return the lowest and highest coordinates that dimensions reach along each axis, by their steps."""
    ends = [[(size - 1) * step for step in steps] for size, steps in zip(sizes, steps_by_dimension, strict=True)]
    below, above = ([sum(chosen(0, end[axis]) for end in ends) for axis in range(rank)] for chosen in (min, max))
    return below, above


def box_between(low: Sequence[int], high: Sequence[int], sizes: Sequence[int]) -> Box:
    """Return the box from the smallest to the largest coordinates; if these span several rows, the rows are whole."""
    axis_count = len(sizes)
    low, high = [*low], [*high]
    for axis in reversed(range(1, len(sizes))):
        if low[axis] < 0 or high[axis] >= sizes[axis]:
            low[axis - 1] += low[axis] // sizes[axis]
            high[axis - 1] += high[axis] // sizes[axis]
            axis_count = axis
    if axis_count:
        # Dimensions that would reach outside do not all end at once.
        low[0], high[0] = max(0, low[0]), min(sizes[0] - 1, high[0])
    inside = [(first, last + 1) for first, last in zip(low[:axis_count], high[:axis_count], strict=True)]
    return (*inside, *((0, size) for size in sizes[axis_count:]))
