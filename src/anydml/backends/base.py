"""What an engine is: it compiles a program, and what comes out is bound to operands and dispatched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from anydml.moves import Program

Array = np.ndarray[Any, Any]


class CompiledProgram(Protocol):
    """A compiled program, independent of any buffer. ``str(compiled)`` explains it."""

    def bind(self, operands: Sequence[Array]) -> Callable[[], object]:
        """Everything that can be decided once the buffers are known; the result does the work, any number of times.

        Args:
            operands: inputs, then outputs. An operand is a NumPy array whose first element is where the moves' offsets
                count from; its own shape and dtype mean nothing.
        """


class Backend(Protocol):
    """An engine."""

    def compile(self, program: Program) -> CompiledProgram:
        """Choose how to run a program, whose constants and scratch are the engine's to provide."""
