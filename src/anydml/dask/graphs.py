"""Task graphs: the input chunks that each chunk of a result reads."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from anydml.dask.chunk_bounds import Bounds
from anydml.dask.chunk_tasks import ChunkBuilder
from anydml.dask.natural_chunks import CoordinateMove, InputChunks, PickChunks, chunk_of, natural_bounds
from anydml.errors import BindingError
from anydml.moves.compose import INPUT, Composer
from anydml.moves.value import Value
from anydml.stores.planning.regions import FEW_MOVES, RegionMap
from anydml.tensor import Layout
from anydml.text import bytes_text, parse_size

MEMORY = "1GB"
"""Largest memory of a task, where Dask's configuration does not set ``anydml.memory``."""

Number = tuple[int, ...]
"""Index of a chunk along each axis."""


def lazy_array(name: str, composer: Composer, value: Value, dtype: np.dtype[Any], inputs: Sequence[Any]) -> Any:
    """Return the Dask array of a traced value.

    Args:
        name: the function's name in error messages and task keys.
        composer: composed `value`; names its operands.
        value: the result; its inputs have packed strides.
        dtype: of the result.
        inputs: the Dask arrays that `value` reads, in the order of its operands.

    Raises:
        BindingError: a task of one element does not fit in ``anydml.memory``, or indices are a Dask array; or
            a step needs its whole input at once.
    """
    import dask
    from dask._task_spec import DataNode, Task, TaskRef
    from dask.array import Array
    from dask.base import tokenize
    from dask.highlevelgraph import HighLevelGraph

    complete = composer.copy()
    complete.output("result", value)
    program = complete.program(is_simple=False)
    constants = dict(enumerate(program.constants, len(inputs) + 1))

    def indices(operand: int) -> np.ndarray[Any, Any]:
        elements = constants.get(operand)
        if elements is None:
            raise BindingError(f"{name}: indices are a Dask array: their elements decide which chunks a task needs, "
                               "so pass indices.compute()", name)  # fmt: skip
        return elements

    layouts = [Layout.packed(tuple(map(int, array.shape)), array.dtype.itemsize) for array in inputs]
    packed = Layout.packed(value.sizes, value.element_size)
    bounds = [tuple(_bounds(axis) for axis in array.chunks) for array in inputs]
    hint = "convert the Dask arrays by .compute(), and pass the results"
    mapping = RegionMap(program, len(inputs), packed, layouts, indices, partial(_cell_of, bounds), hint)
    limit = parse_size(dask.config.get("anydml.memory", MEMORY))
    needs, output_bounds = _within_memory(name, mapping, bounds, [array.dtype.itemsize for array in inputs], limit)
    declared = [(composer.operand(INPUT + k).name, array.dtype) for k, array in enumerate(inputs)]
    builder = ChunkBuilder(name, mapping, output_bounds, bounds, declared, np.dtype(dtype), constants)
    names = [operand.name for operand in inputs]
    moves = [*mapping.moves, *(move for move, _, _ in mapping.picks)]
    token = tokenize(name, repr(moves), [*value.sizes], names, output_bounds, str(dtype), list(constants.values()))
    key = f"anydml-{name.lower().strip('<>')}-{token}"
    shared = f"{key}-program"
    graph: dict[Any, Any] = {shared: DataNode(shared, builder)}
    shared_task = TaskRef(shared)
    for number, chunks in needs.items():
        place = (key, *number)
        refs = [TaskRef((names[operand], *chunk)) for operand, chunk in chunks]
        graph[place] = Task(place, _build_chunk, shared_task, number, tuple(chunks), *refs)
    used = {operand for chunks in needs.values() for operand, _ in chunks}
    whole = HighLevelGraph.from_collections(key, graph, dependencies=[inputs[k] for k in sorted(used)])
    sizes = tuple(tuple(b - a for a, b in itertools.pairwise(axis)) or (0,) for axis in output_bounds)
    return Array(whole, key, sizes, dtype=dtype)


def _build_chunk(builder: ChunkBuilder, number: Number, chunks: tuple[tuple[int, Number], ...], *arrays: Any) -> Any:
    return builder(number, chunks, arrays)


def _cell_of(bounds: Sequence[tuple[Bounds, ...]], operand: int, axis: int, at: np.ndarray[Any, Any]) -> Any:
    return chunk_of(bounds[operand][axis], at)


def _bounds(sizes: Sequence[int]) -> Bounds:
    return (0, *itertools.accumulate(int(size) for size in sizes))


Needs = dict[Number, list[tuple[int, Number]]]
"""For each chunk of the result, the (input, chunk) pairs that it reads."""


def _within_memory(
    name: str, mapping: RegionMap, bounds: Sequence[tuple[Bounds, ...]], itemsizes: Sequence[int], limit: int
) -> tuple[Needs, tuple[Bounds, ...]]:
    """Choose chunks for the result, halving axes until no task needs more than `limit` bytes."""
    parts = [*map(partial(CoordinateMove.of, mapping), mapping.moves)]
    inputs = [*map(InputChunks.of, mapping.inputs, bounds)]
    output_bounds = natural_bounds(mapping.output.sizes, parts, PickChunks.of_map(mapping, inputs), inputs)
    while True:
        needs: Needs = {}
        worst = 0, ()  # type: tuple[int, Number]
        for number, chunks, needed in _chunk_needs(mapping, parts, output_bounds, bounds, itemsizes):
            needs[number] = chunks
            worst = max(worst, (needed, number))
        if worst[0] <= limit:
            return needs, tuple(output_bounds)
        extents = [
            (axis[k + 1] - axis[k], place) for place, (axis, k) in enumerate(zip(output_bounds, worst[1], strict=True))
        ]
        size, axis = max(extents, default=(1, 0))
        if size <= 1:
            raise BindingError(
                f"{name}: one element of the result needs {bytes_text(worst[0])} of chunks at once, but anydml.memory "
                f"is {bytes_text(limit)}: rechunk the inputs, or raise it by dask.config.set({{'anydml.memory': …}})"
            )
        output_bounds[axis] = tuple(
            sorted({*output_bounds[axis], *((a + b) // 2 for a, b in itertools.pairwise(output_bounds[axis]))})
        )


class _Range(NamedTuple):
    """The chunks that a task reads along one axis of an input.

    Attributes:
        chunks: their indices.
        sizes: their sizes.
        extent: the sum of `sizes`.
        part: the number of coordinates that are read.
    """

    chunks: tuple[int, ...]
    sizes: tuple[int, ...]
    extent: int
    part: int


def _range(bounds: Bounds, low: int, high: int) -> _Range:
    first, last = bisect.bisect_right(bounds, low) - 1, bisect.bisect_left(bounds, high)
    while bounds[first + 1] == bounds[first]:
        first += 1
    chunks = tuple(range(first, last))
    sizes = tuple(bounds[k + 1] - bounds[k] for k in chunks)
    return _Range(chunks, sizes, bounds[last] - bounds[first], high - low)


def _chunk_needs(
    mapping: RegionMap,
    parts: Sequence[CoordinateMove],
    output_bounds: Sequence[Bounds],
    bounds: Sequence[tuple[Bounds, ...]],
    itemsizes: Sequence[int],
) -> Iterator[tuple[Number, list[tuple[int, Number]], int]]:
    """Yield each chunk of the result, the input chunks that it reads, and its task's peak memory in bytes."""
    size = mapping.output.element_size
    spans: list[Any]
    numbers = itertools.product(*(range(len(axis) - 1) if len(axis) > 1 else range(1) for axis in output_bounds))
    pieces = [_by_axis(part, output_bounds, bounds) for part in parts[: FEW_MOVES + 1]]
    if len(pieces) > FEW_MOVES or None in pieces or mapping.many:
        for number in numbers:
            box = tuple(
                (axis[k], axis[k + 1]) if len(axis) > 1 else (0, 0)
                for axis, k in zip(output_bounds, number, strict=True)
            )
            regions = mapping.regions(mapping.within(box))
            spans = [
                (
                    region.operand,
                    [_range(starts, *span) for starts, span in zip(bounds[region.operand], region.box, strict=True)],
                )
                for region in regions
            ]
            yield number, *_summed(spans, itemsizes, math.prod(b - a for a, b in box) * size)
        return
    for number in numbers:
        spans = []
        written = size
        for axis, k in zip(output_bounds, number, strict=True):
            written *= axis[k + 1] - axis[k] if len(axis) > 1 else 0
        for operand, fixed, by_axis in pieces:  # type: ignore[misc]
            ranges = [*fixed]
            for place, k in enumerate(number):
                axis_ranges = by_axis[place][k] if by_axis[place] else ()
                if axis_ranges is None:
                    break
                for input_axis, span in axis_ranges:
                    ranges[input_axis] = span
            else:
                if operand >= 0:
                    spans.append((operand, ranges))
        yield number, *_summed(spans, itemsizes, written)


def _summed(
    spans: Sequence[tuple[int, Sequence[_Range]]], itemsizes: Sequence[int], written: int
) -> tuple[list[tuple[int, Number]], int]:
    sizes: dict[tuple[int, Number], int] = {}
    parts = 0
    for operand, ranges in spans:
        itemsize = itemsizes[operand]
        if len(spans) == 1:
            held = itemsize * math.prod(span.extent for span in ranges)
            chunks = [(operand, chunk) for chunk in itertools.product(*(span.chunks for span in ranges))]
            # A box that spans several chunks is assembled in a buffer first.
            part = itemsize * math.prod(span.part for span in ranges)
            return chunks, written + held + (part if len(chunks) > 1 else 0)
        count = 0
        for chunk in itertools.product(*(zip(span.chunks, span.sizes, strict=True) for span in ranges)):
            count += 1
            sizes[operand, tuple(k for k, _ in chunk)] = itemsize * math.prod(size for _, size in chunk)
        parts += itemsize * math.prod(span.part for span in ranges) if count > 1 else 0
    return [*sizes], written + sum(sizes.values()) + parts


def _by_axis(
    part: CoordinateMove, output_bounds: Sequence[Bounds], bounds: Sequence[tuple[Bounds, ...]]
) -> tuple[int, list[_Range], list[list[Any]]] | None:
    """Return the chunks that a move reads, by axis of the result; None unless the axes are independent."""
    runs, first = {run.axis: run for run in part.runs}, part.first
    if not part.is_within_rows or len(runs) < len(part.runs) or any(run.step != 1 for run in part.runs):
        return None
    fixed = [_range(bounds[part.operand][k], at, at + 1) for k, at in enumerate(first)]
    by_axis: list[list[Any]] = []
    seen: set[int] = set()
    for axis in range(len(output_bounds)):
        run = runs.get(axis)
        count = 1 if run is None else run.size
        moving = [] if run is None else [(s, step) for s, step in enumerate(run.ways) if step]
        if seen & {s for s, _ in moving}:
            return None
        seen |= {s for s, _ in moving}
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
                ranges.append((s, _range(bounds[part.operand][s], min(ends), max(ends) + 1)))
            spans.append(tuple(ranges))
        by_axis.append(spans)
    return part.operand, fixed, by_axis
