"""Blocks of chunked arrays: boxes of the outputs, aligned to chunks, and the boxes of inputs that each one needs."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Self

from anydml.errors import BindingError
from anydml.files.located import real_path
from anydml.moves import Program, simplify
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Array, Store
from anydml.stores.formats.target import Target
from anydml.stores.formats.zarr_array import ZarrStore, metadata_of
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.planning.block_estimates import BlockShape, block_seconds, unit_of, write_count
from anydml.stores.planning.block_list import MAX_BLOCKS, MORE_MEMORY, Block, BlockList, check_count
from anydml.stores.planning.block_shapes import block_count, box_at, cost_at, halves, middle, shapes, size_of
from anydml.stores.planning.blocking import MAX_COUNTED_BLOCKS, SAMPLED_BLOCKS, Blocking, Summary, Totals
from anydml.stores.planning.interval_unions import ChunkCount
from anydml.stores.planning.known_lookups import reader_of
from anydml.stores.planning.regions import InputBox, RegionMap
from anydml.stores.planning.shares import Shares, TooLittleMemoryError, are_near
from anydml.text import bytes_text, count_noun, rounded_up

MEMORY_DIVISIONS = ((8, 3), (3, 3), (2, 3), (1, 3), (1, 12))
"""Ways to divide the memory: the number of blocks held at once, and the n of the nth part that threads get at most."""

MAX_HELD = 8
"""Maximum number of blocks that are held at once, where they are smaller than their shares."""

WORTH_HOLDING = 1.1
"""Factor of the seconds up to which more blocks are held: while the last requests of one wait, others go on."""


class GridBlocking(Blocking):
    """The blocks of a program between arrays, at least one of which is chunked.

    Args:
        program: the program, with unsimplified moves, whose dimensions are each along one axis of an output.
        inputs: the stores.
        outputs: the targets.
        free: bytes for all buffers.

    Attributes:
        mappings: the map from each output to the inputs.
        constants: the constants, by the numbers of the composer's operands.
        shares: the shares of the memory.
        kept: numbers of the inputs whose decoded chunks are spilled to a file while the plan runs.
        kept_boxes: boxes of chunked inputs, each as a `Block` with the number of the block that needs it and of its
            input; empty if no chunks are spilled.

    Raises:
        BindingError: blocks would be too large or too many, or an input has changed.
    """

    def __init__(
        self,
        program: Program,
        inputs: Sequence[Store | ZarrStore],
        outputs: Sequence[Target | ZarrTarget],
        free: int,
    ) -> None:
        self.name, self._program, self.inputs, self.outputs = program.name, program, inputs, outputs
        self.constants = dict(enumerate(program.constants, len(inputs) + len(outputs)))
        read = reader_of(self.name, inputs, self.constants, free)
        packed = [array.layout.packed for array in (*inputs, *outputs)]
        self.mappings = [
            RegionMap(program, k, packed[k], packed[: len(inputs)], read) for k in range(len(inputs), len(packed))
        ]
        for store in inputs:
            if isinstance(store, ZarrStore) and metadata_of(store.path) != store.metadata:
                raise BindingError(f"{self.name}: {store.path} has changed since it was opened: open it again")
        is_near = are_near([*inputs, *outputs])
        self._divisions = [(held, part) for held, part in MEMORY_DIVISIONS if held == 1 or not is_near]
        try:
            self._divide(free, self._divisions)
        except TooLittleMemoryError as error:
            enough = rounded_up(self._enough(free) + program.constant_bytes)
            raise BindingError(f"{error}: give more memory, at least {enough}, or choose smaller chunks") from None

    def _divide(self, free: int, divisions: Sequence[tuple[int, int]]) -> None:
        """Choose the shapes of blocks, in the first way to divide the memory that leaves enough for a block."""
        first, *others = divisions
        try:
            self._share(free, *first)
            if others and others[0][0] > 1 and self._seconds_of(free, *others[0]) * WORTH_HOLDING < self._seconds():
                self._divide(free, others)
                return
            self._list()
        except BindingError:
            if not others:
                raise
            self._divide(free, others)

    def _share(self, free: int, held: int, part: int) -> None:
        """Divide the memory, and choose the shapes of blocks."""
        self.shares = self._shares(free, held, part)
        self.threads = self.shares.threads
        self._choose()

    def _shares(self, free: int, held: int, part: int) -> Shares:
        constant_bytes = self._program.constant_bytes
        return Shares.of(self.name, self.inputs, self.outputs, free, constant_bytes, held, part)

    def _enough(self, free: int) -> int:
        """Return the least bytes of buffers with which a plan can be made, as far as a search finds it."""
        boxes = max(map(self._least_bytes, range(len(self.outputs))))

        def is_enough(free: int) -> bool:
            for division in self._divisions:
                with suppress(BindingError):
                    if self._shares(free, *division).boxes >= boxes:
                        return True
            return False

        low, high = free, 2 * free
        while not is_enough(high):
            low, high = high, 2 * high
        while high - low > high // 200:
            middle_bytes = (low + high) // 2
            low, high = (low, middle_bytes) if is_enough(middle_bytes) else (middle_bytes, high)
        return high

    def _least_bytes(self, output_number: int) -> int:
        """Return the bytes of the boxes of inputs that a smallest block of an output needs."""
        shape = self.outputs[output_number].shape
        boxes = (middle(shape, block) for block in shapes(shape, unit_of(self.outputs[output_number])))
        return min(self._bytes_of_boxes(self.regions(output_number, box)) for box in boxes)

    def _seconds_of(self, free: int, held: int, part: int) -> float:
        """Return the estimated seconds of another way to divide the memory."""
        other = copy.copy(self)
        try:
            other._share(free, held, part)
        except BindingError:
            return math.inf
        return other._seconds()

    def _seconds(self) -> float:
        return sum(choice.seconds * target.nbytes for choice, target in zip(self.choices, self.outputs, strict=True))

    @property
    def waiting_bytes(self) -> int:
        """Bytes of spilled chunks that are collected before they are written."""
        block_bytes = self.shares.room(True) if self.is_estimate else self.totals.block_bytes
        return self.shares.waiting_bytes(block_bytes) if self.kept else 0

    def _choose(self) -> None:
        """Choose the shapes of blocks."""
        output_numbers = range(len(self.outputs))
        self.choices = [self._best_shape(output_number) for output_number in output_numbers]
        if self._kept_count() > MAX_BLOCKS:
            self.choices = [self._best_shape(output_number, (False,)) for output_number in output_numbers]

    def _list(self) -> None:
        """List the blocks, after a check of their number."""
        self._check_counts()
        self._list_blocks(MAX_COUNTED_BLOCKS)
        if self.shares.held > 1 and not self.kept and self.totals.block_bytes:
            self.shares = self.shares.holding(min(MAX_HELD, self.shares.held_bytes // self.totals.block_bytes))

    def divided(self, count: int) -> Self:
        """Divide the work into at least so many blocks, or as many as possible."""
        finest, smaller = self, self
        while 0 < len(finest.blocks) < count:
            smaller = copy.copy(smaller)
            smaller.shares = replace(smaller.shares, boxes=smaller.shares.boxes // 2)
            try:
                smaller._choose()
                smaller._list()
            except BindingError:
                break
            if len(smaller.blocks) > len(finest.blocks):
                finest = smaller
        return finest

    def cell_of(self, operand: int, axis: int, coordinates: Array) -> Array:
        """Return the numbers of the chunks of coordinates; in a plain file, of parts that cost as much as a request."""
        store = self.inputs[operand]
        if not store.layout.is_plain:
            return coordinates // store.layout.chunk[axis]
        cost = cost_at(store.path)
        return coordinates // max(1, int(cost.request / cost.byte) // store.layout.packed.strides[axis])

    def _best_shape(self, output_number: int, kept_options: Sequence[bool] = (False, True)) -> BlockShape:
        """Return the best shape of an output's blocks, with or without spilled chunks."""
        target, best = self.outputs[output_number], None
        for block in shapes(target.shape, unit_of(target)):
            box = middle(target.shape, block)
            regions = self.regions(output_number, box)
            held_regions = self._bytes_of_boxes(regions)
            for are_kept in kept_options:
                if held_regions > self.shares.room(are_kept):
                    continue
                cost = block_seconds(target, box, self.inputs, regions, self.shares.span, are_kept)
                if cost is not None and (best is None or cost < best.seconds):
                    best = BlockShape(block, are_kept, cost)
        if best is None:
            raise TooLittleMemoryError(
                f"{self.name}: no way was found to move {target!r} by boxes of {bytes_text(self.shares.boxes)}"
            )
        return best

    def regions(self, output: int, box: Box) -> list[InputBox]:
        """Return the boxes of inputs that a box of an output needs."""
        mapping = self.mappings[output]
        return mapping.regions(mapping.parts_writing(box), self.cell_of)

    def _bytes_of_boxes(self, regions: Sequence[InputBox]) -> int:
        """Return the bytes of boxes of inputs."""
        return sum(size_of(box) * self.inputs[operand].dtype.itemsize for operand, box in regions)

    def _kept_count(self) -> int:
        """Return approximate number of boxes of inputs that are listed if chunks are spilled."""
        if not any(choice.are_kept for choice in self.choices):
            return 0
        count = 0
        for output_number, (target, choice) in enumerate(zip(self.outputs, self.choices, strict=True)):
            regions = self.regions(output_number, middle(target.shape, choice.block))
            count += block_count(target.shape, choice.block) * len(regions)
        return count

    def _check_counts(self) -> None:
        """Refuse lists of blocks, or of chunks, that are too long."""
        count = chunks = 0
        for target, choice in zip(self.outputs, self.choices, strict=True):
            count += block_count(target.shape, choice.block)
            if not target.layout.is_one:
                chunks += block_count(target.shape, target.layout.file)
        check_count(self.name, count, "blocks", MORE_MEMORY)
        check_count(self.name, chunks, "chunks to write", "ask for larger ones")

    def _list_blocks(self, max_counted: int | None) -> None:
        self._blocks = BlockList(self.name, max((len(target.shape) for target in self.outputs), default=0))
        self.is_estimate, self.count, self.kept = False, 0, set[int]()
        rank = max((len(store.shape) for store in self.inputs), default=0)
        self.kept_boxes, may_be_kept = BlockList(self.name, rank), any(choice.are_kept for choice in self.choices)
        writes = largest = 0
        counts = [ChunkCount(self.name, store.layout, self.shares.span, cost_at(store.path)) for store in self.inputs]
        for output_number, (target, choice) in enumerate(zip(self.outputs, self.choices, strict=True)):
            total = looked = block_count(target.shape, choice.block)
            if max_counted is not None and total > max_counted:
                looked, self.is_estimate = SAMPLED_BLOCKS, True
            before = len(self._blocks)
            for k in range(looked):
                for box in self._fitting(output_number, box_at(target.shape, choice.block, k * total // looked)):
                    block = len(self._blocks)
                    self._blocks.append(Block(output_number, 0, box))
                    regions = self.regions(output_number, box)
                    largest = max(largest, self._bytes_of_boxes(regions))
                    for operand, region in regions:
                        counts[operand].add(region, total, looked)
                        if may_be_kept and not self.inputs[operand].layout.is_plain:
                            self.kept_boxes.append(Block(block, operand, region))
                            self.kept |= {operand} if choice.are_kept else set()
                    writes += write_count(target, box) * total // looked
            self.count += (len(self._blocks) - before) * total // max(1, looked)
        if self.is_estimate:
            check_count(self.name, self.count, "blocks", MORE_MEMORY)
        read = [chunks.read(operand in self.kept) for operand, chunks in enumerate(counts)]
        reads, bytes_read, bytes_again = (sum(column) for column in zip(*read, strict=True))
        self.totals = Totals(
            bytes_read, bytes_again, sum(target.nbytes for target in self.outputs), reads, writes, largest
        )

    def _fitting(self, output_number: int, box: Box) -> Iterator[Box]:
        """Yield a block; in parts, if it needs more memory than the block for which the shape was chosen."""
        box_bytes = self._bytes_of_boxes(self.regions(output_number, box))
        if box_bytes <= self.shares.room(self.choices[output_number].are_kept):
            yield box
            return
        smaller = halves(box, unit_of(self.outputs[output_number]))
        if len(smaller) == 1:
            raise BindingError(
                f"{self.name}: {bytes_text(box_bytes)} of inputs are needed at once for a chunk of "
                f"{self.outputs[output_number]!r}: give more memory, or choose smaller chunks"
            )
        for part in smaller:
            yield from self._fitting(output_number, part)

    def block_bytes(self, block_number: int) -> int:
        """See `Blocking.block_bytes`."""
        output, _, box = self.blocks[block_number]
        return size_of(box) * self.outputs[output].dtype.itemsize

    @property
    def program(self) -> Program:
        """See `Blocking.program`."""
        arrays, all_operands = [*self.inputs, *self.outputs], self._program.operands
        operands = [
            operand._replace(name=str(array.path)) for operand, array in zip(all_operands, arrays, strict=False)
        ]
        return Program(self.name, (*operands, *all_operands[len(arrays) :]), simplify(self._program.moves))

    def state(self) -> Iterator[bytes]:
        """See `Blocking.state`."""
        yield self.blocks.rows.tobytes()
        for store in self.inputs:
            yield repr((real_path(store.path), store.layout.offset, store.shape)).encode()
        for mapping in self.mappings:
            yield repr(mapping.moves).encode()
            for pick in mapping.many:
                yield repr(pick.move).encode()
                yield pick.shift.tobytes()
                yield pick.is_kept.tobytes()
        for value in self.constants.values():
            yield value.tobytes()
        for target in self.outputs:
            yield repr((target.name, target.shape, str(target.dtype))).encode()

    def summary(self) -> Summary:
        """See `Blocking.summary`."""
        about = "about " if self.is_estimate else ""
        note = (
            ", decoded chunks are kept in a file meanwhile" if any(choice.are_kept for choice in self.choices) else ""
        )
        sizes, need, buffers = self.totals.block_bytes, self.shares.need, self.shares.buffers
        threads = f"{buffers} of " * (buffers < self.threads) + count_noun(self.threads, "thread")
        block_copies = min(self.shares.held, self.count)
        per_block = f" for each of {block_copies} blocks" if block_copies > 1 else ""
        waiting = f"{bytes_text(self.waiting_bytes)} of chunks that are kept, " if self.waiting_bytes else ""
        texts = f"; strings may take {bytes_text(self.shares.texts)}" if self.shares.texts else ""
        return Summary(
            f"{count_noun(len(self.inputs), 'array')} to {count_noun(len(self.outputs), 'array')}, "
            f"in {about}{count_noun(self.count, 'block')} of up to "
            f"{' and '.join(str([*choice.block]) for choice in self.choices)}",
            f"of it decoded more than once{note}",
            block_copies * sizes + buffers * need + self.waiting_bytes,
            f"{bytes_text(sizes)}{per_block}, {waiting}and {bytes_text(need)} for each of {threads}{texts}",
        )
