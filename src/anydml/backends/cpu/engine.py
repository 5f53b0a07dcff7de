"""The CPU engine: simplified moves, and for each the NumPy call that does it without a copy of a whole tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anydml.backends.base import Array
from anydml.backends.cpu.small import bind_small
from anydml.moves import Move, simplify
from anydml.operators.base import OperatorDesc
from anydml.tensor import Layout


def program(name: str, moves: Sequence[Move]) -> CpuProgram:
    """Compile moves between host operands; `name` is what the explanation calls them."""
    return CpuProgram(name, simplify(moves))


class CpuBackend:
    """Runs moves on host memory."""

    def compile(self, desc: OperatorDesc, layouts: Sequence[Layout]) -> CpuProgram:
        """Lower and simplify."""
        return program(desc.OPERATOR, desc.moves(layouts))


class CpuProgram:
    """Simplified moves, ready to be bound to operands."""

    def __init__(self, name: str, moves: tuple[Move, ...]) -> None:
        self.name = name
        self.moves = moves

    def bind(self, operands: Sequence[Array]) -> Callable[[], object]:
        """Views of the operands, made once."""
        return bind_small(self.moves, operands)

    def run(self, operands: Sequence[Array]) -> None:
        """Bind and dispatch once."""
        self.bind(operands)()

    def __str__(self) -> str:
        lines = [f"{self.name} on cpu: {len(self.moves)} move(s)"]
        lines += [f"  {move}" for move in self.moves]
        return "\n".join(lines)
