"""What plans decide: a program over files, cut into blocks that fit in a budget of memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import BindingError
from anydml.moves import Access, Move, Program
from anydml.moves.simplify import simplify
from anydml.stores.block_list import MORE_MEMORY, BlockList, check_count
from anydml.stores.blocks import Cut, Work, count_of
from anydml.stores.choosing import Block, blocks_of, chosen
from anydml.stores.covered import Covered
from anydml.stores.cutting import Rectangle
from anydml.stores.identities import identities_of, identity
from anydml.stores.indices import MOST_RUNS, resolved
from anydml.stores.layouts import Layouts
from anydml.stores.rows import Rows
from anydml.stores.sizes import parse_size
from anydml.stores.staging import Content
from anydml.stores.store import Store
from anydml.stores.targets import NewFile, Target
from anydml.text import bytes_text, counted

SLOTS = min(4, max(2, os.cpu_count() or 2))
"""Blocks that are in memory at once: while one is moved, others are read and written."""

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
        self.works = tuple(_works(program, self.inputs, self.outputs, free))
        self.blocks, self.totals = self._cut()

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

    def _cut(self) -> tuple[BlockList[Block], Totals]:
        blocks = BlockList(self.name, _block_of, 6)
        self.cuts: list[Cut] = []
        self.alike: list[int] = []
        layouts = self.layouts()
        reads = writes = bytes_read = bytes_written = largest = 0
        covered: dict[Path, Covered] = {}
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
            check_count(self.name, len(blocks) + count_of(work, cut), "blocks", MORE_MEMORY)
            for block, layout in blocks_of(number, work, cut, self.most, layouts.of):
                blocks.append((block.work, block.operand, *block.area))
                for each in layout.reads:
                    reads += each.file.size
                    bytes_read += each.bytes
                    store = self.inputs[each.operand]
                    covered.setdefault(store.path, Covered()).add(each.file + store.offset, each.lengths)
                for each in layout.writes:
                    writes += each.file.size
                    bytes_written += each.bytes
                largest = max(largest, sum(layout.sizes))
        distinct = sum(each.bytes for each in covered.values())
        return blocks, Totals(bytes_read, bytes_read - distinct, bytes_written, reads, writes, largest)

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
        used = self.buffers * (totals.block_bytes + SPARE) + self.program.constant_bytes
        return "\n".join(
            [
                f"{self.name}: {counted(len(self.inputs), 'array')} of {counted(len(self.sources), 'file')} to "
                f"{counted(len(self.outputs), 'array')} of {counted(len(self.files), 'file')}, "
                f"in {counted(len(self.blocks), 'block')}",
                f"  reads {bytes_text(totals.bytes_read)} in {counted(totals.reads, 'request')}, "
                f"{bytes_text(totals.bytes_read_again)} of it more than once",
                f"  writes {bytes_text(totals.bytes_written)} in {counted(totals.writes, 'request')}",
                f"  buffers {bytes_text(used)} of {bytes_text(self.memory)}: {self.buffers} of "
                f"{bytes_text(totals.block_bytes)}",
                *(f"  {remark}" for remark in self.remarks),
            ]
        )


def _block_of(row: Sequence[int]) -> Block:
    return Block(row[0], row[1], Rectangle(*row[2:]))


def _unique(files: Iterable[NewFile]) -> tuple[NewFile, ...]:
    return tuple({id(file): file for file in files}.values())


def _works(program: Program, inputs: Sequence[Store], outputs: Sequence[Target], free: int) -> Iterator[Work]:
    """The moves of a program in groups that have no files in common."""
    count = len(inputs) + len(outputs)
    arrays: list[Store | Target] = [*inputs, *outputs]
    sizes = {k: each.nbytes for k, each in enumerate(arrays)}
    units = {k: each.dtype.itemsize for k, each in enumerate(arrays)}
    constants = {k: value.reshape(-1).view(np.uint8) for k, value in enumerate(program.constants, count)}

    def read(operand: int) -> np.ndarray[Any, Any]:
        if operand in constants:
            return constants[operand]
        if operand not in known:
            if sizes[operand] > free:
                raise BindingError(
                    f"{program.name}: the indices in {inputs[operand]!r} need {bytes_text(sizes[operand])} of memory"
                )
            array = inputs[operand].read()
            known[operand] = np.frombuffer(array.tobytes("A"), np.uint8)
        return known[operand]

    known: dict[int, np.ndarray[Any, Any]] = {}
    tables: list[Rows] = []
    # Moves that are simple already are known to be.
    moves = program.moves
    if any(move.has_lookups for move in moves):
        every = [*_in_any_order(program.name, [*resolved(program, read)], sizes)]
        moves = tuple(each for each in every if isinstance(each, Move))
        tables = [each for each in every if isinstance(each, Rows)]
    for own, rows in _apart(simplify(moves), tables, count):
        used = {move.destination.operand for move in own} | {each.destination for each in rows}
        used |= {move.source.operand for move in own if isinstance(move.source, Access)}
        used |= {each.source for each in rows}
        if any(isinstance(move.source, Access) and len(inputs) <= move.source.operand < count for move in own):
            raise BindingError(
                f"{program.name}: it copies from what it has written, which no plan does: a fused function can say it"
            )
        yield Work(tuple(own), tuple(sorted(used)), sizes, units, constants, tuple(rows))


def _in_any_order(name: str, every: Sequence[Move | Rows], sizes: Mapping[int, int]) -> Iterator[Move | Rows]:
    """Rows of operands whose bytes are written once each, in whatever order; other rows as moves, in theirs."""
    written: dict[int, int] = {}
    for each in every:
        operand, size = _written(each)
        written[operand] = written.get(operand, 0) + size
    for each in every:
        if isinstance(each, Move) or written[each.destination] == sizes[each.destination]:
            yield each
            continue
        if each.to.size > MOST_RUNS:
            raise BindingError(f"{name}: it picks more than {MOST_RUNS} runs, which a plan cannot hold")
        yield from each.moves()


def _written(each: Move | Rows) -> tuple[int, int]:
    """The operand that is written, and how many bytes."""
    if isinstance(each, Rows):
        return each.destination, each.bytes
    return each.destination.operand, each.bytes_written


def _apart(moves: Iterable[Move], rows: Iterable[Rows], count: int) -> list[tuple[list[Move], list[Rows]]]:
    """Moves and rows in groups that share no operand below `count`, in order."""
    leader = [*range(count)]

    def find(k: int) -> int:
        while leader[k] != k:
            leader[k] = leader[leader[k]]
            k = leader[k]
        return k

    moves, rows = [*moves], [*rows]
    for move in moves:
        if isinstance(move.source, Access) and move.source.operand < count:
            leader[find(move.source.operand)] = find(move.destination.operand)
    for each in rows:
        leader[find(each.source)] = find(each.destination)
    groups: dict[int, tuple[list[Move], list[Rows]]] = {}
    for move in moves:
        groups.setdefault(find(move.destination.operand), ([], []))[0].append(move)
    for each in rows:
        groups.setdefault(find(each.destination), ([], []))[1].append(each)
    return [*groups.values()]
