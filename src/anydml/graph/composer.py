"""The composer of graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from anydml.moves.composer import CONSTANT, OUTPUT, SCRATCH, Composer
from anydml.moves.constant import Constant, as_bytes
from anydml.moves.move import Move
from anydml.moves.pieces import NotComposableError
from anydml.moves.program import Operand
from anydml.moves.value import Value


class GraphComposer(Composer):
    """A composer whose operands are untyped bytes, and which stores each value once.

    Attributes:
        reading: the name of the tensor that is viewed next, for the reasons why values are stored.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._known: dict[Value, Value] = {}
        self.reading = ""

    def constant_bytes(self, name: str, array: Constant) -> int:
        """Add a constant, viewed as bytes, and return its operand number."""
        return self._add(CONSTANT, Operand("constant", name, value=as_bytes(array)))

    def output_bytes(self, name: str) -> int:
        """Add an output, addressed in bytes, and return its operand number."""
        return self._add(OUTPUT, Operand("output", name))

    def scratch_bytes(self, size: int, reason: str) -> int:
        """Add scratch memory, addressed in bytes, and return its operand number."""
        name = f"scratch {self._counts[SCRATCH]}"
        return self._add(SCRATCH, Operand("scratch", name, size, reason=reason))

    def move(self, moves: Iterator[Move] | Sequence[Move]) -> None:
        """Append moves."""
        self._moves += moves

    def store(self, value: Value, reason: str) -> Value:
        """Store a value in scratch, unless it is stored already."""
        if value not in self._known:
            self._known[value] = super().store(value, reason)
        return self._known[value]

    def _try(self, value: Value, change: Callable[[Value], Value]) -> Value:
        try:
            return change(value)
        except NotComposableError as error:
            return change(self.store(value, f"{self.reading} is read: {error}"))
