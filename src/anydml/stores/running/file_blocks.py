"""Blocks of plain files: read, moved and written, one per thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from anydml.memory.host import address_of
from anydml.stores.formats.store import PAGE, Array
from anydml.stores.planning.base_plan import BasePlan
from anydml.stores.planning.blocks import BlockIO
from anydml.stores.planning.file_blocking import SPARE, FileBlocking
from anydml.stores.planning.intervals import Interval
from anydml.stores.planning.transfers import Transfer
from anydml.stores.running.blocks_writer import BlocksWriter
from anydml.stores.running.files import CastFile


class FileBlocks(BlocksWriter):
    """Writes blocks of plain files, one per thread.

    Args:
        plan: the plan, whose outputs are in staging.
        part: returns the path of a file until it gets its name.
    """

    is_writing = True
    """Whether outputs are opened for writing."""

    def __init__(self, plan: BasePlan, part: Callable[[Path], Path]) -> None:
        super().__init__(plan.threads, plan.threads)
        self.plan = plan
        blocking = plan.blocking
        if not isinstance(blocking, FileBlocking):
            raise AssertionError("the plan is not between plain files")
        self._blocking, self._block_ios = blocking, blocking.block_ios()
        with ExitStack() as undone:
            undone.enter_context(self._resources)
            part = cache(part)
            self._files = {
                k: (self._file(interval, part), interval.offset) for k, interval in blocking.intervals.items()
            }
            undone.pop_all()

    def _file(self, interval: Interval, part: Callable[[Path], Path]) -> Any:
        """Return the file of an interval."""
        if interval.output is not None:
            return self._resources.file(part(interval.path), self.is_writing)
        file = self._resources.file(interval.path)
        return file if interval.cast is None else CastFile(file, interval.cast)

    def write(self, numbers: Iterable[int], finished: Callable[[int, int], None]) -> None:
        """See `BlocksWriter.write`."""
        self._resources.together(partial(self._block, block_number, finished) for block_number in numbers)

    def _block(self, block_number: int, finished: Callable[[int, int], None]) -> None:
        """Read, move and write a block."""
        with self._resources.buffers.lent(self.plan.totals.block_bytes + self._blocking.spare - SPARE) as slot:
            block = self._blocking.blocks[block_number]
            distinct_number, operands = self._blocking.groups[block.group]
            io = self._block_ios(block.group, block.operand, block.area)
            read, written = slot[: io.sizes[0]], self._written(operands, io, slot)
            if not io.is_covered:
                written[:] = 0
                self._fill(operands, io.writes[0], written)
            for transfer in io.reads:
                self._transfer(operands, transfer, written if transfer.is_direct else read, True)
            constants = (
                self._blocking.constants[operands[k]] for k in self._blocking.distinct[distinct_number].constants
            )
            self._move(io.moves, [read, written, *constants])
            if io.copied is not None:
                io.copied.run(read if read.size else written, written)
            for transfer in io.known:
                self._fill(operands, transfer, written)
            self._write(block_number, io, read, written)
            finished(block_number, sum(write.bytes for write in io.writes))

    def _fill(self, operands: Sequence[int], transfer: Transfer, written: Array) -> None:
        """Copy the known bytes between arrays, such as headers, into the write buffer of a block."""
        interval_number = operands[transfer.operand]
        if (output := self._blocking.intervals[interval_number].output) is None:
            return
        known_bytes, base = self.plan.outputs[output].file.known_bytes, self._files[interval_number][1]
        known_bytes.put(transfer.file_offsets + base, transfer.buffer_offsets, transfer.lengths, written)

    def _written(self, operands: Sequence[int], io: BlockIO, slot: Array) -> Array:
        """Return a part of the write buffer in which whole pages of the file are whole pages of memory.

        Elements, which have up to 16 bytes, stay aligned.
        """
        first, transfer = io.sizes[0], io.writes[0]
        page = int(transfer.file_offsets[0]) - (0 if transfer.is_direct else int(transfer.buffer_offsets[0]))
        offset = page + self._files[operands[transfer.operand]][1] - address_of(slot) - first
        first += 0 if offset % 16 or self._blocking.spare == SPARE else offset % PAGE
        return slot[first : first + io.sizes[1]]

    def _write(self, interval_number: int, io: BlockIO, read: Array, written: Array) -> None:
        """Write the buffers of a block."""
        operands = self._blocking.groups[self._blocking.blocks[interval_number].group].operands
        for transfer in io.writes:
            self._transfer(operands, transfer, read if transfer.is_direct else written, False)

    def _transfer(self, operands: Sequence[int], transfer: Transfer, buffer: Array, is_read: bool) -> None:
        file, base = self._files[operands[transfer.operand]]
        places = (transfer.file_offsets + base).tolist()
        view, request = buffer.data, file.read if is_read else file.write
        if transfer.counts is not None:
            transfer_runs, ends = file.read_runs if is_read else file.write_runs, np.cumsum(transfer.counts)[:-1]
            runs = zip(np.split(transfer.buffer_offsets, ends), np.split(transfer.lengths, ends), strict=True)
            for offset, (starts, lengths) in zip(places, runs, strict=True):
                transfer_runs(buffer, starts, lengths, offset)
            return
        for offset, start, size in zip(
            places, transfer.buffer_offsets.tolist(), transfer.lengths.tolist(), strict=True
        ):
            request(view[start : start + size], offset)
