"""Running plans: blocks are read, moved and written, several at once, by requests at places in files."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from anydml.engines import array_engine
from anydml.memory.host import address_of
from anydml.moves import Move, Operand, Program
from anydml.moves.program import renumbered
from anydml.stores.planning.blocks import BlockIO
from anydml.stores.planning.file_blocking import SPARE, FileBlocking
from anydml.stores.planning.intervals import Interval
from anydml.stores.planning.planned import Planned
from anydml.stores.planning.transfers import Spans, Transfer
from anydml.stores.running.writers import BlocksWriter

Bytes = np.ndarray[Any, Any]

MOST_COMPILED = 256
"""Programs of blocks that are kept; blocks inside a tensor are mostly alike."""


class FileBlocks(BlocksWriter):
    """Writes blocks of a plan, several at once.

    Args:
        plan: whose outputs have been begun.
        part: where a file lies until it has its name.
    """

    is_writing = True
    """Whether outputs are opened to be written."""

    def __init__(self, plan: Planned, part: Callable[[Path], Path]) -> None:
        super().__init__(plan.threads)
        self.plan = plan
        blocking = plan.blocking
        if not isinstance(blocking, FileBlocking):
            raise AssertionError("the plan is not between plain files")
        self._blocking, self._layouts = blocking, blocking.layouts()
        self._compiled: dict[tuple[Move, ...], Any] = {}
        self._slots: queue.SimpleQueue[np.ndarray[Any, Any]] = queue.SimpleQueue()
        with ExitStack() as undone:
            undone.enter_context(self._opened)
            self._files = {k: (self._file(each, part), each.offset) for k, each in blocking.intervals.items()}
            for _ in range(plan.threads):
                self._slots.put(_buffer(plan.totals.block_bytes))
            undone.pop_all()

    def _file(self, interval: Interval, part: Callable[[Path], Path]) -> Any:
        """What an interval's bytes are read from, or written to."""
        if interval.outputs:
            return self._opened.file(part(interval.path), self.is_writing)
        return self._opened.file(interval.path)

    def write(self, numbers: Iterable[int], finished: Callable[[int, int], None]) -> None:
        """As `BlocksWriter.write`."""
        self._opened.together(partial(self._block, number, finished) for number in numbers)

    def _block(self, number: int, finished: Callable[[int, int], None]) -> None:
        slot = self._slots.get()
        try:
            finished(number, self._done(number, slot))
        finally:
            self._slots.put(slot)

    def _done(self, number: int, slot: np.ndarray[Any, Any]) -> int:
        """Read, move and write a block; its bytes."""
        block = self._blocking.blocks[number]
        work = self._blocking.works[block.work]
        layout = self._layouts.of(block.work, block.operand, block.area)
        first = layout.sizes[0]
        read, written = slot[:first], slot[first : first + layout.sizes[1]]
        if not layout.is_covered:
            written[:] = 0
        for transfer in layout.reads:
            self._transfer(transfer, written if transfer.is_direct else read, True)
        if layout.moves:
            constants = [work.constants[k] for k in work.held]
            self._move(layout.moves, [read, *constants, written])
        if layout.copied is not None:
            layout.copied.run(read, written)
        self._write(number, layout, read, written)
        return sum(each.bytes for each in layout.writes)

    def _write(self, number: int, layout: BlockIO, read: Bytes, written: Bytes) -> None:
        """Write a block's buffers; comparisons do something else with them."""
        for transfer in layout.writes:
            self._transfer(transfer, read if transfer.is_direct else written, False)

    def _move(self, moves: tuple[Move, ...], operands: list[np.ndarray[Any, Any]]) -> None:
        # Two threads may make the same at the same time; either serves.
        found = self._compiled.get(moves)
        if found is None:
            if len(self._compiled) >= MOST_COMPILED:
                self._compiled.clear()
            found = array_engine("plan", ()).compile_program(_program(moves, len(operands) - 2))
            self._compiled[moves] = found
        found.run(operands)

    def _transfer(self, transfer: Transfer | Spans, buffer: np.ndarray[Any, Any], is_read: bool) -> None:
        file, base = self._files[transfer.operand]
        places = (transfer.file + base).tolist()
        view, request = buffer.data, file.read if is_read else file.write
        if isinstance(transfer, Spans):
            for at, start, size in zip(places, transfer.buffer.tolist(), transfer.lengths.tolist(), strict=True):
                request(view[start : start + size], at)
            return
        length = transfer.length
        if transfer.runs > 1:
            several = file.read_runs if is_read else file.write_runs
            for at, starts in zip(places, transfer.buffer.reshape(-1, transfer.runs), strict=True):
                several(buffer, starts, length, at)
            return
        for at, start in zip(places, transfer.buffer.tolist(), strict=True):
            request(view[start : start + length], at)


def _program(moves: tuple[Move, ...], constants: int) -> Program:
    """A block's program: from what was read and constants to what is written."""
    names = ("what was read", *(f"constant {k}" for k in range(constants)))
    operands = (*(Operand("input", name) for name in names), Operand("output", "what is written"))
    numbers = {0: 0, 1: constants + 1, **{2 + k: 1 + k for k in range(constants)}}
    return Program("a block", operands, tuple(renumbered(move, numbers) for move in moves))


def _buffer(size: int) -> np.ndarray[Any, Any]:
    """Bytes that begin on a line of the cache."""
    whole = np.empty(size + SPARE, np.uint8)
    start = -address_of(whole) % SPARE
    return whole[start : start + size]
