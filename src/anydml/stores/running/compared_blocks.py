"""Blocks that are compared with existing outputs instead of being written."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from anydml.files.located import MAX_REQUESTS
from anydml.moves import Program
from anydml.stores.formats.chunk_grid import Box, ChunkGrid
from anydml.stores.formats.store import Array, Store
from anydml.stores.formats.target import NewFile, Target
from anydml.stores.formats.zarr_array import ZarrStore
from anydml.stores.formats.zarr_strings import holds_strings, strings_of
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.planning.base_plan import BasePlan
from anydml.stores.planning.block_list import MAX_CHUNKS
from anydml.stores.planning.block_shapes import block_count, sizes_of, split_box, word
from anydml.stores.planning.grid_blocking import GridBlocking
from anydml.stores.planning.identities import check_unchanged, identities_of_stores
from anydml.stores.running.buffers import Buffers
from anydml.stores.running.chunk_reader import ChunkReader
from anydml.stores.running.files import RunResources
from anydml.stores.running.grid_blocks import GridBlocks


@dataclass(frozen=True)
class Unequal:
    """The differing elements of an array.

    Attributes:
        index: the index of the first one, in C order.
        values: the values of both arrays there, as strings.
        count: number of elements that differ.
    """

    index: tuple[int, ...]
    values: tuple[str, str]
    count: int


def compare(
    program: Program,
    inputs: Sequence[Store | ZarrStore],
    outputs: Sequence[Store | ZarrStore],
    dtypes: Sequence[np.dtype[Any]],
    memory: int,
    advance: Callable[[int], None],
) -> list[Unequal | None]:
    """Compare the results of a program with existing arrays.

    Args:
        program: the program, with unsimplified moves.
        inputs: the inputs of the program.
        outputs: the existing arrays, with the shapes of its outputs.
        dtypes: the dtypes of the elements that the program moves; those of `outputs` may differ in byte order.
        memory: bytes of all buffers together.
        advance: called with the bytes of each part that was compared.

    Returns:
        For each output, the differing elements, or None.

    Raises:
        ModelError: a file cannot be read or decoded.
        BindingError: the memory is too small, or a file has changed meanwhile.
    """
    # A comparison holds a chunk of each side.
    plan = BasePlan(program, inputs, [*map(_target, outputs)], memory * 3 // 4, is_apart=False)
    if not isinstance(plan.blocking, GridBlocking):
        plan.blocking = GridBlocking(program, inputs, plan.outputs, memory * 3 // 4 - program.constant_bytes)
    identities = identities_of_stores(program.name, [*inputs, *outputs])
    with (
        tempfile.TemporaryDirectory(prefix="anydml-") as folder,
        _ComparedBlocks(plan, [*zip(outputs, dtypes, strict=True)], Path(folder)) as blocks,
    ):
        blocks.write(range(len(plan.blocks)), lambda _, size: advance(size))
        differences = [comparer.found for comparer in blocks.comparers]
    check_unchanged(program.name, identities)
    return differences


def _target(store: Store | ZarrStore) -> Target | ZarrTarget:
    """Return a target in the form of a store, which is not written."""
    if isinstance(store, ZarrStore):
        # Chunks of varying sizes do not divide an array into equal blocks.
        grid = replace(store.layout, edges=None)
        if grid.shard is not None and block_count(grid.shape, grid.chunk) <= MAX_CHUNKS:
            # Comparisons need not be of whole shards.
            grid = replace(grid, shard=None, index=None)
        return ZarrTarget(store.path, grid, store.metadata)
    return Target(NewFile(store.path, b"", 0), "", store.shape, store.dtype, store.offset)


class _ComparedBlocks(GridBlocks):
    """Compares blocks of a plan.

    Args:
        plan: a plan that was not begun.
        outputs: arrays that its outputs are compared with, and dtypes of the moved elements.
        folder: the folder for kept decoded chunks.
    """

    def __init__(
        self, plan: BasePlan, outputs: Sequence[tuple[Store | ZarrStore, np.dtype[Any]]], folder: Path
    ) -> None:
        self._stores = {store.path: (store, dtype) for store, dtype in outputs}
        self.comparers: list[_Comparer] = []
        super().__init__(plan, folder, lambda path: path)

    def _writer(self, target: Target | ZarrTarget, part: Callable[[Path], Path]) -> Any:
        comparer = _Comparer(
            *self._stores[target.path], target.layout, self._blocking.shares.span, self._unit, self._resources
        )
        self.comparers.append(comparer)
        return comparer


class _Comparer:
    """Compares parts of an array with those in a store."""

    def __init__(
        self,
        store: Store | ZarrStore,
        moved: np.dtype[Any],
        grid: ChunkGrid,
        span: int,
        unit: int,
        resources: RunResources,
    ) -> None:
        self.grid = grid
        self.found: Unequal | None = None
        self._dtype, self._moved, self._unit, self._lock = store.dtype, moved, unit, threading.Lock()
        self.fill = bytes(store.dtype.itemsize)
        file, store = resources.array_file(store) if isinstance(store, Store) else (None, store)
        self._reader = ChunkReader(store, span, None, Buffers(MAX_REQUESTS), file)

    def parts(self, box: Box) -> Iterator[tuple[Sequence[Box], Box, tuple[int, ...]]]:
        """See `BoxWriter.parts`."""
        if self.grid.is_one:
            yield from (([part], part, sizes_of(part)) for part in split_box(box, self._dtype.itemsize, self._unit))
        else:
            yield from (
                ([chunk_box], chunk_box, sizes_of(chunk_box))
                for chunk_box in map(self.grid.box, self.grid.intersecting(box))
            )

    def write(self, parts: Sequence[Box], flat: Array) -> None:
        """Compare a part from its buffer."""
        (part,) = parts
        word_dtype, shape = word(self._dtype.itemsize), sizes_of(part)
        stored = np.empty(shape, word_dtype)
        for task in self._reader.reads(part, stored):
            task()
        computed = flat.view(word_dtype).reshape(shape)
        if self._moved != self._dtype:
            computed = computed.view(self._moved).astype(self._dtype).view(word_dtype)
        rows = [np.ravel(rows_here).view(np.uint8).reshape(-1, word_dtype.itemsize) for rows_here in (computed, stored)]
        differing = rows[0] != rows[1]
        if not differing.any():
            return
        indices = np.flatnonzero(differing.any(1))
        local = np.unravel_index(int(indices[0]), shape)
        index = tuple(int(k) + low for k, (low, _) in zip(local, part, strict=True))
        ends = [data[local].tobytes() for data in (computed, stored)]
        pair = [np.frombuffer(end, self._dtype) for end in ends]
        values = [
            repr(str(strings_of(value)[0])[:80]) if holds_strings(self._dtype) else str(value[0]) for value in pair
        ]
        if values[0] == values[1]:
            values = [end.hex()[:80] for end in ends]
        with self._lock:
            first = earlier = self.found
            if first is None or index < first.index:
                first = Unequal(index, (values[0], values[1]), 0)
            self.found = replace(first, count=indices.size + (earlier.count if earlier else 0))
