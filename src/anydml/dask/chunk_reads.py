"""Parts of moves that read from one chunk of an input each."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from anydml.dask.chunk_bounds import Bounds
from anydml.moves import Move
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Array
from anydml.stores.planning.cutting import part_of, with_elements_of
from anydml.stores.planning.picks import Pick, PickedBox, places_of, reach
from anydml.stores.planning.regions import box_of, to_coordinates
from anydml.tensor import Layout

ChunkIndex = tuple[int, ...]
"""Index of a chunk along each axis."""


class ChunkRead(NamedTuple):
    """A part of a move or of a pick, with the chunks that it reads.

    Attributes:
        part: the move or the pick.
        low: the index of the first chunk along each axis.
        high: the index of the last chunk along each axis.
        picked: the elements of a pick that lie in these chunks; None for a move.
    """

    part: Move | Pick
    low: ChunkIndex
    high: ChunkIndex
    picked: PickedBox | None = None

    @property
    def move(self) -> Move:
        """The move, whose source is that of the first element of a pick."""
        return self.part.move if isinstance(self.part, Pick) else self.part


class ChunkGrid(NamedTuple):
    """The chunks of an input.

    Attributes:
        layout: the layout of the input, which is packed.
        bounds: the bounds of the chunks, by axis.
    """

    layout: Layout
    bounds: Sequence[Bounds]

    def box(self, chunk_index: ChunkIndex) -> Box:
        """Return the box of a chunk."""
        return tuple([(axis[k], axis[k + 1]) for axis, k in zip(self.bounds, chunk_index, strict=True)])

    def size(self, chunk_index: ChunkIndex) -> int:
        """Return the bytes of a chunk."""
        return self.layout.element_size * math.prod([b - a for a, b in self.box(chunk_index)])

    def inside(self, part: Move | Pick, needed_numbers: Collection[ChunkIndex] | None = None) -> Iterator[ChunkRead]:
        """Cut a part into parts that read one chunk each.

        The cuts do not depend on `needed_numbers`.

        Args:
            part: a part that reads this input.
            needed_numbers: the chunks whose parts are returned; None for all.
        """
        numbers = None if needed_numbers is None or isinstance(part, Move) else self._near(part, needed_numbers)
        return self._cut(part, numbers, needed_numbers, _is_one)

    def read(self, part: Move | Pick) -> Iterator[ChunkRead]:
        """Cut a part into smaller ones, each of which reads from every chunk between its first and its last chunk."""
        return self._cut(part, None, None, self._reads_all)

    def _cut(
        self,
        part: Move | Pick,
        numbers: Array | None,
        needed_numbers: Collection[ChunkIndex] | None,
        is_done: Callable[[ChunkRead], bool],
    ) -> Iterator[ChunkRead]:
        for chunk_read in self._spans(part, numbers):
            low, high = chunk_read.low, chunk_read.high
            if needed_numbers is None or any(
                all(a <= k <= b for a, k, b in zip(low, chunk_index, high, strict=True))
                for chunk_index in needed_numbers
            ):
                if is_done(chunk_read):
                    yield chunk_read
                    continue
                for half in self._halves(chunk_read):
                    yield from self._cut(half, chunk_read.picked and chunk_read.picked.numbers, needed_numbers, is_done)

    def _reads_all(self, chunk_read: ChunkRead) -> bool:
        """Whether it is certain that all chunks from the first to the last are read."""
        part, move = chunk_read.part, chunk_read.move
        varying_axes = [k for k, (a, b) in enumerate(zip(chunk_read.low, chunk_read.high, strict=True)) if a != b]
        if not varying_axes:
            return True
        first, input_steps = to_coordinates(move.reads, move.sizes, self.layout)
        at = chunk_read.picked.coordinates if chunk_read.picked else [*map(np.asarray, first)]
        below, above = reach(move.sizes, input_steps, len(first))
        ends = zip(at, below, above, self.layout.sizes, strict=True)
        if any(start.min() + low < 0 or start.max() + high >= size for start, low, high, size in ends):
            return False
        by = part.by if isinstance(part, Pick) else ()
        steps: dict[int, list[tuple[int, int]]] = {axis: [] for axis in varying_axes}
        for k, (size, steps_by_axis) in enumerate(zip(move.sizes, input_steps, strict=True)):
            axes = [axis for axis in varying_axes if steps_by_axis[axis]] if k not in by and size > 1 else []
            if len(axes) > 1:
                return False
            for axis in axes:
                steps[axis].append((abs(steps_by_axis[axis]), size))
        for axis, along in steps.items():
            bounds, gap, reached = self.bounds[axis][chunk_read.low[axis] : chunk_read.high[axis] + 2], 0, 0
            for step, size in sorted(along):
                gap = max(gap, step - reached)
                reached += (size - 1) * step
            if any(0 < b - a < gap for a, b in itertools.pairwise(bounds)):
                return False
        return True

    def _spans(self, part: Move | Pick, numbers: Array | None = None) -> list[ChunkRead]:
        """Yield a part with the chunks that it may read; a pick is divided into groups of elements in the same chunks.

        Args:
            part: a part that reads this input.
            numbers: the numbers of the elements of a pick; None for all.
        """
        if isinstance(part, Pick):
            pick = part._replace(move=with_elements_of(part.move, self.layout.element_size))
            return self._pick(pick, np.arange(pick.offsets.size) if numbers is None else numbers)
        move = with_elements_of(part, self.layout.element_size)
        box = box_of(move.reads, move, self.layout)
        low = tuple([bisect.bisect_right(axis, first) - 1 for axis, (first, _) in zip(self.bounds, box, strict=True)])
        high = tuple([bisect.bisect_left(axis, stop) - 1 for axis, (_, stop) in zip(self.bounds, box, strict=True)])
        return [ChunkRead(move, low, high)]

    def _near(self, pick: Pick, needed_numbers: Collection[ChunkIndex]) -> Array:
        """Return the elements of a pick that read between the first and the last of some chunks."""
        move, strides, size = pick.move, self.layout.strides, self.layout.element_size
        boxes = [self.box(chunk_index) for chunk_index in needed_numbers]
        first = min(sum(a * stride for (a, _), stride in zip(box, strides, strict=True)) for box in boxes)
        last = max(sum((b - 1) * stride for (_, b), stride in zip(box, strides, strict=True)) for box in boxes)
        below, above = reach(move.sizes, [[stride] for stride in move.reads.strides], 1)
        offsets = pick.offsets
        is_before = offsets + (above[0] + move.element_size) <= first
        return np.flatnonzero(~is_before & (offsets + below[0] < last + size))

    def _pick(self, pick: Pick, numbers: Array) -> list[ChunkRead]:
        if not numbers.size:
            return []
        coordinates, byte_offsets = places_of(pick.offsets[numbers], self.layout)
        input_steps = to_coordinates(pick.move.reads, pick.move.sizes, self.layout)[1]
        low, high = self._ends(coordinates, *reach(pick.move.sizes, input_steps, len(coordinates)))
        bounds = (*self.bounds, *self.bounds)
        grids = [np.searchsorted(axis, at, "right") - 1 for axis, at in zip(bounds, (*low, *high), strict=True)]
        codes = np.zeros(numbers.size, np.int64)
        for axis, cell in zip(bounds, grids, strict=True):
            codes = codes * len(axis) + cell
        order = np.argsort(codes, kind="stable")
        parts = []
        for group in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1):
            ends = [int(cell[group[0]]) for cell in grids]
            picked = PickedBox((), [of_axis[group] for of_axis in coordinates], byte_offsets[group], numbers[group])
            parts.append(ChunkRead(pick, tuple(ends[: len(coordinates)]), tuple(ends[len(coordinates) :]), picked))
        return parts

    def _ends(
        self, places: Sequence[Array], below: Sequence[int], above: Sequence[int]
    ) -> tuple[list[Array], list[Array]]:
        """Return the smallest and largest coordinates that are read around each of several places."""
        low, high = (
            [at + change for at, change in zip(places, input_steps, strict=True)] for input_steps in (below, above)
        )
        for axis in reversed(range(1, len(places))):
            size = self.layout.sizes[axis]
            is_over = (low[axis] < 0) | (high[axis] >= size)
            if is_over.any():
                low[axis - 1] = low[axis - 1] + low[axis] // size
                high[axis - 1] = high[axis - 1] + high[axis] // size
                for inner in range(axis, len(places)):
                    low[inner] = np.where(is_over, 0, low[inner])
                    high[inner] = np.where(is_over, self.layout.sizes[inner] - 1, high[inner])
        if places:
            low[0], high[0] = np.maximum(low[0], 0), np.minimum(high[0], self.layout.sizes[0] - 1)
        return low, high

    def _halves(self, chunk_read: ChunkRead) -> Iterator[Move | Pick]:
        """Cut a part that reads several chunks in two, where the start of a chunk is known."""
        part, move = chunk_read.part, chunk_read.move
        first, input_steps = to_coordinates(move.reads, move.sizes, self.layout)
        axis = next(k for k, (a, b) in enumerate(zip(chunk_read.low, chunk_read.high, strict=True)) if a != b)
        by, strides = part.by if isinstance(part, Pick) else (), move.reads.strides
        free = [k for k, size in enumerate(move.sizes) if size > 1 and strides[k] and k not in by]
        leading = [k for k in free if input_steps[k][axis]] or free
        k = max(leading, key=lambda k: abs(strides[k]) * (move.sizes[k] - 1))
        step, size = input_steps[k][axis], move.sizes[k]
        from_bound = first[axis] - self.bounds[axis][(chunk_read.low[axis] + chunk_read.high[axis] + 1) // 2]
        at = 0 if not step else -(from_bound // step) if step > 0 else from_bound // -step + 1
        if not 0 < at < size:
            at = size // 2
        box = {n: (0, size) for n, size in enumerate((*move.sizes, move.element_size))}
        for span in ((0, at), (at, size - at)):
            box[k] = span
            yield part.part(box) if isinstance(part, Pick) else part_of(part, box)


def _is_one(chunk_read: ChunkRead) -> bool:
    return chunk_read.low == chunk_read.high
