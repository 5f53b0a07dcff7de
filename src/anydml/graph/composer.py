"""The program of a graph in the making."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anydml.moves.compose import CONSTANT, OUTPUT, SCRATCH, Composer
from anydml.moves.constant import Constant, as_bytes
from anydml.moves.move import Move
from anydml.moves.program import Operand
from anydml.moves.value import Value


class GraphComposer(Composer):
    """A program in the making whose operands are bytes, and in which a value is stored once."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._known: dict[Value, Value] = {}

    def constant_bytes(self, name: str, array: Constant) -> int:
        """The number of a constant that is known."""
        return self._add(CONSTANT, Operand("constant", name, value=as_bytes(array)))

    def output_bytes(self, name: str) -> int:
        """The number of the next output."""
        return self._add(OUTPUT, Operand("output", name))

    def scratch_bytes(self, size: int, reason: str) -> int:
        """The number of new scratch."""
        name = f"scratch {self._counts[SCRATCH]}"
        return self._add(SCRATCH, Operand("scratch", name, size, reason=reason))

    def move(self, moves: Iterator[Move] | Sequence[Move]) -> None:
        """Moves that come next."""
        self._moves += moves

    def stored(self, value: Value, reason: str) -> Value:
        """The value in scratch, in which it is but once."""
        if value not in self._known:
            self._known[value] = super().stored(value, reason)
        return self._known[value]

    def indexable(self, value: Value) -> Value:
        """A value whose fills are constants, which can be looked up."""
        return self._without_fills(value)
