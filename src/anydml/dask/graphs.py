"""Task graphs: the input chunks that each chunk of a result reads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml.dask.chunk_bounds import Bounds
from anydml.dask.chunk_choice import (
    SMALL_CHUNK,
    CoordinateMove,
    InputChunks,
    PickChunks,
    choose_bounds,
)
from anydml.dask.chunk_needs import Chunk, chunk_needs
from anydml.dask.chunk_reads import ChunkGrid, ChunkIndex
from anydml.dask.chunk_tasks import ChunkBuilder
from anydml.errors import BindingError
from anydml.moves.composer import INPUT, Composer
from anydml.moves.value import Value
from anydml.stores.planning.regions import RegionMap
from anydml.tensor import Layout
from anydml.text import bytes_text, parse_size

MEMORY = "1GB"
"""Maximum memory of a task, unless Dask's configuration sets ``anydml.memory``."""

MAX_TASK_CHUNKS = 4
"""Maximum memory of a task, in chunks of the input or of the result, whichever is larger."""


LAZY_INDICES = "indices are a Dask array: their elements decide which chunks a task needs, so pass indices.compute()"
"""Why indices may not be a Dask array."""


def lazy_array(name: str, composer: Composer, value: Value, dtype: np.dtype[Any], inputs: Sequence[Any]) -> Any:
    """Return the Dask array of a traced value.

    Args:
        name: the function's name in error messages and task keys.
        composer: composed `value`; names its operands.
        value: the result; its inputs have packed strides.
        dtype: the dtype of the result.
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
            raise BindingError(f"{name}: {LAZY_INDICES}", name)
        return elements

    layouts = [Layout.packed(tuple(map(int, array.shape)), array.dtype.itemsize) for array in inputs]
    grids = [
        ChunkGrid(layout, tuple(map(_bounds, array.chunks))) for layout, array in zip(layouts, inputs, strict=True)
    ]
    packed = Layout.packed(value.sizes, value.element_size)
    hint = "convert the Dask arrays by .compute(), and pass the results"
    mapping = RegionMap(program, len(inputs), packed, layouts, indices, hint)
    limit = parse_size(dask.config.get("anydml.memory", MEMORY), "Dask's setting anydml.memory")
    needs, groups, output_bounds = _within_memory(name, mapping, grids, limit)
    declared = [(composer.operand(INPUT + k).name, array.dtype) for k, array in enumerate(inputs)]
    builder = ChunkBuilder(name, mapping, output_bounds, grids, declared, np.dtype(dtype), constants)
    names = [operand.name for operand in inputs]
    moves = [*mapping.moves, *(move for move, _, _ in mapping.picks)]
    token = tokenize(
        name, repr(moves), [*value.sizes], names, output_bounds, limit, str(dtype), list(constants.values())
    )
    key = f"anydml-{name.lower().strip('<>')}-{token}"
    shared, pieces = f"{key}-program", f"{key}-piece"
    graph: dict[Any, Any] = {shared: DataNode(shared, builder)}
    shared_task = TaskRef(shared)
    for chunk_index, chunks in needs.items():
        task_key = (key, *chunk_index)
        if chunk_index not in groups:
            refs = [TaskRef((names[operand], *chunk)) for operand, chunk in chunks]
            graph[task_key] = Task(task_key, _chunk, shared_task, chunk_index, tuple(chunks), *refs)
            continue
        keys = [(pieces, *chunk_index, k) for k in range(len(groups[chunk_index]))]
        for piece, group in zip(keys, groups[chunk_index], strict=True):
            refs = [TaskRef((names[operand], *chunk)) for operand, chunk in group]
            graph[piece] = Task(piece, _piece, shared_task, chunk_index, group, *refs)
        graph[task_key] = Task(task_key, _assemble, shared_task, chunk_index, groups[chunk_index], *map(TaskRef, keys))
    used = {operand for chunks in needs.values() for operand, _ in chunks}
    layers = HighLevelGraph.from_collections(key, graph, dependencies=[inputs[k] for k in sorted(used)])
    sizes = tuple(tuple(b - a for a, b in itertools.pairwise(axis)) or (0,) for axis in output_bounds)
    return Array(layers, key, sizes, dtype=dtype)


def _chunk(builder: ChunkBuilder, chunk_index: ChunkIndex, chunks: tuple[Chunk, ...], *arrays: Any) -> Any:
    return builder.chunk(chunk_index, chunks, arrays)


def _piece(builder: ChunkBuilder, chunk_index: ChunkIndex, chunks: tuple[Chunk, ...], *arrays: Any) -> Any:
    return builder.piece(chunk_index, chunks, arrays)


def _assemble(
    builder: ChunkBuilder, chunk_index: ChunkIndex, groups: tuple[tuple[Chunk, ...], ...], *pieces: Any
) -> Any:
    return builder.assemble(chunk_index, groups, pieces)


def _bounds(sizes: Sequence[int]) -> Bounds:
    return (0, *itertools.accumulate(int(size) for size in sizes))


def _within_memory(
    name: str, mapping: RegionMap, grids: Sequence[ChunkGrid], limit: int
) -> tuple[dict[ChunkIndex, Sequence[Chunk]], dict[ChunkIndex, tuple[tuple[Chunk, ...], ...]], tuple[Bounds, ...]]:
    """Choose chunks for the result, halving axes until no task needs more than `limit` bytes.

    Returns:
        The chunks that each chunk of the result reads; in groups, where one task cannot read all; and all bounds.
    """
    parts = [*map(partial(CoordinateMove.of, mapping), mapping.moves)]
    bounds = [tuple(axis_cells.bounds) for axis_cells in grids]
    inputs = [*map(InputChunks.of, mapping.inputs, bounds)]
    output_bounds = choose_bounds(mapping.output.sizes, parts, PickChunks.of_map(mapping, inputs), inputs)
    largest = max(
        [math.prod(input_chunks.chunk) * input_chunks.layout.element_size for input_chunks in inputs], default=0
    )
    while True:
        needs: dict[ChunkIndex, Sequence[Chunk]] = {}
        groups: dict[ChunkIndex, tuple[tuple[Chunk, ...], ...]] = {}
        worst = 0, ()  # type: tuple[int, ChunkIndex]
        for chunk_index, written, chunks, read in chunk_needs(mapping, parts, output_bounds, grids):
            room, chunk_bytes = min(limit, max(MAX_TASK_CHUNKS * max(largest, written), SMALL_CHUNK)), written + read
            needs[chunk_index] = chunks
            if chunk_bytes > room and len(chunks) > 1:
                groups[chunk_index], chunk_bytes = _group(grids, written, chunks, room)
            if chunk_bytes > worst[0]:
                worst = chunk_bytes, chunk_index
        if worst[0] <= limit:
            return needs, groups, tuple(output_bounds)
        chunk_index = worst[1]
        chunk_bytes = max([grids[operand].size(chunk) for operand, chunk in needs[chunk_index]], default=0)
        if chunk_bytes + mapping.output.element_size > limit:
            raise BindingError(
                f"{name}: a task needs a whole chunk of {bytes_text(chunk_bytes)}, and memory for its result, but "
                f"anydml.memory is {bytes_text(limit)}: rechunk the inputs, or raise it by "
                "dask.config.set({'anydml.memory': …})"
            )
        _, axis = max(
            (axis[k + 1] - axis[k], result_axis)
            for result_axis, (axis, k) in enumerate(zip(output_bounds, chunk_index, strict=True))
        )
        output_bounds[axis] = tuple(
            sorted({*output_bounds[axis], *((a + b) // 2 for a, b in itertools.pairwise(output_bounds[axis]))})
        )


def _group(
    grids: Sequence[ChunkGrid], written: int, chunks: Sequence[Chunk], room: int
) -> tuple[tuple[tuple[Chunk, ...], ...], int]:
    """Divide chunks among tasks, each of which picks a piece; a final task assembles the pieces.

    Args:
        grids: chunks of the inputs.
        written: bytes of the result's chunk.
        chunks: the chunks that the result's chunk reads.
        room: the memory of a task, in bytes.

    Returns:
        The chunks of each task, and the bytes that the largest task needs.
    """
    groups: list[list[Chunk]] = []
    largest = room_left = 0
    for operand, chunk_index in chunks:
        size = grids[operand].size(chunk_index)
        if size > room_left:
            groups.append([])
            room_left = room // MAX_TASK_CHUNKS
        groups[-1].append((operand, chunk_index))
        room_left -= size
        largest = max(largest, room // MAX_TASK_CHUNKS - room_left)
    return tuple(map(tuple, groups)), written + max(written, largest)
