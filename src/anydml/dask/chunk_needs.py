"""The input chunks that each chunk of a result reads."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from anydml.dask.chunk_bounds import Bounds
from anydml.dask.chunk_choice import CoordinateMove
from anydml.dask.chunk_reads import ChunkGrid, ChunkIndex
from anydml.moves import Access, Move
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.planning.picks import Pick
from anydml.stores.planning.regions import FEW_MOVES, RegionMap

Chunk = tuple[int, ChunkIndex]
"""An input, and the index of its chunk."""


class ChunkNeeds(NamedTuple):
    """The chunks that one chunk of a result reads.

    Attributes:
        number: the index of the result's chunk along each axis.
        written: the bytes of that chunk.
        chunks: the chunks of the inputs that it may read.
        read: the bytes of these chunks.
    """

    number: ChunkIndex
    written: int
    chunks: Sequence[Chunk]
    read: int


class _Range(NamedTuple):
    """Chunks along one axis of an input.

    Attributes:
        numbers: their indices.
        extent: their coordinates.
    """

    numbers: Sequence[int]
    extent: int

    @classmethod
    def between(cls, bounds: Bounds, low: int, high: int) -> _Range:
        """Return the non-empty chunks from `low` to `high`."""
        numbers = [k for k in range(low, high + 1) if bounds[k] < bounds[k + 1]]
        return cls(numbers, bounds[high + 1] - bounds[low])

    @classmethod
    def of(cls, bounds: Bounds, first: int, last: int, step: int = 1) -> _Range:
        """Return the chunks that contain the coordinates `first`, `first` + `step`, … up to `last`."""
        low, high = bisect.bisect_right(bounds, first) - 1, bisect.bisect_right(bounds, last) - 1
        if step == 1 or low == high:
            return cls.between(bounds, low, high)
        numbers = [k for k in range(low, high + 1) if first + -((first - bounds[k]) // step) * step < bounds[k + 1]]
        return cls(numbers, sum([bounds[k + 1] - bounds[k] for k in numbers]))


def operand_of(part: Move | Pick, count: int) -> int | None:
    """Return the number of the input that a part reads; None for a constant or a fill."""
    source = part.move.source if isinstance(part, Pick) else part.source
    return source.operand if isinstance(source, Access) and source.operand < count else None


def box_of_chunk(bounds: Sequence[Bounds], chunk_index: ChunkIndex) -> Box:
    """Return the box of a chunk of a result."""
    return tuple(
        [(axis[k], axis[k + 1]) if len(axis) > 1 else (0, 0) for axis, k in zip(bounds, chunk_index, strict=True)]
    )


def chunk_needs(
    mapping: RegionMap, parts: Sequence[CoordinateMove], bounds: Sequence[Bounds], inputs: Sequence[ChunkGrid]
) -> Iterator[ChunkNeeds]:
    """Yield what each chunk of a result reads.

    Args:
        mapping: the map from the result to the inputs.
        parts: the moves of the mapping.
        bounds: the bounds of the chunks of the result, by axis.
        inputs: the chunks of all inputs.
    """
    by_axes = [_by_axis(part, bounds, inputs) for part in parts[: FEW_MOVES + 1]]
    are_apart = len(by_axes) <= FEW_MOVES and None not in by_axes and not mapping.many
    lengths = [[b - a for a, b in itertools.pairwise(axis)] or [0] for axis in bounds]
    numbers = itertools.product(*map(range, map(len, lengths)))
    for chunk_index, sizes in zip(numbers, itertools.product(*lengths), strict=True):
        written = math.prod(sizes, start=mapping.output.element_size)
        box = () if are_apart else box_of_chunk(bounds, chunk_index)
        spans = [*(_spans_by_axis(by_axes, chunk_index) if are_apart else _spans(mapping, box, inputs))]
        chunks = [
            (operand, chunk) for operand, ranges in spans for chunk in itertools.product(*(r.numbers for r in ranges))
        ]
        if len(spans) == 1:
            [(operand, ranges)] = spans
            read = inputs[operand].layout.element_size * math.prod([axis_range.extent for axis_range in ranges])
        else:
            chunks = [*dict.fromkeys(chunks)]
            read = sum([inputs[operand].size(chunk) for operand, chunk in chunks])
        yield ChunkNeeds(chunk_index, written, chunks, read)


def _spans(mapping: RegionMap, box: Box, inputs: Sequence[ChunkGrid]) -> Iterator[tuple[int, Sequence[_Range]]]:
    for part in mapping.parts_writing(box):
        operand = operand_of(part, len(inputs))
        if operand is not None:
            grids = inputs[operand]
            for chunk_read in grids.read(part):
                yield operand, [*map(_Range.between, grids.bounds, chunk_read.low, chunk_read.high)]


def _spans_by_axis(by_axes: Sequence[Any], chunk_index: ChunkIndex) -> Iterator[tuple[int, Sequence[_Range]]]:
    for operand, fixed, by_axis in by_axes:
        ranges = [*fixed]
        for position, k in enumerate(chunk_index):
            axis_ranges = by_axis[position][k] if by_axis[position] else ()
            if axis_ranges is None:
                break
            for input_axis, span in axis_ranges:
                ranges[input_axis] = span
        else:
            if operand >= 0:
                yield operand, ranges


def _by_axis(
    part: CoordinateMove, output_bounds: Sequence[Bounds], inputs: Sequence[ChunkGrid]
) -> tuple[int, list[_Range], list[list[Any]]] | None:
    """Return the chunks that a move reads, by axis of the result; None unless the axes are independent."""
    runs, first = {run.axis: run for run in part.dimensions}, part.first
    if not part.is_within_rows or len(runs) < len(part.dimensions) or any(run.step != 1 for run in part.dimensions):
        return None
    bounds = inputs[part.operand].bounds if part.operand >= 0 else ()
    fixed = [_Range.of(bounds[k], at, at) for k, at in enumerate(first)]
    by_axis: list[list[Any]] = []
    used_strides: set[int] = set()
    for axis in range(len(output_bounds)):
        run = runs.get(axis)
        count = 1 if run is None else run.size
        moving = [] if run is None else [(s, step) for s, step in enumerate(run.input_steps) if step]
        are_several = len([s for s, _ in moving if len(bounds[s]) > 2]) > 1
        if are_several or used_strides & {s for s, _ in moving}:
            return None
        used_strides |= {s for s, _ in moving}
        start = part.start[axis]
        spans: list[Any] = []
        for low, high in itertools.pairwise(output_bounds[axis]):
            begin, end = max(low, start) - start, min(high, start + count) - start
            if begin >= end:
                spans.append(None)
                continue
            ranges = []
            for s, step in moving:
                ends = (first[s] + begin * step, first[s] + (end - 1) * step)
                ranges.append((s, _Range.of(bounds[s], min(ends), max(ends), abs(step))))
            spans.append(tuple(ranges))
        by_axis.append(spans)
    return part.operand, fixed, by_axis
