"""Blocks of plain files: intervals of bytes, or rectangles of files that are treated as rows of equal length."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from anydml.errors import BindingError
from anydml.files.located import real_path
from anydml.moves import Program, simplify
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import PAGE, Store
from anydml.stores.formats.targets import Targets
from anydml.stores.planning.block_list import MORE_MEMORY, BlockList, check_count
from anydml.stores.planning.block_shapes import block_count, boxes_of, size_of
from anydml.stores.planning.blocking import MAX_COUNTED_BLOCKS, SAMPLED_BLOCKS, THREADS, Blocking, Summary, Totals
from anydml.stores.planning.blocks import BlockIO, Cut, block_io
from anydml.stores.planning.choosing import blocks_of, choose_cut
from anydml.stores.planning.copies import RunCopies
from anydml.stores.planning.interval_unions import IntervalUnion
from anydml.stores.planning.intervals import Interval, widening_of
from anydml.stores.planning.move_groups import move_groups_of
from anydml.stores.planning.regions import BY_FILE
from anydml.stores.planning.repeated_moves import CompactProgram, RepeatedMoves
from anydml.stores.planning.row_copies import RowCopies
from anydml.text import bytes_text, count_noun, rounded_up

MAX_KEPT = 64
"""Maximum number of blocks whose requests are cached for equal groups."""

MAX_PLACES = 8192
"""Maximum number of offsets of a block whose requests are cached."""

SPARE = 64
"""Bytes of a cache line, to which buffers are aligned."""


class FileBlocking(Blocking):
    """The blocks of a program between plain files.

    Args:
        program: the program, whose inputs and outputs are addressed by bytes, in the order of the arrays.
        inputs: the stores.
        outputs: the targets.
        free: bytes for all buffers.
        max_divided: the maximum size in bytes of an output that shares blocks with others in other files, or None.

    Attributes:
        distinct: groups of moves that differ in more than their operands.
        cuts: the cut of each of them.
        groups: the groups of moves that have files in common.
        constants: bytes, by the numbers of operands.
        intervals: the places of operands in files, by number.
        spare: bytes of a block's buffers that are used for alignment.

    Raises:
        BindingError: the program needs scratch, or blocks would be too large or too many.
    """

    def __init__(
        self,
        program: Program | CompactProgram,
        inputs: Sequence[Store],
        outputs: Targets,
        free: int,
        max_divided: int | None = None,
    ) -> None:
        if isinstance(program, Program):
            moves = RepeatedMoves(simplify(program.moves), np.arange(len(inputs) + len(outputs))[None])
            program = CompactProgram(program.name, [moves], program.with_moves(moves.moves))
        self.name, self._program, self._inputs, self._outputs = program.name, program, inputs, outputs
        if program.program.scratch_bytes:
            reason = next(operand.reason for operand in program.program.operands if operand.role == "scratch")
            raise BindingError(f"{self.name}: a step needs its whole input at once ({reason}): {BY_FILE}")
        self.threads, self.spare = (THREADS, PAGE + SPARE) if free >= 1 << 20 else (1, SPARE)
        self.max_block_bytes = free // self.threads - self.spare
        read = {*{id(store.path): store.path for store in inputs}.values()}
        self._arrays = (
            f"{count_noun(len(inputs), 'array')} of {count_noun(len(read), 'file')} to "
            f"{count_noun(len(outputs), 'array')} of {count_noun(len(outputs.files), 'file')}"
        )
        self.distinct, self.groups, self.intervals, self.constants = move_groups_of(
            program, inputs, outputs, free, self.max_block_bytes, max_divided
        )
        self._cut()
        self._list_blocks(MAX_COUNTED_BLOCKS)

    @property
    def program(self) -> Program:
        """See `Blocking.program`."""
        return self._program.with_all_moves(self._inputs, self._outputs)

    def _cut(self) -> None:
        """Choose the cuts of all groups."""
        self.cuts: list[Cut] = []
        count, groups = 0, Counter(group.distinct_number for group in self.groups)
        widening = widening_of(interval.cast for interval in self.intervals.values())
        for distinct_number, group in enumerate(self.distinct):
            cut = choose_cut(group, self.max_block_bytes, widening)
            group.last_block.clear()
            if cut is None:
                size = more = self.max_block_bytes
                while choose_cut(group, more, widening) is None:
                    more *= 2
                # With more memory, there may be more threads.
                enough = THREADS * (more + PAGE + SPARE) + self._program.constant_bytes
                raise BindingError(
                    f"{self.name}: no way was found to move {self._outputs[0]!r} in blocks of {bytes_text(size)}: "
                    f"give more memory, {rounded_up(enough)} are enough"
                )
            self.cuts.append(cut)
            count += groups[distinct_number] * sum(
                block_count(cut.view(group.sizes[operand]).sizes, cut.block) for operand in group.operands(cut.side)
            )
            check_count(self.name, count, "blocks", MORE_MEMORY)

    def _list_blocks(self, max_counted: int | None) -> None:
        blocks, block_ios = BlockList(self.name, 2), self.block_ios()
        totals, largest = Counter[str](), 0
        covered: dict[Hashable, tuple[Interval, IntervalUnion]] = {}
        read: set[int] = set()
        self.is_estimate = False
        for group_number, (distinct_number, operands) in enumerate(self.groups):
            group, cut = self.distinct[distinct_number], self.cuts[distinct_number]
            for operand in group.operands(cut.side):
                counts = Counter[str]()
                grid = cut.view(group.sizes[operand]).sizes
                wholes: Iterable[Box] = boxes_of(grid, cut.block)
                total = looked = 1
                if max_counted is not None and block_count(grid, cut.block) > max_counted:
                    self.is_estimate, wholes = True, (sampled := [*boxes_of(grid, cut.block, SAMPLED_BLOCKS)])
                    total, looked = group.sizes[operand], sum(map(size_of, sampled))
                for block, io in blocks_of(group_number, operand, wholes, group, cut, self.max_block_bytes, block_ios):
                    blocks.append(block)
                    counts["blocks"] += 1
                    for transfer in io.reads:
                        counts["reads"] += transfer.file_offsets.size
                        read.add(operands[transfer.operand])
                        lies = self.intervals[operands[transfer.operand]]
                        counts["bytes_read"] += lies.bytes_in_file(transfer.bytes)
                        covered.setdefault((lies.path, lies.cast), (lies, IntervalUnion()))[1].add(
                            transfer.file_offsets + lies.offset, transfer.sizes
                        )
                    for transfer in io.writes:
                        counts["writes"] += transfer.file_offsets.size
                        counts["bytes_written"] += transfer.bytes
                    largest = max(largest, io.buffer_bytes)
                totals.update({noun: count_seen * total // looked for noun, count_seen in counts.items()})
        distinct = sum(lies.bytes_in_file(covered_file.size) for lies, covered_file in covered.values())
        if self.is_estimate:
            distinct = min(
                totals["bytes_read"], sum(self.intervals[k].bytes_in_file(self.intervals[k].size) for k in read)
            )
        totals["bytes_read_again"] = totals["bytes_read"] - distinct
        self.count = totals.pop("blocks", 0)
        self._blocks, self.totals = blocks, Totals(**totals, block_bytes=largest)

    def block_ios(self) -> Callable[[int, int, Box], BlockIO]:
        """Return a function that returns the requests and moves of a block, by its group, operand and area."""
        cached: dict[tuple[int, int, Box], BlockIO] = {}
        counts = Counter(group.distinct_number for group in self.groups)

        def io_of(group_number: int, operand: int, area: Box) -> BlockIO:
            distinct_number = self.groups[group_number].distinct_number
            io = cached.get((distinct_number, operand, area))
            if io is None:
                io = block_io(self.distinct[distinct_number], self.cuts[distinct_number], operand, area)
                if counts[distinct_number] > 1 and io.places <= MAX_PLACES:
                    if len(cached) == MAX_KEPT:
                        cached.clear()
                    cached[distinct_number, operand, area] = io
            return io

        return io_of

    def block_bytes(self, block_number: int) -> int:
        """See `Blocking.block_bytes`."""
        group, operand, area = self.blocks[block_number]
        return sum(write.bytes for write in self.block_ios()(group, operand, area).writes)

    def by_path(self) -> dict[Path, list[int]] | None:
        """Return the numbers of blocks by the file that each block writes; None if a block may write several files."""
        if any(cut.side == "source" for cut in self.cuts):
            return None
        numbers: dict[Path, list[int]] = {}
        for block_number, (group, operand, _) in enumerate(self.blocks):
            numbers.setdefault(self.intervals[self.groups[group].operands[operand]].path, []).append(block_number)
        return numbers

    def state(self) -> Iterator[bytes]:
        """See `Blocking.state`."""
        yield repr((self.max_block_bytes, self.cuts, len(self.blocks))).encode()
        real = {path: real_path(path) for path in {interval.path for interval in self.intervals.values()}}
        for operand, lies in self.intervals.items():
            cast = lies.cast and (lies.cast.stored, lies.cast.dtype, lies.cast.start)
            yield repr((operand, real[lies.path], lies.offset, lies.size, cast)).encode()
        yield repr(self.groups).encode()
        for group in self.distinct:
            windows = group.windows and group.windows.state()
            rows = *map(RunCopies.state, group.copies), *map(RowCopies.state, group.divided)
            yield repr((group.moves, windows, *rows)).encode()
        for value in self.constants.values():
            yield value.tobytes()

    def summary(self) -> Summary:
        """See `Blocking.summary`."""
        about, size = "about " if self.is_estimate else "", self.totals.block_bytes
        used = self.threads * (size + self.spare) + self._program.constant_bytes
        return Summary(
            f"{self._arrays}, in {about}{count_noun(self.count, 'block')}",
            "of it more than once",
            used,
            f"{self.threads} of {bytes_text(size)}",
        )

    def with_paths(self, change: Callable[[Path], Path]) -> Self:
        """See `Blocking.with_paths`."""
        blocking = copy.copy(self)
        blocking.intervals = {
            k: interval._replace(path=change(interval.path)) for k, interval in self.intervals.items()
        }
        return blocking
