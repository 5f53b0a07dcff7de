"""Chunks of a result for which each task reads few chunks of the inputs."""

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
"""Bytes of a chunk below which axes that are not cut ask for no chunks of their size."""


class Dimension(NamedTuple):
    """A dimension of a move.

    Attributes:
        number: the number of the dimension.
        axis: the axis of the result, along which it is.
        size: coordinates.
        step: along that axis.
        input_steps: steps along each axis of the input.
    """

    number: int
    axis: int
    size: int
    step: int
    input_steps: Sequence[int]


class CoordinateMove(NamedTuple):
    """A move by coordinates.

    Attributes:
        start: first coordinates in the result.
        runs: its dimensions of several coordinates.
        operand: number of the input; −1 where there is none.
        first: first coordinates in the input.
        is_within_rows: whether the steps lead to all elements; otherwise a run continues in the next row of the input.
    """

    start: Sequence[int]
    runs: Sequence[Dimension]
    operand: int
    first: Sequence[int]
    is_within_rows: bool = True

    @classmethod
    def of(cls, mapping: RegionMap, move: Move) -> CoordinateMove:
        """The coordinates of a move."""
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
        """The dimensions along an axis of the result, the innermost first; and where they begin and end."""
        runs = sorted((run for run in self.runs if run.axis == axis), key=lambda run: run.step)
        start = self.start[axis]
        return runs, start, start + sum((run.size - 1) * run.step for run in runs) + 1


class InputChunks(NamedTuple):
    """The chunks of an input.

    Attributes:
        layout: the layout of the input, which is packed.
        bounds: by axis.
        chunk: sizes of the largest chunk.
        room: as many times as large a chunk may be without being larger than a small one.
        largest: sizes of the largest chunk, of which axes that are not cut share the room.
    """

    layout: Layout
    bounds: tuple[Bounds, ...]
    chunk: Sequence[int]
    room: int
    largest: Sequence[int]

    @classmethod
    def of(cls, layout: Layout, bounds: tuple[Bounds, ...]) -> InputChunks:
        """The chunks of an input with some bounds."""
        chunk = [max((b - a for a, b in itertools.pairwise(axis)), default=0) or 1 for axis in bounds]
        room = max(1, SMALL_CHUNK // (layout.element_size * math.prod(chunk)))
        uncut = [k for k, axis in enumerate(bounds) if len(axis) == 2]
        largest = [int(size * room ** (1 / len(uncut))) if k in uncut else size for k, size in enumerate(chunk)]
        return cls(layout, bounds, chunk, room, largest)

    def shares(self, dimensions: Sequence[tuple[int, Sequence[int]]]) -> tuple[list[int], int]:
        """The number of coordinates that the largest chunk has of each dimension.

        Args:
            dimensions: their sizes and steps along each axis.

        Returns:
            A number per dimension, 0 where that leads nowhere; and the elements of the chunk along all other axes.
        """
        shares, remaining_sizes, sizes = [0] * len(dimensions), [*self.largest], self.layout.sizes
        walked = {axis for _, input_steps in dimensions for axis, step in enumerate(input_steps) if step}
        for k in sorted(range(len(dimensions)), key=lambda k: [*map(abs, dimensions[k][1])]):
            size, input_steps = dimensions[k]
            if not (leading := [axis for axis, step in enumerate(input_steps) if step]):
                continue
            shares[k], axis = min(remaining_sizes[axis] for axis in leading), leading[0]
            rows = -(-((size - 1) * abs(input_steps[axis]) + 1) // sizes[axis]) if len(leading) == 1 else 1
            if rows > 1:
                shares[k] = min(shares[k], max(1, sizes[axis] // abs(input_steps[axis])))
            for other_axis in leading:
                remaining_sizes[other_axis] = -(-remaining_sizes[other_axis] // min(size, remaining_sizes[other_axis]))
            # A dimension that continues in further rows also advances along the axes before this one.
            while rows > 1 and axis:
                axis -= 1
                shares[k] *= remaining_sizes[axis]
                remaining_sizes[axis] = -(-remaining_sizes[axis] // min(rows, remaining_sizes[axis]))
                rows = -(-rows // sizes[axis])
        return shares, math.prod(size for axis, size in enumerate(self.chunk) if axis not in walked)


def _width(runs: Sequence[Dimension], shares: Mapping[int, int]) -> int:
    """Coordinates of a chunk along an axis of a result, by shares of the dimensions that lead along inputs."""
    *inner, outer = (run for run in runs if run.number in shares)
    return math.prod(min(shares[run.number], run.size) for run in inner) * shares[outer.number]


class PickChunks(NamedTuple):
    """The cuts of what a pick writes.

    Attributes:
        places: the places of the moves that replace it.
        move: the whole move, without the indices.
        cuts: by axis of the result along which indices differ, where they go on in other chunks.
        widths: by such an axis, as many coordinates as a chunk of the input has.
    """

    places: range
    move: CoordinateMove
    cuts: Mapping[int, Numbers]
    widths: Mapping[int, int]

    @classmethod
    def of_map(cls, mapping: RegionMap, inputs: Sequence[InputChunks]) -> list[PickChunks]:
        """Return those of the moves of `mapping` that pick from its inputs."""
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
        """Return the section that it asks for along an axis of its indices; None along others."""
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
    # Of several dimensions along one axis, the one with the longest step counts: it comes last, in place of the others.
    for axis, run in {run.axis: run for run in sorted(coordinates.runs, key=lambda run: run.step)}.items():
        if run.number in pick.by:
            place = pick.by.index(run.number)
            others = tuple(n for n in range(table.ndim) if n != place)
            digits = np.flatnonzero((np.diff(table, axis=place) != 0).any(others)) + 1
            axis_cuts[axis] = coordinates.start[axis] + digits * run.step
    return axis_cuts


def _chunk_of(bounds: Bounds, at: Array) -> Array:
    """The numbers of the chunks that coordinates lie in."""
    return np.searchsorted(bounds, at, "right") - 1


def _pick_widths(move: Move, coordinates: CoordinateMove, chunks: InputChunks) -> dict[int, int]:
    """See `PickChunks.widths`."""
    source, count = move.reads, len(move.sizes)
    steps = (*source.strides, *(lookup.stride for lookup in source.lookups))
    sizes = (*move.sizes, *(lookup.size for lookup in source.lookups))
    _, input_steps = to_coordinates(source._replace(strides=steps), sizes, chunks.layout)
    shares, room = chunks.shares([*zip(sizes, input_steps, strict=True)])
    # The input is walked along some dimensions, along which there are indices, too, or not.
    widths = {k: share for k, share in enumerate(shares[:count]) if share}
    groups: list[tuple[set[int], int]] = []
    for lookup, width in zip(source.lookups, shares[count:], strict=True):
        if width and (by := {k for k, stride in enumerate(lookup.strides) if stride}):
            joined = [group for group in groups if group[0] & by]
            groups = [group for group in groups if not group[0] & by]
            groups.append(
                (by.union(*(shares for shares, _ in joined)), math.prod([width, *(shares for _, shares in joined)]))
            )
    for by, looked_up in groups:
        free = sorted(by - widths.keys(), reverse=True)
        # Several axes of indices: at most eight times as many chunks as if each had chunks of this width.
        width = looked_up * room if len(free) > 1 else looked_up
        pick_count = math.prod(min(move.sizes[k], width) for k in by)
        picks_left = min(MAX_GROWTH * width, max(width, -(-pick_count // MAX_GROWTH)))
        for k in free:
            widths[k] = min(width, picks_left)
            picks_left = -(-picks_left // min(move.sizes[k], widths[k]))
    picked = set[int]().union(*(by for by, _ in groups))
    axes = {run.axis for run in coordinates.runs if run.number in picked}
    return {axis: _width(coordinates.dimensions_along(axis)[0], widths) for axis in axes}


def natural_bounds(
    sizes: Sequence[int],
    parts: Sequence[CoordinateMove],
    picks: Sequence[PickChunks],
    inputs: Sequence[InputChunks],
) -> list[Bounds]:
    """Chunk a result so that each chunk reads as few chunks of the inputs as possible, within `MAX_GROWTH`.

    Args:
        sizes: the sizes of the result.
        parts: all moves.
        picks: picks, some of which have chunks.
        inputs: that they read.
    """
    alone = {*range(len(parts))}.difference(*(pick.places for pick in picks))
    moves = [parts[k] for k in sorted(alone)]
    # Moves of an element each lead along the axes of the input along which they begin at several places.
    begins: dict[tuple[int, int], set[int]] = {}
    for move in (*moves, *(pick.move for pick in picks)):
        for input_axis, at in enumerate(move.first):
            begins.setdefault((move.operand, input_axis), set()).add(at)
    several = {key for key, places in begins.items() if len(places) > 1}
    axes: list[list[Section]] = [[] for _ in sizes]
    for pick in picks:
        for axis, sections in enumerate(axes):
            sections.append(pick.section(axis) or _section(pick.move, axis, inputs, several))
    for move in moves:
        for axis, sections in enumerate(axes):
            sections.append(_section(move, axis, inputs, several))
    return bounds_of([AxisBounds.of(size, sections) for size, sections in zip(sizes, axes, strict=True)])


def _section(
    move: CoordinateMove, axis: int, inputs: Sequence[InputChunks], several: Collection[tuple[int, int]]
) -> Section:
    """Return the section that a move asks for along an axis of the result.

    Moves begin at several places along some axes of inputs.
    """
    runs, start, stop = move.dimensions_along(axis)
    if move.operand < 0:
        return Section(start, stop, 0, ())
    chunks = inputs[move.operand]
    all_shares, room = chunks.shares([(run.size, run.input_steps) for run in move.runs])
    shares = {run.number: share for run, share in zip(move.runs, all_shares, strict=True) if share}
    leading = [run for run in runs if run.number in shares]
    if runs and not leading:
        return Section(start, stop, max(room, chunks.room), ())
    if not leading:
        widths = [chunks.largest[k] for operand, k in several if operand == move.operand]
        return Section(start, stop, max([chunks.room, *widths]), ())
    outer, cuts = leading[-1], [0]
    for input_axis, step in enumerate(outer.input_steps):
        first = move.first[input_axis]
        for bound in chunks.bounds[input_axis][1:-1] if step else ():
            digit = -((first - bound) // step) if step > 0 else (first - bound) // -step + 1
            if 0 < digit < outer.size:
                cuts.append(digit * outer.step)
    # What is repeated is cut as often, unless small chunks have room for all of it.
    repeats = [run for run in runs if run.number not in shares]
    width = _width(leading, shares) * (chunks.room if repeats else 1)
    outside = [run for run in repeats if run.step > outer.step] if len(cuts) > 1 else []
    if outside and width >= outer.size * outer.step:
        return Section(start, stop, width, ())
    apart = distances([run.size for run in outside], [run.step for run in outside]).reshape(-1, 1)
    return Section(start, stop, width, (start + apart + np.array(cuts)).reshape(-1))
