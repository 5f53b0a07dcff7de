"""Programs: what an engine compiles. An ordered list of moves, and the operands that they move between.

The order is a contract: the result is as if the moves ran one after the other (see `order` for what may run together).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from anydml.moves.constant import Constant
from anydml.moves.move import Access, Fill, Lookup, Move, components, every_lookup
from anydml.moves.order import reads_what_it_writes
from anydml.moves.simplify import is_injective
from anydml.notebooks import page
from anydml.records import Record, record
from anydml.text import counted

Role = Literal["input", "output", "constant", "scratch"]
ROLES: tuple[Role, ...] = ("input", "output", "constant", "scratch")


class Operand(NamedTuple):
    """Memory that moves refer to by its number in the program.

    Attributes:
        role: inputs and outputs are bound by the caller, in this order; constants and scratch are the program's.
        name: for people.
        size: bytes of scratch.
        value: a constant's bytes, as a contiguous array, or what becomes one when it is first read.
        is_on_host: whether it lies in host memory on every device.
        reason: why scratch is needed.

    Examples:
        >>> from anydml import moves
        >>> moves.Operand("input", "x", size=12).role
        'input'
    """

    role: Role
    name: str
    size: int = 0
    value: Constant | None = None
    is_on_host: bool = False
    reason: str = ""


Coordinate = tuple[int, ...]
Element = tuple[int, Coordinate, int | bytes, Coordinate]
"""One element's journey: output operand, its coordinate, source operand, its coordinate; or, instead of the operand,
the bytes of an element that is known, and any coordinate."""

ReadIndex = Callable[[int, Coordinate], int]
"""Reads one number of an operand: an index, or what is compared with 0."""


class Formula(NamedTuple):
    """What an operator's document says, for the engine that judges the others.

    Attributes:
        elements: gives every element's journey, in the document's own words.
        tensors: sizes, byte strides and dtype of the operands that coordinates refer to, constants included.
    """

    elements: Callable[[ReadIndex], Iterator[Element]]
    tensors: tuple[tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]], ...]


FindNonzero = Callable[[np.ndarray[Any, Any], "np.dtype[Any]"], np.ndarray[Any, Any]]
"""Gives the coordinates of all elements that are not zero, as numbers of a dtype: a row each, in row-major order."""


class AtOnce(NamedTuple):
    """All work of a program on host memory, where moves would take many passes.

    Attributes:
        work: does it, on views of the operands as the formula has them, by what an engine finds elements by.
        about: how, for people.
    """

    work: Callable[[Sequence[np.ndarray[Any, Any]], FindNonzero], None]
    about: str


@record
class Program(Record):
    """Moves between operands: inputs first, then outputs, constants and scratch.

    Attributes:
        name: what explanations and errors call it.
        operands: those that moves refer to, by number.
        moves: in order.
        formula: the document that the moves come from, if there is one.
        at_once: what does the same on host memory in less time, if anything does.

    Examples:
        >>> T = dml.TensorDesc
        >>> flip = dml.Slice1OperatorDesc(T("FLOAT32", [4]), T("FLOAT32", [4]), [0], [4], [-1])
        >>> program = flip.program()
        >>> print(program)
        DML_SLICE1: 1 move, 0 B of scratch
          #0 input InputTensor
          #1 output OutputTensor
          4 of 4 B: #1[4·c0] = #0[12 + -4·c0]
    """

    name: str
    operands: tuple[Operand, ...]
    moves: tuple[Move, ...]
    formula: Formula | None = None
    at_once: AtOnce | None = None

    @property
    def scratch_bytes(self) -> int:
        """Bytes that are needed beside the inputs and outputs while the program runs."""
        return sum(operand.size for operand in self.operands if operand.role == "scratch")

    @property
    def constants(self) -> list[np.ndarray[Any, Any]]:
        """The constants' elements, in the order of their numbers; those that are not worked out yet are now."""
        return [np.asarray(operand.value) for operand in self.operands if operand.value is not None]

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants, whether they are worked out yet or not."""
        return sum(operand.value.nbytes for operand in self.operands if operand.value is not None)

    def count(self, role: Role) -> int:
        """How many operands have this role."""
        return sum(operand.role == role for operand in self.operands)

    def problems(self) -> Iterator[str]:
        """What breaks the rules that engines rely on; a program that operators or graphs make has none."""
        roles = [ROLES.index(operand.role) for operand in self.operands]
        if roles != sorted(roles):
            yield "operands are inputs, then outputs, constants and scratch"
        written = {move.destination.operand for move in self.moves}
        for number, move in enumerate(self.moves):
            yield from (f"move {number} ({move}): {problem}" for problem in self._move_problems(move, written))

    def _move_problems(self, move: Move, written: set[int]) -> Iterator[str]:
        ends: list[Access | Lookup] = [
            move.destination,
            *([move.source] if isinstance(move.source, Access) else []),
            *move.every_lookup(),
        ]
        for end in ends:
            if not 0 <= end.operand < len(self.operands):
                yield f"there is no operand {end.operand}"
                return
            if len(end.strides) != len(move.sizes):
                strides = counted(len(end.strides), "stride")
                yield f"it has {counted(len(move.sizes), 'dimension')}, but an access has {strides}"
                return
        if self.operands[move.destination.operand].role not in ("output", "scratch"):
            yield "it writes what is neither output nor scratch"
        if isinstance(move.source, Fill) and (not move.source.pattern or move.element_size % len(move.source.pattern)):
            yield f"its pattern of {len(move.source.pattern)} B does not divide its elements of {move.element_size} B"
        for lookup in move.every_lookup():
            for each in every_lookup((lookup,)) if lookup.outside == "refuse" else ():
                if each.operand in written:
                    yield f"the indices in #{each.operand} are refused before anything is written, but they are written"
        if reads_what_it_writes(move):
            yield "it reads what it writes"
        to = move.destination
        if not to.lookups and not is_injective(zip(move.sizes, to.strides, strict=True), move.element_size):
            yield "it may write a byte twice"

    def with_moves(self, moves: Sequence[Move]) -> Program:
        """The same program by other moves."""
        return replace(self, moves=moves if isinstance(moves, tuple) else tuple(moves))

    def __repr__(self) -> str:
        return f"Program({self.name}: {counted(len(self.operands), 'operand')}, {counted(len(self.moves), 'move')})"

    def _repr_html_(self) -> str | None:
        return page(self, device="")

    def __str__(self) -> str:
        lines = [f"{self.name}: {counted(len(self.moves), 'move')}, {self.scratch_bytes} B of scratch"]
        for number, operand in enumerate(self.operands):
            text = f"  #{number} {operand.role} {operand.name}"
            if operand.role == "scratch":
                text += f": {operand.size} B, because {operand.reason}"
            elif operand.value is not None:
                text += f": {operand.value.nbytes} B"
            lines.append(text)
        return "\n".join([*lines, *(f"  {move}" for move in self.moves)])


def may_write_twice(move: Move) -> bool:
    """Whether two coordinates may write to one element, or to parts of it."""
    to = move.destination
    return bool(to.lookups) and not is_injective(components(to, move.sizes), move.element_size)


def renumbered(move: Move, numbers: Mapping[int, int]) -> Move:
    """A move between operands that have other numbers."""

    def at(access: Access) -> Access:
        return Access(numbers[access.operand], access.offset, access.strides, tuple(map(inside, access.lookups)))

    def inside(lookup: Lookup) -> Lookup:
        return lookup._replace(operand=numbers[lookup.operand], lookups=tuple(map(inside, lookup.lookups)))

    source = move.source
    return Move(move.sizes, at(move.destination), source if isinstance(source, Fill) else at(source), move.element_size)
