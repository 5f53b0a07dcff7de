"""What plans decide: a program over files, cut into blocks that fit in a budget of memory."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anydml.errors import BindingError
from anydml.moves import Program
from anydml.stores.block_list import MORE_MEMORY, BlockList, check_count
from anydml.stores.blocks import Cut, areas, areas_of
from anydml.stores.choosing import Block, blocks_of, chosen
from anydml.stores.covered import Covered
from anydml.stores.cutting import Rectangle
from anydml.stores.identities import identities_of, identity
from anydml.stores.layouts import Layouts
from anydml.stores.sizes import parse_size
from anydml.stores.staging import Content
from anydml.stores.store import Store
from anydml.stores.targets import NewFile, Target
from anydml.stores.works import works_of
from anydml.text import bytes_text, counted

SLOTS = min(4, max(2, os.cpu_count() or 2))
"""Blocks that are in memory at once: while one is moved, others are read and written."""

FEW, LOOKED = 1024, 128
"""Blocks of an array that are all looked at before a plan runs; and how many stand for all where there are more: to say
what a plan does takes no longer for a huge array than for a large one."""

LEAST = 4 << 10
"""Bytes of memory that a plan can do with."""

SPARE = 64
"""Bytes of a block's buffers that go into their alignment."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What a plan will do.

    Attributes:
        bytes_read: from all inputs.
        bytes_read_again: those of them that had been read before.
        bytes_written: of elements.
        reads: requests.
        writes: requests.
        block_bytes: of the largest block.
    """

    bytes_read: int = 0
    bytes_read_again: int = 0
    bytes_written: int = 0
    reads: int = 0
    writes: int = 0
    block_bytes: int = 0


class Planned:
    """What a plan will do, decided and checked: the arguments and attributes are those of `anydml.stores.Plan`."""

    def __init__(
        self,
        program: Program,
        inputs: Sequence[Store],
        outputs: Sequence[Target],
        memory: int | str = "256MB",
        overwrite: bool = False,
        folder: Path | None = None,
        others: Mapping[Path, Content] | None = None,
    ) -> None:
        self.program = program
        self.name = program.name
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.memory = parse_size(memory)
        self.overwrite = overwrite
        self.folder = folder
        self.others = dict(others or {})
        self.resumed, self.was_there = 0, False
        self.remarks: list[str] = []
        constants = program.constant_bytes
        free = self.memory - constants
        if free < LEAST:
            part = f", of which {bytes_text(constants)} are constants" if constants else ""
            raise BindingError(
                f"{self.name}: {bytes_text(self.memory)} of memory are too few: give at least "
                f"{bytes_text(constants + LEAST)}{part}"
            )
        if program.scratch_bytes:
            why = next(each.reason for each in program.operands if each.role == "scratch")
            raise BindingError(
                f"{self.name}: a step needs its whole input at once ({why}): write what comes before it to a file, "
                "and plan the rest from there"
            )
        self.sources = {store.path for store in self.inputs}
        self.identities = identities_of([*self.sources, *self.others.values()])
        self.files = _unique(target.file for target in self.outputs)
        self._check_apart()
        self.buffers = SLOTS if free >= 1 << 20 else 1
        self.most = free // self.buffers - SPARE
        self.works, self.intervals = works_of(program, self.inputs, self.outputs, free)
        self._cut()
        self.is_estimate = False
        self._blocks, self.totals = self._counted(FEW)

    def _check_apart(self) -> None:
        """Outputs are no inputs, and none is written twice."""
        sources = {*map(os.path.realpath, self.identities)}
        same = {(each[0], each[1]) for each in self.identities.values()}
        paths = [os.path.realpath(path) for path in (*(file.path for file in self.files), *self.others)]
        for path in paths:
            there = os.path.exists(path) and identity(Path(path))[:2] in same
            if path in sources or there:
                raise BindingError(f"{self.name}: {path} is an input, too: write to another file", self.name)
            if paths.count(path) > 1:
                raise BindingError(
                    f"{self.name}: {path} is written twice: describe its arrays by one create", self.name
                )

    @property
    def blocks(self) -> BlockList[Block]:
        """In the order in which they are begun; listed when somebody asks where they are many."""
        if self.is_estimate:
            self._blocks, self.totals = self._counted(None)
        return self._blocks

    def _cut(self) -> None:
        """Decide how all work is cut."""
        self.cuts: list[Cut] = []
        self.alike: list[int] = []
        count = 0
        known: dict[Hashable, tuple[int, Cut | None]] = {}
        for number, work in enumerate(self.works):
            # Layers are alike but for the files.
            key = work.shape()
            if key not in known:
                known[key] = number, chosen(work, self.most)
            first, cut = known[key]
            if cut is None:
                raise BindingError(
                    f"{self.name}: no way was found to move {self.outputs[0]!r} in blocks of {bytes_text(self.most)}"
                )
            self.cuts.append(cut)
            self.alike.append(first)
            count += sum(areas_of(work, cut, operand) for operand in work.operands(cut.side))
            check_count(self.name, count, "blocks", MORE_MEMORY)

    def _counted(self, few: int | None) -> tuple[BlockList[Block], Totals]:
        """The blocks, and what they come to; where an operand has more than `few`, by some that stand for all."""
        blocks, layouts = BlockList(self.name, _block_of, 6), self.layouts()
        totals, largest = Counter[str](), 0
        covered: dict[Path, Covered] = {}
        read: set[int] = set()
        self.is_estimate = False
        for number, (work, cut) in enumerate(zip(self.works, self.cuts, strict=True)):
            for operand in work.operands(cut.side):
                own = Counter[str]()
                wholes: Iterable[Rectangle] = areas(work, cut, operand)
                whole = looked = 1
                if few is not None and areas_of(work, cut, operand) > few:
                    self.is_estimate, wholes = True, (some := [*areas(work, cut, operand, LOOKED)])
                    whole, looked = work.sizes[operand], sum(area.bytes for area in some)
                for block, layout in blocks_of(number, operand, wholes, work, cut, self.most, layouts.of):
                    blocks.append((block.work, block.operand, *block.area))
                    own["blocks"] += 1
                    for each in layout.reads:
                        own["reads"] += each.file.size
                        own["bytes_read"] += each.bytes
                        read.add(each.operand)
                        lies = self.intervals[each.operand]
                        covered.setdefault(lies.path, Covered()).add(each.file + lies.offset, each.lengths)
                    for each in layout.writes:
                        own["writes"] += each.file.size
                        own["bytes_written"] += each.bytes
                    largest = max(largest, sum(layout.sizes))
                totals.update({what: each * whole // looked for what, each in own.items()})
        distinct = sum(each.bytes for each in covered.values())
        if self.is_estimate:
            distinct = min(totals["bytes_read"], sum(self.intervals[k].size for k in read))
        totals["bytes_read_again"] = totals["bytes_read"] - distinct
        self.count = totals.pop("blocks", 0)
        return blocks, Totals(**totals, block_bytes=largest)

    def layouts(self) -> Layouts:
        """What each block reads, moves and writes."""
        return Layouts(self.works, self.cuts, self.alike)

    def block_bytes(self, number: int) -> int:
        """Bytes that a block writes."""
        work, operand, area = self.blocks[number]
        return sum(each.bytes for each in self.layouts().of(work, operand, area).writes)

    def digest(self) -> str:
        """What tells this plan from others; the same command over the same files has the same."""
        state = hashlib.sha256()
        for part in (self.name, self.most, self.cuts, len(self.blocks), [*self.identities.items()]):
            state.update(repr(part).encode())
        for number, lies in self.intervals.items():
            state.update(repr((number, os.path.realpath(lies.path), lies.offset, lies.size)).encode())
        for work in self.works:
            state.update(repr(work.moves).encode())
            for rows in work.rows:
                state.update(repr((rows.destination, rows.source)).encode())
                for numbers in (rows.to, rows.at, rows.lengths):
                    state.update(numbers.tobytes())
            for number in work.held:
                state.update(work.constants[number].tobytes())
        for file in self.files:
            state.update(repr((os.path.realpath(file.path), file.size)).encode() + file.start)
        for path, content in self.others.items():
            state.update(repr((os.path.realpath(path), content)).encode())
        return state.hexdigest()

    def __str__(self) -> str:
        totals = self.totals
        about = "about " if self.is_estimate else ""
        used = self.buffers * (totals.block_bytes + SPARE) + self.program.constant_bytes
        return "\n".join(
            [
                f"{self.name}: {counted(len(self.inputs), 'array')} of {counted(len(self.sources), 'file')} to "
                f"{counted(len(self.outputs), 'array')} of {counted(len(self.files), 'file')}, "
                f"in {about}{counted(self.count, 'block')}",
                f"  reads {about}{bytes_text(totals.bytes_read)} in {counted(totals.reads, 'request')}, "
                f"{bytes_text(totals.bytes_read_again)} of it more than once",
                f"  writes {about}{bytes_text(totals.bytes_written)} in {counted(totals.writes, 'request')}",
                f"  buffers {bytes_text(used)} of {bytes_text(self.memory)}: {self.buffers} of "
                f"{bytes_text(totals.block_bytes)}",
                *(f"  {remark}" for remark in self.remarks),
            ]
        )


def _block_of(row: Sequence[int]) -> Block:
    return Block(row[0], row[1], Rectangle(*row[2:]))


def _unique(files: Iterable[NewFile]) -> tuple[NewFile, ...]:
    return tuple({id(file): file for file in files}.values())
