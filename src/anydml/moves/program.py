"""Programs, the input of engines: an ordered list of moves, and the operands that they move between.

The result must be as if the moves ran in sequence (see `order` for moves that may run concurrently).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from anydml.hooks import HOOKS
from anydml.moves.constant import Constant
from anydml.moves.dependencies import reads_what_it_writes
from anydml.moves.move import Access, Fill, Lookup, Move, all_lookups, components
from anydml.moves.simplify import is_injective
from anydml.records import Record, record
from anydml.text import count_noun

Role = Literal["input", "output", "constant", "scratch"]
ROLES: tuple[Role, ...] = ("input", "output", "constant", "scratch")


class Operand(NamedTuple):
    """Memory that moves refer to by its number.

    Attributes:
        role: inputs and outputs are bound by the caller, in this order; constants and scratch belong to the program.
        name: name in explanations and errors.
        size: bytes of scratch.
        value: a constant's bytes, as a contiguous array, perhaps computed when first read.
        is_on_host: whether it is in host memory on every device.
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
"""The source of one output element: output operand, its coordinate, source operand, its coordinate. A constant element
has its bytes instead of the source operand, and any coordinate."""

ReadIndex = Callable[[int, Coordinate], int]
"""Reads one element of an operand: an index, or a number that is compared with 0."""


class Formula(NamedTuple):
    """An operator's definition by its document, for the reference engine.

    Attributes:
        elements: yields the source of every output element, by the document's formula.
        tensors: sizes, byte strides and dtype of the operands that coordinates refer to, constants included.
    """

    elements: Callable[[ReadIndex], Iterator[Element]]
    tensors: tuple[tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]], ...]


FindNonzero = Callable[[np.ndarray[Any, Any], "np.dtype[Any]"], np.ndarray[Any, Any]]
"""Returns the coordinates of all nonzero elements, one row per element in row-major order, in the given dtype."""


class HostKernel(NamedTuple):
    """A function that replaces all moves of a program on host memory, where the moves would take many passes.

    Attributes:
        work: the function, on views of the formula's tensors, with the engine's function that finds nonzero elements.
        about: a description for explanations.
    """

    work: Callable[[Sequence[np.ndarray[Any, Any]], FindNonzero], None]
    about: str


_FIELDS = ("name", "operands", "moves", "formula", "host_kernel")


@record
class Program(Record):
    """Moves between operands: inputs first, then outputs, constants and scratch.

    Attributes:
        name: name in explanations and errors.
        operands: the operands, by number.
        moves: the moves, in order.
        formula: the definition of the operator that the moves come from, if there is one.
        host_kernel: a faster equivalent on host memory, if there is one.

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
    host_kernel: HostKernel | None = None

    def __init__(
        self,
        name: str,
        operands: tuple[Operand, ...],
        moves: tuple[Move, ...],
        formula: Formula | None = None,
        host_kernel: HostKernel | None = None,
    ) -> None:
        # Written by hand: to make the methods of other records takes longer than the first trace of a process.
        for field, value in zip(_FIELDS, (name, operands, moves, formula, host_kernel), strict=True):
            object.__setattr__(self, field, value)

    @property
    def scratch_bytes(self) -> int:
        """Bytes of all scratch operands together."""
        return sum(operand.size for operand in self.operands if operand.role == "scratch")

    @property
    def constants(self) -> list[np.ndarray[Any, Any]]:
        """The constants' elements, in the order of their numbers; lazy ones are computed."""
        return [np.asarray(operand.value) for operand in self.operands if operand.value is not None]

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants, computed or not."""
        return sum(operand.value.nbytes for operand in self.operands if operand.value is not None)

    def count(self, role: Role) -> int:
        """Return the number of operands with a role."""
        return sum(operand.role == role for operand in self.operands)

    def problems(self) -> Iterator[str]:
        """Yield violations of the rules that engines rely on; programs of operators and graphs have none."""
        roles = [ROLES.index(operand.role) for operand in self.operands]
        if roles != sorted(roles):
            yield "operands must be inputs, then outputs, constants and scratch"
        written = {move.destination.operand for move in self.moves}
        for move_number, move in enumerate(self.moves):
            yield from (f"move {move_number} ({move}): {problem}" for problem in self._move_problems(move, written))

    def _move_problems(self, move: Move, written: set[int]) -> Iterator[str]:
        ends: list[Access | Lookup] = [
            move.destination,
            *([move.source] if isinstance(move.source, Access) else []),
            *move.all_lookups(),
        ]
        for end in ends:
            if not 0 <= end.operand < len(self.operands):
                yield f"there is no operand {end.operand}"
                return
            if len(end.strides) != len(move.sizes):
                strides = count_noun(len(end.strides), "stride")
                yield f"it has {count_noun(len(move.sizes), 'dimension')}, but an access has {strides}"
                return
        if self.operands[move.destination.operand].role not in ("output", "scratch"):
            yield "it writes an operand that is neither output nor scratch"
        if isinstance(move.source, Fill) and (not move.source.pattern or move.element_size % len(move.source.pattern)):
            yield f"its pattern of {len(move.source.pattern)} B does not divide its elements of {move.element_size} B"
        for lookup in move.all_lookups():
            for read in all_lookups((lookup,)) if lookup.outside == "error" else ():
                if read.operand in written:
                    yield f"the indices in #{read.operand} are refused before anything is written, but they are written"
        if reads_what_it_writes(move):
            yield "it reads what it writes"
        to = move.destination
        steps = [*zip(move.sizes, to.strides, strict=True)]
        stays = any(size > 1 and not stride for size, stride in steps)
        if not to.lookups and (stays or not is_injective(steps, move.element_size)):
            yield "it may write a byte twice"

    def with_moves(self, moves: Sequence[Move]) -> Program:
        """Return the program with other moves."""
        all_moves = moves if isinstance(moves, tuple) else tuple(moves)
        return Program(self.name, self.operands, all_moves, self.formula, self.host_kernel)

    def __repr__(self) -> str:
        return (
            f"Program({self.name}: {count_noun(len(self.operands), 'operand')}, {count_noun(len(self.moves), 'move')})"
        )

    def _repr_html_(self) -> str | None:
        return HOOKS["explain"](self, device="")._repr_html_()  # type: ignore[no-any-return]

    def __str__(self) -> str:
        lines = [f"{self.name}: {count_noun(len(self.moves), 'move')}, {self.scratch_bytes} B of scratch"]
        for operand_number, operand in enumerate(self.operands):
            text = f"  #{operand_number} {operand.role} {operand.name}"
            if operand.role == "scratch":
                text += f": {operand.size} B, because {operand.reason}"
            elif operand.value is not None:
                text += f": {operand.value.nbytes} B"
            lines.append(text)
        return "\n".join([*lines, *(f"  {move}" for move in self.moves)])


def may_write_twice(move: Move) -> bool:
    """Whether two coordinates may write to overlapping elements."""
    to = move.destination
    return bool(to.lookups) and not is_injective(components(to, move.sizes), move.element_size)
