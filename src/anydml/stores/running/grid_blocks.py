"""Blocks of chunked arrays: the boxes of a block are read, then its chunks are moved and written."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from anydml.files.located import MAX_REQUESTS
from anydml.moves.simplify import simplify
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Array, Store
from anydml.stores.formats.target import Target
from anydml.stores.formats.zarr_array import ZarrStore, know_fill
from anydml.stores.formats.zarr_strings import holds_strings, strings_within
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.planning.base_plan import BasePlan
from anydml.stores.planning.block_shapes import sizes_of, word
from anydml.stores.planning.grid_blocking import GridBlocking
from anydml.stores.planning.regions import InputBox
from anydml.stores.planning.transfers import LINE
from anydml.stores.running.block_flow import BlockFlow
from anydml.stores.running.blocks_writer import BlocksWriter
from anydml.stores.running.chunk_reader import ChunkReader
from anydml.stores.running.chunk_writer import ChunkWriter
from anydml.stores.running.files import Task
from anydml.stores.running.plain_arrays import PlainWriter
from anydml.stores.running.spilled_chunks import SpilledChunks
from anydml.tensor import Layout

UNIT = 8 << 20
"""Bytes of a part of a block that one thread moves and writes to a plain file."""


class BoxWriter(Protocol):
    """Writes an array box by box.

    Attributes:
        fill: bytes of an element outside the array.
    """

    fill: bytes

    def parts(self, box: Box) -> Iterator[tuple[Sequence[Any], Box, tuple[int, ...]]]:
        """Yield the parts of a box that are moved together: for each part, names, box, and shape of the packed buffer.

        The buffer has the parts, of which all have one size, one after the other.
        """

    def write(self, parts: Sequence[Any], flat: Array) -> None:
        """Write parts from their buffer."""


class GridBlocks(BlocksWriter):
    """Writes blocks of chunked arrays, in order, with all threads.

    Args:
        plan: the plan, whose outputs are in staging.
        folder: the folder for kept decoded chunks.
        part: returns the path of a file or folder until it gets its name.
        begun: waits until the outputs have been begun; it is called before anything is written.
    """

    def __init__(
        self,
        plan: BasePlan,
        folder: Path,
        part: Callable[[Path], Path],
        begun: Callable[[], object] = lambda: None,
    ) -> None:
        if not isinstance(plan.blocking, GridBlocking):
            raise AssertionError("the plan is between plain files")
        self.plan, self._folder, self._blocking, self._begun = plan, folder, plan.blocking, begun
        super().__init__(plan.threads, self._blocking.shares.buffers)
        self._rooms = [np.empty(plan.totals.block_bytes, np.uint8) for _ in range(self._blocking.shares.held)]
        with ExitStack() as undone:
            undone.enter_context(self._resources)
            if self._blocking.shares.texts:
                self._resources.exit_stack.enter_context(strings_within(self._blocking.shares.texts))
                for array in (*plan.inputs, *plan.outputs):
                    if holds_strings(array.dtype):
                        # The plan may be from another process, which alone has the texts of fill values.
                        know_fill(array.metadata)
            self._readers = [
                self._reader(input_number, store, folder) for input_number, store in enumerate(plan.inputs)
            ]
            self._writers = [self._writer(target, part) for target in plan.outputs]
            undone.pop_all()

    def _reader(self, input_number: int, store: Store | ZarrStore, folder: Path) -> ChunkReader:
        spilled_chunks = None
        if input_number in self._blocking.kept:
            areas, blocks = self._blocking.kept_boxes.areas(input_number, len(store.shape))
            memory = self._blocking.waiting_bytes // len(self._blocking.kept)
            spilled_chunks = SpilledChunks(folder, store.layout, areas, blocks, memory)
            self._resources.exit_stack.callback(spilled_chunks.close)
        file, store = self._resources.array_file(store) if isinstance(store, Store) else (None, store)
        return ChunkReader(store, self._blocking.shares.span, spilled_chunks, self._resources.buffers, file)

    def _writer(self, target: Target | ZarrTarget, part: Callable[[Path], Path]) -> BoxWriter:
        if isinstance(target, ZarrTarget):
            writer = ChunkWriter(target, part(target.path), self._folder, self._blocking.shares.need)
            self._resources.exit_stack.callback(writer.close)
            return writer
        return PlainWriter(self._resources.file(part(target.path), True), target, self._unit)

    @property
    def _unit(self) -> int:
        """Maximum size in bytes of a part that is written to a plain file."""
        return min(UNIT, max(self._blocking.shares.need, 1))

    def write(self, numbers: Iterable[int], finished: Callable[[int, int], None]) -> None:
        """See `BlocksWriter.write`."""
        flow = BlockFlow(
            numbers,
            self._rooms,
            self._begin,
            lambda block_number: finished(block_number, self._blocking.block_bytes(block_number)),
            max_tasks=(MAX_REQUESTS, min(MAX_REQUESTS, self._blocking.shares.buffers)),
            # Chunks are kept for the blocks after the one that reads them.
            in_turn=bool(self._blocking.kept),
            was_read=self._release,
        )
        self._resources.together(flow.tasks(), flow.stop)

    def _begin(self, block_number: int, room: Array) -> tuple[Iterator[Task], Iterator[Task]]:
        """Return the tasks that read a block, and the tasks that write the block after it was read."""
        output, _, box = self._blocking.blocks[block_number]
        regions = self._blocking.regions(output, box)
        arrays = self._box_arrays(regions, room)
        return self._reads(block_number, regions, arrays), self._writes(block_number, regions, arrays)

    def _release(self, block_number: int) -> None:
        """Release the chunks that no block after this one reads."""
        output, _, box = self._blocking.blocks[block_number]
        for operand in {region.operand for region in self._blocking.regions(output, box)}:
            self._readers[operand].release(block_number)

    def _reads(self, block_number: int, regions: Sequence[InputBox], arrays: Sequence[Array]) -> Iterator[Task]:
        counts = Counter[int]()
        for region, out in zip(regions, arrays, strict=True):
            yield from self._readers[region.operand].reads(region.box, out, block_number, counts[region.operand])
            counts[region.operand] += 1

    def _writes(self, block_number: int, regions: Sequence[InputBox], arrays: Sequence[Array]) -> Iterator[Task]:
        self._begun()
        output, _, box = self._blocking.blocks[block_number]
        for names, part_box, shape in self._writers[output].parts(box):
            yield partial(self._part, output, names, part_box, shape, regions, arrays)

    def _box_arrays(self, regions: Sequence[InputBox], room: Array) -> list[Array]:
        """Return arrays for boxes, in memory that all blocks reuse, because fresh pages cost more than the moves."""
        arrays, offset = [], 0
        for region in regions:
            word_dtype = word(self.plan.inputs[region.operand].dtype.itemsize)
            shape = sizes_of(region.box)
            size = math.prod(shape) * word_dtype.itemsize
            if offset + size > room.size:
                arrays.append(np.empty(shape, word_dtype))
                continue
            arrays.append(room[offset : offset + size].view(word_dtype).reshape(shape))
            offset += -(-size // LINE) * LINE
        return arrays

    def _part(
        self,
        output: int,
        names: Sequence[Any],
        output_box: Box,
        shape: tuple[int, ...],
        regions: Sequence[InputBox],
        arrays: Sequence[Array],
    ) -> None:
        """Move the elements of parts of a block from boxes of inputs in memory, and write each."""
        writer, word_dtype = self._writers[output], word(self.plan.outputs[output].dtype.itemsize)
        with self._resources.buffers.lent(math.prod(shape) * word_dtype.itemsize) as flat:
            blocking, strides = self._blocking, Layout.packed(shape, word_dtype.itemsize).strides
            mapping = blocking.mappings[output]
            parts = mapping.parts_writing(output_box)
            all_moves, constants = mapping.between(
                parts, blocking.cell_of, output_box, strides, regions, arrays, blocking.constants
            )
            if sizes_of(output_box) != shape:
                flat.view(word_dtype)[...] = np.frombuffer(writer.fill, word_dtype)[0]
            elif sum(part.bytes_written for part in parts) < flat.size:
                flat[:] = 0
            moves = tuple(move for move in simplify(all_moves) if 0 not in move.sizes)
            operands: list[Any] = [*(array.reshape(-1).view(np.uint8) for array in arrays), flat, *constants]
            self._move(moves, operands)
            writer.write(names, flat)
