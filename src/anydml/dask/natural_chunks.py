"""Chunks of a result for which each task reads few chunks of the inputs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from anydml.moves import Access, Move
from anydml.stores.planning.regions import RegionMap, box_of, coordinates, reach

FEW_MOVES = 64
"""Results of up to this many moves are planned move by move, others chunk by chunk."""

Bounds = tuple[int, ...]
"""Start of each chunk along an axis, followed by the size of the axis."""


class Dimension(NamedTuple):
    """A dimension of a move.

    Attributes:
        axis: of the result, along which it is.
        size: coordinates.
        step: along that axis.
        ways: steps along each axis of the input.
    """

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
        source, output = move.source, mapping.output
        is_read = isinstance(source, Access) and source.operand < len(mapping.inputs)
        runs = []
        for k, (size, stride) in enumerate(zip(move.sizes, move.destination.strides, strict=True)):
            if size > 1:
                axis, step = next((a, step) for a, step in enumerate(coordinates(stride, output)[0]) if step)
                ways = coordinates(move.reads.strides[k], mapping.inputs[move.reads.operand])[0] if is_read else ()
                runs.append(Dimension(axis, size, step, ways))
        start = coordinates(move.destination.offset, output)[0]
        if not is_read:
            return cls(start, runs, -1, ())
        operand, layout = move.reads.operand, mapping.inputs[move.reads.operand]
        first = coordinates(move.reads.offset, layout)[0]
        box = []
        for axis, at in enumerate(first):
            low, high = reach([run.size for run in runs], [run.ways[axis] for run in runs])
            box.append((at + low, at + high + 1))
        return cls(start, runs, operand, first, tuple(box) == box_of(move.reads, move, layout))


def natural_bounds(
    size: int, parts: Sequence[CoordinateMove], axis: int, bounds: Sequence[tuple[Bounds, ...]]
) -> Bounds:
    """Chunk an axis of the result so that each chunk reads as few chunks of the inputs as possible."""
    cuts, known, widest = {0, size}, 0, 1
    for part in parts:
        own = [run for run in part.runs if run.axis == axis]
        start = part.start[axis]
        reach = sum((run.size - 1) * run.step for run in own)
        cuts |= {start, start + reach + 1}
        if part.operand < 0 or not own:
            continue
        outer = max(own, key=lambda run: run.step)
        for own_axis, step in enumerate(outer.ways):
            if not step:
                continue
            starts, first = bounds[part.operand][own_axis], part.first[own_axis]
            known += len(starts)
            widest = max(widest, *(b - a for a, b in itertools.pairwise(starts)))
            for bound in starts[1:-1]:
                digit = -((first - bound) // step) if step > 0 else (first - bound) // -step + 1
                if 0 < digit < outer.size:
                    cuts.add(start + digit * outer.step)
    cuts = {cut for cut in cuts if 0 <= cut <= size}
    if len(cuts) > 2 * known + 16 and len(parts) > FEW_MOVES:
        cuts = {0, size, *range(0, size, widest)}
    return tuple(sorted(cuts)) if size else (0,)
