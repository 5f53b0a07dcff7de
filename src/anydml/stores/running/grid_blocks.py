"""Blocks of arrays in chunks: all threads read the boxes of a block, then move and write its chunks."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from anydml.moves.simplify import simplify
from anydml.stores.formats.store import Box, Store
from anydml.stores.formats.target import Target
from anydml.stores.formats.zarr_array import ZarrStore
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.planning.box_requests import packed, parts, word
from anydml.stores.planning.grid_blocking import GridBlocking
from anydml.stores.planning.planned import Planned
from anydml.stores.planning.regions import InputBox, run_moves
from anydml.stores.planning.transfers import LINE
from anydml.stores.running.boxes import read_box, write_box
from anydml.stores.running.chunk_files import ChunkReader, ChunkWriter
from anydml.stores.running.files import PlainFile, Task
from anydml.stores.running.staging import Staging
from anydml.stores.running.writers import BlocksWriter

Array = np.ndarray[Any, np.dtype[Any]]

UNIT = 8 << 20
"""Bytes of a part of a block that one thread moves and writes to a plain file."""


class GridBlocks(BlocksWriter):
    """Writes blocks of arrays in chunks, one after the other, each with all threads.

    Args:
        plan: whose outputs have been begun.
        staging: of the plan; decoded chunks are kept in its folder.
    """

    def __init__(self, plan: Planned, staging: Staging) -> None:
        super().__init__(plan.threads)
        self.plan = plan
        if not isinstance(plan.blocking, GridBlocking):
            raise AssertionError("the plan is between plain files")
        self._blocking = plan.blocking
        folder = staging.journal.parent
        self._room = np.empty(plan.totals.block_bytes, np.uint8)
        self._own = threading.local()
        with ExitStack() as undone:
            undone.enter_context(self._opened)
            self._readers = [self._reader(number, store, folder) for number, store in enumerate(plan.inputs)]
            self._writers = [self._writer(target, staging) for target in plan.outputs]
            undone.pop_all()

    def _reader(self, number: int, store: Store | ZarrStore, folder: Path) -> Any:
        if isinstance(store, Store):
            return self._opened.file(store.path)
        reader = ChunkReader(store, self._blocking.span, folder if number in self._blocking.kept else None)
        self._opened.more.callback(reader.close)
        return reader

    def _writer(self, target: Target | ZarrTarget, staging: Staging) -> Any:
        part = staging.part(target.path)
        return ChunkWriter(target.layout, part) if isinstance(target, ZarrTarget) else self._opened.file(part, True)

    def write(self, numbers: Iterable[int], finished: Callable[[int, int], None]) -> None:
        """As `BlocksWriter.write`."""
        for number in numbers:
            self._block(number)
            finished(number, self._blocking.block_bytes(number))

    def _block(self, number: int) -> None:
        output, box = self._blocking.blocks[number]
        regions = self._blocking.regions(output, box)
        held = self._held(regions)
        self._opened.together(
            task for region, out in zip(regions, held, strict=True) for task in self._reads(region, out)
        )
        self._opened.together(self._writes(output, box, regions, held))

    def _held(self, regions: Sequence[InputBox]) -> list[Array]:
        """Arrays for boxes, in memory that all blocks reuse, because fresh pages cost more than the moves."""
        found, at = [], 0
        for region in regions:
            kind = word(self.plan.inputs[region.operand].dtype.itemsize)
            size = math.prod(region.shape) * kind.itemsize
            if at + size > self._room.size:
                found.append(np.empty(region.shape, kind))
                continue
            found.append(self._room[at : at + size].view(kind).reshape(region.shape))
            at += -(-size // LINE) * LINE
        return found

    def _flat(self, size: int) -> Array:
        """A buffer of this thread, until its next call."""
        if getattr(self._own, "size", None) != size:
            self._own.size, self._own.flat = size, np.empty(size, np.uint8)
        flat: Array = self._own.flat
        return flat

    def _reads(self, region: InputBox, out: Array) -> Iterator[Task]:
        """Tasks that read a box."""
        store, reader = self.plan.inputs[region.operand], self._readers[region.operand]
        if not isinstance(store, Store):
            for chunk in store.layout.near(region.box):
                yield partial(reader.read, chunk, region.box, out)
            return
        shape, box, target = store.shape, region.box, out
        if store.fortran_order:
            shape, box, target = shape[::-1], box[::-1], out.T
        for part in parts([high - low for low, high in box], out.nbytes, max(self._blocking.span, 1 << 20)):
            own = tuple((low + a, low + b) for (low, _), (a, b) in zip(box, part, strict=True))
            place: Any = (*(slice(a, b) for a, b in part), ...)
            view = target[place]
            yield partial(read_box, reader, store.offset, shape, own, view, self._blocking.span)

    def _writes(self, output: int, box: Box, regions: Sequence[InputBox], held: Sequence[Array]) -> Iterator[Task]:
        """Tasks that each move and write a chunk, or a part of a plain file."""
        target, writer = self.plan.outputs[output], self._writers[output]
        if isinstance(target, ZarrTarget):
            for chunk in target.layout.near(box):
                yield partial(self._chunk, output, target, chunk, writer, regions, held)
            return
        sizes = [high - low for low, high in box]
        unit = min(UNIT, max(self._blocking.need, 1))
        for part in parts(sizes, math.prod(sizes) * target.dtype.itemsize, unit):
            own = tuple((low + a, low + b) for (low, _), (a, b) in zip(box, part, strict=True))
            yield partial(self._part, output, target, own, writer, regions, held)

    def _chunk(
        self,
        output: int,
        target: ZarrTarget,
        chunk: tuple[int, ...],
        writer: ChunkWriter,
        regions: Sequence[InputBox],
        held: Sequence[Array],
    ) -> None:
        layout = target.layout
        flat, own = self._flat(layout.chunk_bytes), layout.box(chunk)
        if any(high - low != size for (low, high), size in zip(own, layout.chunk, strict=True)):
            flat.view(word(layout.dtype.itemsize))[...] = np.frombuffer(layout.fill, word(layout.dtype.itemsize))[0]
        self._move(output, own, packed(layout.chunk, layout.dtype.itemsize), flat, regions, held)
        writer.write(chunk, flat)

    def _part(
        self,
        output: int,
        target: Target,
        own: Box,
        file: PlainFile,
        regions: Sequence[InputBox],
        held: Sequence[Array],
    ) -> None:
        shape, size = [high - low for low, high in own], target.dtype.itemsize
        flat = self._flat(math.prod(shape) * size)
        self._move(output, own, packed(shape, size), flat, regions, held)
        write_box(file, target.offset, target.shape, own, flat.view(word(size)).reshape(shape))

    def _move(
        self,
        output: int,
        own: Box,
        strides: Sequence[int],
        flat: Array,
        regions: Sequence[InputBox],
        held: Sequence[Array],
    ) -> None:
        """Move the elements of a box of an output from boxes of inputs in memory."""
        mapping = self._blocking.mappings[output]
        numbers: dict[int, int] = {}
        layouts = [(k, array.strides) for k, array in enumerate(held)]
        found = mapping.moves(mapping.within(own), strides, regions, layouts, len(regions), numbers)
        constants: list[Any] = [np.asarray(self._blocking.constants[number]) for number in numbers]
        moves = [move for move in simplify(found) if 0 not in move.sizes]
        operands: list[Any] = [*(array.reshape(-1).view(np.uint8) for array in held), flat, *constants]
        run_moves(moves, operands)
