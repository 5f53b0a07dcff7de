"""What an engine is: it compiles an operator for given layouts into a program, and a program is bound to operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from anydml.operators.base import OperatorDesc
from anydml.tensor import Layout

Array = np.ndarray[Any, Any]


class Program(Protocol):
    """A compiled operator, independent of any buffer. ``str(program)`` explains it."""

    def bind(self, operands: Sequence[Array]) -> Callable[[], object]:
        """Everything that can be decided once the buffers are known; the result does the work, any number of times.

        Args:
            operands: inputs, outputs, constants. An operand is a NumPy array whose first element is where its layout
                begins; its own shape and dtype mean nothing.
        """


class Backend(Protocol):
    """An engine."""

    def compile(self, desc: OperatorDesc, layouts: Sequence[Layout]) -> Program:
        """Compile a checked desc whose inputs and outputs lie as `layouts` say."""
