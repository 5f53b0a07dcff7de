"""The reference engine: the documents' formulas, element by element, in plain Python. Slow, and easy to verify.

It uses the operator's formula, never its moves, so that comparisons reveal wrong moves. A program without a formula is
run by the definition of a move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from anydml.engines.common import scratch_arrays
from anydml.engines.protocol import Array
from anydml.engines.reference.literal import bind_literally
from anydml.memory.host import window
from anydml.moves import Program
from anydml.moves.program import Coordinate, Formula


class ReferenceEngine:
    """Runs operators by their documents' formulas."""

    def compile(self, program: Program) -> ReferenceProgram:
        """Return the program; there is nothing to compile."""
        return ReferenceProgram(program)


class ReferenceProgram:
    """A program that is run by its formula or by the definition of a move."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def bind(self, operands: Sequence[Array]) -> Callable[[], None]:
        """Create the views of the operands that the formula reads and writes."""
        formula = self._program.formula
        if formula is not None:
            # Formulas need no scratch.
            return partial(_run, formula, [*operands, *self._program.constants])
        return bind_literally(self._program, [*operands, *scratch_arrays(self._program)])

    def __str__(self) -> str:
        how = "by definition, move by move" if self._program.formula is None else "the document's formula"
        return f"{self._program.name} on reference: {how}, element by element"


def _run(formula: Formula, operands: Sequence[Array]) -> None:
    views = [
        window(operand, 0, sizes, strides, dtype)
        for operand, (sizes, strides, dtype) in zip(operands, formula.tensors, strict=True)
    ]
    raw = [view.view(np.dtype((np.void, view.itemsize))) if view.ndim else view for view in views]

    def read(operand: int, at: Coordinate) -> int:
        index: int = views[operand][at].item()
        return index

    for output, to, source, at in formula.elements(read):
        target = raw[output]
        target[to] = np.frombuffer(source, target.dtype)[0] if isinstance(source, bytes) else raw[source][at]
