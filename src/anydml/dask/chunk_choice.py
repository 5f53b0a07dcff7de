"""The choice of a result's chunks, so that each task reads few chunks of the inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from anydml.dask.chunk_bounds import MAX_GROWTH, AxisBounds, Bounds, Section, bounds_of
from anydml.moves import Access, Move
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.picks import Pick, distances, reach
from anydml.stores.planning.regions import RegionMap, to_coordinates
from anydml.tensor import Layout

SMALL_CHUNK = 1 << 20
"""Bytes up to which a chunk of the result may exceed the input's chunks along axes that the input does not cut."""


class Dimension(NamedTuple):
    """A dimension of a move.

    Attributes:
        number: the index of the dimension in the move.
        axis: the axis of the result that it lies along.
        size: the number of coordinates.
        step: the step along that axis.
        input_steps: the steps along each axis of the input.
    """

    number: int
    axis: int
    size: int
    step: int
    input_steps: Sequence[int]


class CoordinateMove(NamedTuple):
    """A move in coordinates of the result and of the input, instead of bytes.

    Attributes:
        start: the first coordinates in the result.
        dimensions: the dimensions of two or more coordinates.
        operand: the number of the input; −1 if there is none.
        first: the first coordinates in the input.
        is_within_rows: whether all steps stay in their row; otherwise a dimension continues in the input's next row.
    """

    start: Sequence[int]
    dimensions: Sequence[Dimension]
    operand: int
    first: Sequence[int]
    is_within_rows: bool = True

    @classmethod
    def of(cls, mapping: RegionMap, move: Move) -> CoordinateMove:
        """Convert a move to coordinates."""
        source, sizes = move.source, move.sizes
        start, steps = to_coordinates(move.destination, sizes, mapping.output)
        axes = [next((axis for axis, step in enumerate(along) if step), 0) for along in steps]
        runs = [(k, axes[k], size, steps[k][axes[k]]) for k, size in enumerate(sizes) if size > 1]
        if not isinstance(source, Access) or source.operand >= len(mapping.inputs):
            return cls(start, [Dimension(*run, ()) for run in runs], -1, ())
        layout = mapping.inputs[source.operand]
        first, input_steps = to_coordinates(source, sizes, layout)
        below, above = reach(sizes, input_steps, len(first))
        ends = zip(first, below, above, layout.sizes, strict=True)
        is_within_rows = all(at + low >= 0 and at + high < size for at, low, high, size in ends)
        return cls(start, [Dimension(*run, input_steps[run[0]]) for run in runs], source.operand, first, is_within_rows)

    def dimensions_along(self, axis: int) -> tuple[list[Dimension], int, int]:
        """Return the dimensions along an axis of the result, innermost first, and the range of their coordinates."""
        runs = sorted((dimension for dimension in self.dimensions if dimension.axis == axis), key=lambda run: run.step)
        start = self.start[axis]
        return runs, start, start + sum((run.size - 1) * run.step for run in runs) + 1


class InputChunks(NamedTuple):
    """The chunks of an input.

    Attributes:
        layout: the layout of the input, which is packed.
        bounds: the bounds of the chunks along each axis.
        chunk: the sizes of the largest chunk.
        growth: the factor by which the largest chunk may grow up to `SMALL_CHUNK`, at least 1.
        grown_chunk: the sizes of the largest chunk after axes that are not cut have grown by that factor together.
    """

    layout: Layout
    bounds: tuple[Bounds, ...]
    chunk: Sequence[int]
    growth: int
    grown_chunk: Sequence[int]

    @classmethod
    def of(cls, layout: Layout, bounds: tuple[Bounds, ...]) -> InputChunks:
        """Return the chunks of an input from its layout and their bounds."""
        chunk = [max((b - a for a, b in itertools.pairwise(axis)), default=0) or 1 for axis in bounds]
        growth = max(1, SMALL_CHUNK // (layout.element_size * math.prod(chunk)))
        uncut = [k for k, axis in enumerate(bounds) if len(axis) == 2]
        grown = [int(size * growth ** (1 / len(uncut))) if k in uncut else size for k, size in enumerate(chunk)]
        return cls(layout, bounds, chunk, growth, grown)

    def coordinates_in_chunk(self, dimensions: Sequence[tuple[int, Sequence[int]]]) -> tuple[list[int], int]:
        """Return how many coordinates of each dimension one chunk of the largest size holds.

        Args:
            dimensions: for each dimension, its size and its steps along the axes of the input.

        Returns:
            The number of coordinates of each dimension, 0 if it has no steps; and the number of the chunk's elements
            along the axes that no dimension has steps along.
        """
        counts, remaining_sizes, sizes = [0] * len(dimensions), [*self.grown_chunk], self.layout.sizes
        stepped_axes = {axis for _, input_steps in dimensions for axis, step in enumerate(input_steps) if step}
        for k in sorted(range(len(dimensions)), key=lambda k: [*map(abs, dimensions[k][1])]):
            size, input_steps = dimensions[k]
            if not (own_axes := [axis for axis, step in enumerate(input_steps) if step]):
                continue
            counts[k], axis = min(remaining_sizes[axis] for axis in own_axes), own_axes[0]
            rows = -(-((size - 1) * abs(input_steps[axis]) + 1) // sizes[axis]) if len(own_axes) == 1 else 1
            if rows > 1:
                counts[k] = min(counts[k], max(1, sizes[axis] // abs(input_steps[axis])))
            for other_axis in own_axes:
                remaining_sizes[other_axis] = -(-remaining_sizes[other_axis] // min(size, remaining_sizes[other_axis]))
            # A dimension that runs over several rows also advances along earlier axes.
            while rows > 1 and axis:
                axis -= 1
                counts[k] *= remaining_sizes[axis]
                remaining_sizes[axis] = -(-remaining_sizes[axis] // min(rows, remaining_sizes[axis]))
                rows = -(-rows // sizes[axis])
        return counts, math.prod(size for axis, size in enumerate(self.chunk) if axis not in stepped_axes)


def _width(dimensions: Sequence[Dimension], counts: Mapping[int, int]) -> int:
    """Return the number of coordinates of a result's chunk along an axis, from the counts of its dimensions."""
    *inner, outer = (dimension for dimension in dimensions if dimension.number in counts)
    return math.prod(min(counts[dimension.number], dimension.size) for dimension in inner) * counts[outer.number]


class PickChunks(NamedTuple):
    """The best cuts of the result of a pick.

    Attributes:
        places: the range of the moves that replace the pick.
        move: the whole move, without the indices.
        cuts: for each axis of the result along which indices differ, the coordinates at which another chunk is read.
        widths: for each such axis, the number of coordinates that one chunk of the input suffices for.
    """

    places: range
    move: CoordinateMove
    cuts: Mapping[int, Numbers]
    widths: Mapping[int, int]

    @classmethod
    def of_map(cls, mapping: RegionMap, inputs: Sequence[InputChunks]) -> list[PickChunks]:
        """Return the picks of `mapping` that read its inputs."""
        pick_chunks = []
        for move, pick, places in mapping.picks:
            if pick.operand < len(inputs):
                coordinates, chunks = CoordinateMove.of(mapping, pick.move), inputs[pick.operand]
                pick_chunks.append(
                    cls(
                        places,
                        coordinates,
                        _pick_cuts(pick, coordinates, chunks),
                        _pick_widths(move, coordinates, chunks),
                    )
                )
        return pick_chunks

    def section(self, axis: int) -> Section | None:
        """Return the pick's section along an axis of the result; None if the indices do not differ along the axis."""
        if (width := self.widths.get(axis)) is None:
            return None
        _, start, stop = self.move.dimensions_along(axis)
        cuts = np.array([start, *self.cuts.get(axis, ()), stop], np.int64)
        wide = np.flatnonzero(np.diff(cuts) > width).tolist()
        further = [np.arange(cuts[k], cuts[k + 1], width) for k in wide]
        return Section(start, stop, width, np.concatenate([cuts, *further]))


def _pick_cuts(pick: Pick, coordinates: CoordinateMove, chunks: InputChunks) -> dict[int, Numbers]:
    """See `PickChunks.cuts`."""
    at, _ = pick._replace(is_kept=np.ones_like(pick.is_kept)).places(chunks.layout)
    numbers = np.zeros(pick.shift.size, np.int64)
    for coordinate, starts in zip(at, chunks.bounds, strict=True):
        numbers = numbers * len(starts) + _chunk_of(starts, coordinate)
    table = numbers.reshape(pick.shift.shape)
    axis_cuts = {}
    # If several dimensions lie along one axis, the one with the longest step replaces the others.
    for axis, run in {run.axis: run for run in sorted(coordinates.dimensions, key=lambda run: run.step)}.items():
        if run.number in pick.by:
            dimension = pick.by.index(run.number)
            other_dimensions = tuple(n for n in range(table.ndim) if n != dimension)
            digits = np.flatnonzero((np.diff(table, axis=dimension) != 0).any(other_dimensions)) + 1
            axis_cuts[axis] = coordinates.start[axis] + digits * run.step
    return axis_cuts


def _chunk_of(bounds: Bounds, at: Array) -> Array:
    """Return the numbers of the chunks that coordinates lie in."""
    return np.searchsorted(bounds, at, "right") - 1


def _pick_widths(move: Move, coordinates: CoordinateMove, chunks: InputChunks) -> dict[int, int]:
    """See `PickChunks.widths`."""
    source, count = move.reads, len(move.sizes)
    steps = (*source.strides, *(lookup.stride for lookup in source.lookups))
    sizes = (*move.sizes, *(lookup.size for lookup in source.lookups))
    _, input_steps = to_coordinates(source._replace(strides=steps), sizes, chunks.layout)
    counts, growth = chunks.coordinates_in_chunk([*zip(sizes, input_steps, strict=True)])
    # The dimensions that advance along the input; indices may differ along these, too.
    widths = {k: width for k, width in enumerate(counts[:count]) if width}
    groups: list[tuple[set[int], int]] = []
    for lookup, width in zip(source.lookups, counts[count:], strict=True):
        if width and (by := {k for k, stride in enumerate(lookup.strides) if stride}):
            joined = [group for group in groups if group[0] & by]
            groups = [group for group in groups if not group[0] & by]
            groups.append(
                (by.union(*(keys for keys, _ in joined)), math.prod([width, *(widths for _, widths in joined)]))
            )
    for by, looked_up in groups:
        free = sorted(by - widths.keys(), reverse=True)
        # With several axes of indices, at most `MAX_GROWTH` times as many chunks as with this width along each axis.
        width = looked_up * growth if len(free) > 1 else looked_up
        pick_count = math.prod(min(move.sizes[k], width) for k in by)
        picks_left = min(MAX_GROWTH * width, max(width, -(-pick_count // MAX_GROWTH)))
        for k in free:
            widths[k] = min(width, picks_left)
            picks_left = -(-picks_left // min(move.sizes[k], widths[k]))
    picked = set[int]().union(*(by for by, _ in groups))
    axes = {run.axis for run in coordinates.dimensions if run.number in picked}
    return {axis: _width(coordinates.dimensions_along(axis)[0], widths) for axis in axes}


def choose_bounds(
    sizes: Sequence[int],
    parts: Sequence[CoordinateMove],
    picks: Sequence[PickChunks],
    inputs: Sequence[InputChunks],
) -> list[Bounds]:
    """Choose the chunks of a result so that each reads as few chunks of the inputs as possible, within `MAX_GROWTH`.

    Args:
        sizes: the sizes of the result.
        parts: all moves.
        picks: the cuts that suit the results of picks best.
        inputs: the inputs that they read.
    """
    alone = {*range(len(parts))}.difference(*(pick.places for pick in picks))
    moves = [parts[k] for k in sorted(alone)]
    # Moves of one element have no steps: axes along which the starts of these moves differ are used instead.
    begins: dict[tuple[int, int], set[int]] = {}
    for move in (*moves, *(pick.move for pick in picks)):
        for input_axis, at in enumerate(move.first):
            begins.setdefault((move.operand, input_axis), set()).add(at)
    varying = {key for key, places in begins.items() if len(places) > 1}
    axes: list[list[Section]] = [[] for _ in sizes]
    for pick in picks:
        for axis, sections in enumerate(axes):
            sections.append(pick.section(axis) or _section(pick.move, axis, inputs, varying))
    for move in moves:
        for axis, sections in enumerate(axes):
            sections.append(_section(move, axis, inputs, varying))
    return bounds_of([AxisBounds.of(size, sections) for size, sections in zip(sizes, axes, strict=True)])


def _section(
    move: CoordinateMove, axis: int, inputs: Sequence[InputChunks], varying: Collection[tuple[int, int]]
) -> Section:
    """Return the section of a move along an axis of the result.

    Args:
        move: the move.
        axis: the axis.
        inputs: the chunks of all inputs.
        varying: the inputs and their axes along which the starts of moves differ.
    """
    dimensions, start, stop = move.dimensions_along(axis)
    if move.operand < 0:
        return Section(start, stop, 0, ())
    chunks = inputs[move.operand]
    all_counts, growth = chunks.coordinates_in_chunk([(dim.size, dim.input_steps) for dim in move.dimensions])
    counts = {dimension.number: count for dimension, count in zip(move.dimensions, all_counts, strict=True) if count}
    reading = [dimension for dimension in dimensions if dimension.number in counts]
    if dimensions and not reading:
        return Section(start, stop, max(growth, chunks.growth), ())
    if not reading:
        widths = [chunks.grown_chunk[k] for operand, k in varying if operand == move.operand]
        return Section(start, stop, max([chunks.growth, *widths]), ())
    outer, cuts = reading[-1], [0]
    for input_axis, step in enumerate(outer.input_steps):
        first = move.first[input_axis]
        for bound in chunks.bounds[input_axis][1:-1] if step else ():
            digit = -((first - bound) // step) if step > 0 else (first - bound) // -step + 1
            if 0 < digit < outer.size:
                cuts.append(digit * outer.step)
    # Each repetition is cut like the input, unless the whole repetition fits into a small chunk.
    repeats = [dimension for dimension in dimensions if dimension.number not in counts]
    width = _width(reading, counts) * (chunks.growth if repeats else 1)
    outside = [dimension for dimension in repeats if dimension.step > outer.step] if len(cuts) > 1 else []
    if outside and width >= outer.size * outer.step:
        return Section(start, stop, width, ())
    repetitions = distances([dim.size for dim in outside], [dim.step for dim in outside]).reshape(-1, 1)
    return Section(start, stop, width, (start + repetitions + np.array(cuts)).reshape(-1))
