"""The judge: the documents' formulas, element by element, in plain Python. Slow, and obviously right.

It asks the operator for its formula (`elements`), never for its moves, so that a wrong move cannot hide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from anydml.backends.base import Array
from anydml.backends.memory import window
from anydml.operators.base import Coordinate, OperatorDesc
from anydml.tensor import Layout


class ReferenceBackend:
    """Runs an operator as its document writes it."""

    def compile(self, desc: OperatorDesc, layouts: Sequence[Layout]) -> ReferenceProgram:
        """There is nothing to prepare."""
        return ReferenceProgram(desc, tuple(layouts))


class ReferenceProgram:
    """An operator's formula and where its operands lie."""

    def __init__(self, desc: OperatorDesc, layouts: tuple[Layout, ...]) -> None:
        self._desc = desc
        self._layouts = layouts
        self._dtypes = [tensor.data_type.dtype for _, tensor in (*desc.inputs, *desc.outputs)]

    def bind(self, operands: Sequence[Array]) -> Callable[[], None]:
        """Views of the operands, by which the formula reads and writes."""
        views = [
            window(operand, 0, layout.sizes, layout.strides, dtype)
            for operand, layout, dtype in zip(operands, self._layouts, self._dtypes, strict=False)
        ]
        views += operands[len(views) :]
        raw = [view.view(np.dtype((np.void, view.itemsize))) if view.ndim else view for view in views]

        def read(operand: int, at: Coordinate) -> int:
            return int(views[operand][at])

        def run() -> None:
            for output, to, source, at in self._desc.elements(read):
                raw[output][to] = raw[source][at]

        return run

    def __str__(self) -> str:
        return f"{self._desc.OPERATOR} on reference: the document's formula, element by element"
