"""Chunks of a result for which each task reads few chunks of the inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from anydml.moves import Access, Move
from anydml.stores.formats.store import Array
from anydml.stores.planning.picks import Pick, reach
from anydml.stores.planning.regions import RegionMap, located
from anydml.tensor import Layout

MAX_GROWTH = 8
"""Times as many chunks as the input's sizes ask for along several axes of indices, or as large, at most."""

Bounds = tuple[int, ...]
"""Start of each chunk along an axis, followed by the size of the axis."""


class Dimension(NamedTuple):
    """A dimension of a move.

    Attributes:
        number: of the dimension.
        axis: of the result, along which it is.
        size: coordinates.
        step: along that axis.
        ways: steps along each axis of the input.
    """

    number: int
    axis: int
    size: int
    step: int
    ways: Sequence[int]


class CoordinateMove(NamedTuple):
    """A move by coordinates.

    Attributes:
        start: first coordinates in the result.
        runs: its dimensions of several coordinates.
        operand: number of the input; −1 where there is none.
        first: first coordinates in the input.
        is_within_rows: whether the ways lead to all elements; otherwise a run continues in the next row of the input.
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
        start, steps = located(move.destination, sizes, mapping.output)
        axes = [next((axis for axis, step in enumerate(along) if step), 0) for along in steps]
        runs = [(k, axes[k], size, steps[k][axes[k]]) for k, size in enumerate(sizes) if size > 1]
        if not isinstance(source, Access) or source.operand >= len(mapping.inputs):
            return cls(start, [Dimension(*run, ()) for run in runs], -1, ())
        layout = mapping.inputs[source.operand]
        first, ways = located(source, sizes, layout)
        below, above = reach(sizes, ways, len(first))
        ends = zip(first, below, above, layout.sizes, strict=True)
        is_within_rows = all(at + low >= 0 and at + high < size for at, low, high, size in ends)
        return cls(start, [Dimension(*run, ways[run[0]]) for run in runs], source.operand, first, is_within_rows)


class PickChunks(NamedTuple):
    """How what a pick writes is cut.

    Attributes:
        places: of the moves that replace it.
        whole: where it writes, and reads but for the indices.
        cuts: by axis of the result along which indices differ, where they go on in other chunks.
        widths: by such an axis, as many coordinates as a chunk of the input has.
    """

    places: range
    whole: CoordinateMove
    cuts: Mapping[int, frozenset[int]]
    widths: Mapping[int, int]

    @classmethod
    def of_map(cls, mapping: RegionMap, bounds: Sequence[tuple[Bounds, ...]]) -> list[PickChunks]:
        """Return those of the moves of `mapping` that pick from its inputs, whose chunks have `bounds`."""
        pick_chunks = []
        for move, pick, places in mapping.picks:
            if pick.operand < len(mapping.inputs):
                whole = CoordinateMove.of(mapping, pick.move)
                cuts = _natural(pick, whole, mapping.inputs[pick.operand], bounds[pick.operand])
                pick_chunks.append(cls(places, whole, cuts, _widths(mapping, move, whole, bounds)))
        return pick_chunks


def _natural(
    pick: Pick, whole: CoordinateMove, layout: Layout, bounds: tuple[Bounds, ...]
) -> dict[int, frozenset[int]]:
    """As `PickChunks.cuts`."""
    at, _ = pick._replace(is_kept=np.ones_like(pick.is_kept)).places(layout)
    chunks = np.zeros(pick.shift.size, np.int64)
    for coordinate, starts in zip(at, bounds, strict=True):
        chunks = chunks * len(starts) + chunk_of(starts, coordinate)
    table = chunks.reshape(pick.shift.shape)
    axis_cuts = {}
    # Of the dimensions of an axis the outermost counts, which comes last.
    for axis, run in {run.axis: run for run in sorted(whole.runs, key=lambda run: run.step)}.items():
        if run.number in pick.by:
            place = pick.by.index(run.number)
            others = tuple(n for n in range(table.ndim) if n != place)
            digits = np.flatnonzero((np.diff(table, axis=place) != 0).any(others)) + 1
            axis_cuts[axis] = frozenset((whole.start[axis] + digits * run.step).tolist())
    return axis_cuts


def chunk_of(bounds: Bounds, at: Array) -> Array:
    """The numbers of the chunks that coordinates lie in."""
    return np.searchsorted(bounds, at, "right") - 1


def _widths(
    mapping: RegionMap, move: Move, whole: CoordinateMove, bounds: Sequence[tuple[Bounds, ...]]
) -> dict[int, int]:
    """As `PickChunks.widths`."""
    source = move.reads
    layout, count = mapping.inputs[source.operand], len(move.sizes)
    picked, widths = set[int](), [1] * count
    for lookup in source.lookups:
        if not lookup.stride:
            continue
        width = _width(lookup.size, abs(lookup.stride), layout, bounds[source.operand])
        by = [k for k in range(count) if lookup.strides[k]]
        picked |= {*by}
        # Several axes of indices: at most eight times as many chunks as if each had chunks of this width.
        pick_count = math.prod(min(move.sizes[k], width) for k in by)
        left = min(MAX_GROWTH * width, max(width, -(-pick_count // MAX_GROWTH)))
        for k in reversed(by):
            if along := abs(source.strides[k]):
                # One index per element: the input is walked along here, too.
                widths[k] = _width(move.sizes[k], along, layout, bounds[source.operand])
                continue
            taken = min(move.sizes[k], width, left)
            widths[k] *= taken
            left = -(-left // taken)
    axis_widths: dict[int, int] = {}
    for axis in {run.axis for run in whole.runs if run.number in picked}:
        for run in sorted((run for run in whole.runs if run.axis == axis), key=lambda run: run.step):
            width = min(widths[run.number], run.size) if run.number in picked else run.size
            axis_widths[axis] = width * run.step
            if width < run.size:
                break
    return axis_widths


def _width(size: int, stride: int, layout: Layout, bounds: tuple[Bounds, ...]) -> int:
    """How many of `size` elements that are `stride` bytes apart a chunk has, at most."""
    axis = next(k for k, axis_stride in enumerate(layout.strides) if axis_stride <= stride)
    width, left = 1, size * (stride // layout.strides[axis])
    for k in range(axis, -1, -1):
        width *= min(left, _widest(bounds[k]))
        left = -(-left // layout.sizes[k])
        if left == 1:
            break
    return max(1, width * layout.strides[axis] // stride)


def _widest(bounds: Bounds) -> int:
    return max(b - a for a, b in itertools.pairwise(bounds))


def natural_bounds(
    size: int,
    parts: Sequence[CoordinateMove],
    picks: Sequence[PickChunks],
    axis: int,
    bounds: Sequence[tuple[Bounds, ...]],
) -> Bounds:
    """Chunk an axis of the result so that each chunk reads as few chunks of the inputs as possible.

    Where indices are so mixed, or moves so many, that this would take more than about twice as many chunks as the
    inputs have for as many coordinates, chunks are as wide as the inputs'.
    """
    left = {*range(len(parts))}
    cuts, unmoved = {0, size}, list[CoordinateMove]()
    for pick in picks:
        left -= {*pick.places}
        if not (width := pick.widths.get(axis)):
            unmoved.append(pick.whole)
            continue
        first = pick.whole.start[axis]
        extent = sum((run.size - 1) * run.step for run in pick.whole.runs if run.axis == axis) + 1
        grid = {first + extent, *range(first, first + extent, width)}
        natural = {first, first + extent, *pick.cuts.get(axis, ())}
        if len(natural) <= 2 * len(grid) - 1:
            pairs = itertools.pairwise(sorted(natural))
            grid = {first + extent, *(cut for low, high in pairs for cut in range(low, high, width))}
        cuts |= grid
    part_cuts, known, widest = _cuts([*(parts[k] for k in sorted(left)), *unmoved], axis, bounds)
    part_cuts = {cut for cut in part_cuts if 0 <= cut <= size}
    if len(part_cuts) > 2 * max(known, -(-size // widest)) + 2:
        part_cuts = {*range(0, size, widest)}
    return tuple(sorted(cuts | part_cuts)) if size else (0,)


def _cuts(
    parts: Sequence[CoordinateMove], axis: int, bounds: Sequence[tuple[Bounds, ...]]
) -> tuple[set[int], int, int]:
    """Where moves begin and end along an axis of the result, or go on in other chunks.

    Returns:
        These places, the number of chunks that the inputs have there, and the size of their widest one.
    """
    cuts = set[int]()
    # Moves of an element each lead along the axes of the input along which they begin at several places.
    begins: dict[tuple[int, int], set[int]] = {}
    for part in parts:
        for input_axis, at in enumerate(part.first):
            begins.setdefault((part.operand, input_axis), set()).add(at)
    along = {key for key, places in begins.items() if len(places) > 1}
    for part in parts:
        axis_runs = [run for run in part.runs if run.axis == axis]
        start = part.start[axis]
        reach = sum((run.size - 1) * run.step for run in axis_runs)
        cuts |= {start, start + reach + 1}
        if part.operand < 0 or not axis_runs:
            continue
        outer = max(axis_runs, key=lambda run: run.step)
        for input_axis, step in enumerate(outer.ways):
            if not step:
                continue
            starts, first = bounds[part.operand][input_axis], part.first[input_axis]
            along.add((part.operand, input_axis))
            for bound in starts[1:-1]:
                digit = -((first - bound) // step) if step > 0 else (first - bound) // -step + 1
                if 0 < digit < outer.size:
                    cuts.add(start + digit * outer.step)
    chunks = [bounds[operand][input_axis] for operand, input_axis in along]
    return cuts, sum(len(starts) - 1 for starts in chunks), max(map(_widest, chunks), default=1)
