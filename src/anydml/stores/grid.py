"""Plans over chunked arrays: blocks of the outputs, aligned to chunks, with the boxes of inputs that each needs."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import BindingError
from anydml.moves.compose import CONSTANT, INPUT, Composer
from anydml.moves.program import Program
from anydml.moves.value import Value
from anydml.stores import boxes
from anydml.stores.apart import check_apart, path_of
from anydml.stores.block_list import MORE_MEMORY, BlockList, check_count
from anydml.stores.block_shapes import block_count, box_at, middle, shapes
from anydml.stores.grid_blocks import Choice, GridBlock, block_of
from anydml.stores.grid_program import program_between
from anydml.stores.grid_totals import totals_of
from anydml.stores.identities import identities_of
from anydml.stores.planning import FEW, LEAST, LOOKED, SLOTS
from anydml.stores.regions import Box, Mapping, Region
from anydml.stores.sizes import parse_size
from anydml.stores.staging import Content
from anydml.stores.store import Store
from anydml.stores.targets import NewFile, Target
from anydml.stores.zarr_format import ZarrStore, metadata_of
from anydml.stores.zarr_target import ZarrTarget
from anydml.text import bytes_text, counted

SECONDS_A_BLOCK, SECONDS_A_CHUNK = 300e-6, 150e-6
SECONDS_A_DECODED_BYTE = 1e-9
"""What blocks, and chunks that are decoded, cost, about; with those of `boxes` only ratios matter."""

UNIT = 8 << 20
"""Bytes of a part of a block that is moved and written at once to a plain file."""


class GridPlanned:
    """As `anydml.stores.plans.GridPlan`, without its run."""

    def __init__(
        self,
        name: str,
        composer: Composer,
        values: Sequence[Value],
        inputs: Sequence[Store | ZarrStore],
        outputs: Sequence[Target | ZarrTarget],
        memory: int | str = "256MB",
        overwrite: bool = False,
        folder: Path | None = None,
        others: dict[Path, Content] | None = None,
    ) -> None:
        self.name = name
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.memory = parse_size(memory)
        self.overwrite = overwrite
        self.folder = folder
        self.others = dict(others or {})
        self.resumed, self.was_there = 0, False
        self.remarks: list[str] = []
        self.constants = {
            number: operand.value for number, operand in composer._operands.items() if operand.role == "constant"
        }
        self._known: dict[int, Any] = {}
        ranks = [store.ndim for store in self.inputs]
        self.mappings = [Mapping(name, value, ranks, self._indices) for value in values]
        self._known.clear()
        self.identities = identities_of([*(store.path for store in self.inputs), *self.others.values()])
        for store in self.inputs:
            if isinstance(store, ZarrStore) and metadata_of(store.path) != store.metadata:
                raise BindingError(f"{name}: {store.path} has changed since it was opened: open it again", name)
        check_apart(name, self.inputs, self.outputs)
        free = self.memory - sum(value.nbytes for value in self.constants.values() if value is not None)
        self.span = max(1, min(boxes.MOST_SPAN, free // 16))
        self.threads, self.most = self._shared(free)
        self.choices = [self._chosen(number) for number in range(len(self.outputs))]
        self._check_counts()
        self.is_estimate = False
        self._look(FEW)

    def _indices(self, operand: int) -> np.ndarray[Any, Any]:
        """The elements of a constant, or of an input that holds indices."""
        if operand >= CONSTANT:
            return np.asarray(self.constants[operand])
        if operand not in self._known:
            store = self.inputs[operand - INPUT]
            if store.nbytes > self.memory:
                raise BindingError(f"{self.name}: the indices in {store!r} need {bytes_text(store.nbytes)} of memory")
            self._known[operand] = store.read()
        found: np.ndarray[Any, Any] = self._known[operand]
        return found

    def _shared(self, free: int) -> tuple[int, int]:
        """Threads, and bytes of a block's boxes at most, when each thread has what one chunk needs."""
        need = self.span
        for store in self.inputs:
            if isinstance(store, ZarrStore) and not store.layout.is_plain:
                need = max(need, 2 * store.layout.chunk_bytes)
        for target in self.outputs:
            if isinstance(target, ZarrTarget):
                need = max(need, target.layout.chunk_bytes * (1 if target.layout.is_plain else 2))
        self.need = need
        threads = max(1, min(SLOTS, free // 3 // need))
        most = free - threads * need
        if free < LEAST or most < need // 2:
            raise BindingError(
                f"{self.name}: {bytes_text(self.memory)} of memory are too few: chunks of {bytes_text(need)} need at "
                f"least {bytes_text(max(LEAST, 2 * need) + self.memory - free)}"
            )
        return threads, most

    def _unit(self, target: Target | ZarrTarget) -> tuple[int, ...]:
        return target.layout.chunk if isinstance(target, ZarrTarget) else (1,) * len(target.shape)

    def _chosen(self, number: int) -> Choice:
        """The best shape of blocks of an output."""
        target, best = self.outputs[number], None
        for block in shapes(target.shape, self._unit(target)):
            box = middle(target.shape, block)
            regions = self.mappings[number].regions(self.mappings[number].within(box))
            held = sum(math.prod(each.shape) * self.inputs[each.operand].dtype.itemsize for each in regions)
            if held > self.most:
                continue
            for are_kept in (False, True):
                cost = self._seconds(target, box, regions, are_kept)
                if cost is not None and (best is None or cost < best.seconds):
                    best = Choice(block, are_kept, cost)
        if best is None:
            raise BindingError(
                f"{self.name}: no way was found to move {target!r} by boxes of {bytes_text(self.most)}: "
                "give more memory, or smaller chunks"
            )
        return best

    def _seconds(
        self, target: Target | ZarrTarget, box: Box, regions: Sequence[Region], are_kept: bool
    ) -> float | None:
        """Seconds a byte, about, where chunks are kept, or decoded for each block; None where none could be kept."""
        sizes = [high - low for low, high in box]
        itemsize = target.dtype.itemsize
        spent, once, is_any = SECONDS_A_BLOCK, 0.0, False
        if isinstance(target, Target):
            spent += boxes.seconds(target.shape, itemsize, sizes, False)
        for operand, own in regions:
            store = self.inputs[operand]
            if isinstance(store, Store):
                spent += boxes.seconds(*store.as_it_lies([high - low for low, high in own]), span=self.span)
                continue
            layout = store.layout
            count = math.prod(-(-high // c) - low // c for (low, high), c in zip(own, layout.chunk, strict=True))
            if layout.is_plain or are_kept:
                part = [min(high - low, c) for (low, high), c in zip(own, layout.chunk, strict=True)]
                spent += count * boxes.seconds(layout.chunk, itemsize, part, span=self.span)
            if not layout.is_plain:
                decoded = SECONDS_A_CHUNK / layout.chunk_bytes + SECONDS_A_DECODED_BYTE
                if are_kept:
                    is_any = True
                    once += store.nbytes * (decoded + 2 * boxes.SECONDS_A_BYTE) / max(1, target.nbytes)
                else:
                    spent += count * layout.chunk_bytes * decoded
        if are_kept and not is_any:
            return None
        return spent / max(1, math.prod(sizes) * itemsize) + once

    @property
    def blocks(self) -> BlockList[GridBlock]:
        """In the order in which they are begun; listed when somebody asks where they are many."""
        if self.is_estimate:
            self._look(None)
        return self._blocks

    def _look(self, few: int | None) -> None:
        """List the blocks, and count what they come to; where an output has more than `few`, by some of them."""
        ranks = [len(target.shape) for target in self.outputs]
        self._blocks = BlockList(self.name, partial(block_of, ranks), 1 + 2 * max(ranks, default=0))
        wholes = [block_count(*each) for each in zip((each.shape for each in self.outputs), self._sizes(), strict=True)]
        shares = [(whole, LOOKED if few is not None and whole > few else whole) for whole in wholes]
        self.is_estimate, self.count = any(whole > looked for whole, looked in shares), 0
        self.totals, self.kept = totals_of(
            self.name, self.inputs, self.outputs, self.mappings, self.choices, self._listed(shares), self.span, shares
        )

    def _listed(self, shares: Sequence[tuple[int, int]]) -> Iterator[GridBlock]:
        """Blocks in the order of the outputs, as they are put into the list: whoever counts may refuse early."""
        for number, (target, block, (whole, looked)) in enumerate(
            zip(self.outputs, self._sizes(), shares, strict=True)
        ):
            before = len(self._blocks)
            for k in range(looked):
                for each in self._fitting(number, box_at(target.shape, block, k * whole // looked)):
                    self._blocks.append((number, *itertools.chain.from_iterable(each.box)))
                    yield each
            self.count += (len(self._blocks) - before) * whole // max(1, looked)

    def _sizes(self) -> list[tuple[int, ...]]:
        """Of a block, by output."""
        return [choice.block for choice in self.choices]

    def _check_counts(self) -> None:
        """Refuse lists of blocks, or of chunks, that are too long."""
        count = chunks = 0
        for target, choice in zip(self.outputs, self.choices, strict=True):
            count += block_count(target.shape, choice.block)
            if isinstance(target, ZarrTarget):
                chunks += math.prod(-(-size // c) for size, c in zip(target.shape, target.layout.chunk, strict=True))
        check_count(self.name, count, "blocks", MORE_MEMORY)
        check_count(self.name, chunks, "chunks of what is written", "ask for larger ones")

    def _fitting(self, number: int, box: Box) -> Iterator[GridBlock]:
        """A block, or its parts where it needs more memory than the one that was looked at."""
        mapping, unit = self.mappings[number], self._unit(self.outputs[number])
        held = sum(
            math.prod(each.shape) * self.inputs[each.operand].dtype.itemsize
            for each in mapping.regions(mapping.within(box))
        )
        if held <= self.most:
            yield GridBlock(number, box)
            return
        counts = [-(-(high - low) // step) for (low, high), step in zip(box, unit, strict=True)]
        axis = max(range(len(counts)), key=lambda k: counts[k], default=None)
        if axis is None or counts[axis] == 1:
            raise BindingError(
                f"{self.name}: {bytes_text(held)} of inputs are needed at once for a chunk of "
                f"{self.outputs[number]!r}: give more memory, or smaller chunks"
            )
        middle = box[axis][0] + counts[axis] // 2 * unit[axis]
        for part in ((box[axis][0], middle), (middle, box[axis][1])):
            yield from self._fitting(number, (*box[:axis], part, *box[axis + 1 :]))

    def block_bytes(self, number: int) -> int:
        """Bytes that a block writes."""
        output, box = self.blocks[number]
        return math.prod(high - low for low, high in box) * self.outputs[output].dtype.itemsize

    @property
    def program(self) -> Program:
        """What the blocks do in all, between whole arrays."""
        return program_between(self.name, self.inputs, self.outputs, self.constants, self.mappings)

    @property
    def files(self) -> tuple[NewFile, ...]:
        """Plain files that are written."""
        found = {id(each.file): each.file for each in self.outputs if isinstance(each, Target)}
        return tuple(found.values())

    def digest(self) -> str:
        """What tells this plan from others; the same command over the same files has the same."""
        state = hashlib.sha256()
        state.update(self.blocks.rows)
        for part in (self.name, [*self.identities.items()]):
            state.update(repr(part).encode())
        for mapping in self.mappings:
            state.update(repr(mapping.value).encode())
        for value in self.constants.values():
            state.update(b"" if value is None else np.asarray(value).tobytes())
        for target in self.outputs:
            state.update(repr((os.path.realpath(path_of(target)), target.shape, str(target.dtype))).encode())
            if isinstance(target, ZarrTarget):
                state.update(repr(sorted(target.metadata.items())).encode())
        for path, content in self.others.items():
            state.update(repr((os.path.realpath(path), content)).encode())
        return state.hexdigest()

    def __str__(self) -> str:
        totals = self.totals
        about = "about " if self.is_estimate else ""
        kept = ", decoded chunks are kept in a file meanwhile" if any(each.are_kept for each in self.choices) else ""
        return "\n".join(
            [
                f"{self.name}: {counted(len(self.inputs), 'array')} to {counted(len(self.outputs), 'array')}, "
                f"in {about}{counted(self.count, 'block')} of up to "
                f"{' and '.join(str([*each.block]) for each in self.choices)}",
                f"  reads {about}{bytes_text(totals.bytes_read)} in {counted(totals.reads, 'request')}, "
                f"{bytes_text(totals.bytes_read_again)} of it decoded more than once{kept}",
                f"  writes {about}{bytes_text(totals.bytes_written)} in {counted(totals.writes, 'request')}",
                f"  buffers {bytes_text(totals.block_bytes + self.threads * self.need)} of {bytes_text(self.memory)}: "
                f"{bytes_text(totals.block_bytes)}, and {bytes_text(self.need)} for each of "
                f"{counted(self.threads, 'thread')}",
                *(f"  {remark}" for remark in self.remarks),
            ]
        )
