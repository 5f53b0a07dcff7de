"""Programs between arrays in files; moves that several tensors have in common are stored once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.moves import Move, Operand, Program
from anydml.moves.move_numbers import renumber_operands
from anydml.stores.formats.store import Numbers


class RepeatedMoves(NamedTuple):
    """Moves that are repeated for several sets of operands.

    Attributes:
        moves: simplified moves; their operand k is entry k of a set, and constants follow.
        sets: the numbers of inputs and outputs, one row per set; outputs are numbered after all inputs.
    """

    moves: tuple[Move, ...]
    sets: Numbers


class CompactProgram(NamedTuple):
    """A program between inputs and outputs, whose operands come first; the constants follow.

    Attributes:
        name: the name of the program, for errors.
        repeated_moves: all moves, in the program's order.
        program: a program with the same constants and scratch; the whole program if it has moves.
    """

    name: str
    repeated_moves: Sequence[RepeatedMoves]
    program: Program

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants."""
        return self.program.constant_bytes

    def moves(self, arrays: int, outputs: Collection[int] | None = None) -> Iterator[Move]:
        """Yield all moves, or those to some outputs; the first `arrays` operands are inputs and outputs."""
        constants = range(arrays, arrays + len(self.program.constants))
        are_wanted = np.ones(arrays, bool)
        if outputs is not None:
            are_wanted[:] = False
            are_wanted[[*outputs]] = True
        if not are_wanted.any():
            return
        for moves, sets in self.repeated_moves:
            ends = [move.destination.operand for move in moves]
            for operands in sets[are_wanted[sets[:, [*{*ends}]]].any(1)].tolist():
                numbers = dict(enumerate((*operands, *constants)))
                for move, end in zip(moves, ends, strict=True):
                    if are_wanted[operands[end]]:
                        yield renumber_operands(move, numbers)

    def with_all_moves(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> Program:
        """Return this program with a list of all moves."""
        if self.program.moves:
            return self.program
        operands = [Operand("input", f"{store.path.name}: {store.name}") for store in inputs]
        operands += [Operand("output", f"{target.path.name}: {target.name}") for target in outputs]
        operands += [operand for operand in self.program.operands if operand.role == "constant"]
        return Program(self.name, tuple(operands), tuple(self.moves(len(inputs) + len(outputs))))
