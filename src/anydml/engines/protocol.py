"""The interfaces of engines: a program is compiled, bound to operands, and dispatched."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from anydml.moves import Program

if TYPE_CHECKING:
    from anydml.arrays import ArrayAdapter

Array = np.ndarray[Any, Any]


class CompiledProgram(Protocol):
    """A compiled program, independent of any buffer. ``str(compiled)`` explains it."""

    def bind(self, operands: Sequence[Array]) -> Callable[[], object]:
        """Prepare everything that depends on the buffers; the returned function runs the program, any number of times.

        Args:
            operands: inputs, then outputs: NumPy arrays whose first element is the origin of the moves' offsets; their
                shapes and dtypes are ignored.
        """


class Engine(Protocol):
    """Compiles programs for one kind of machine."""

    def compile(self, program: Program) -> CompiledProgram:
        """Compile a program. The engine allocates its constants and scratch."""


class CompiledCall(Protocol):
    """A compiled program that functions run on different arrays in each call."""

    def run(self, operands: Sequence[Array]) -> None:
        """Bind inputs and results, and dispatch once."""

    @property
    def weight(self) -> int:
        """Approximate size in bytes."""


class ArrayEngine(Protocol):
    """An engine for functions on arrays, which also allocates their results.

    Attributes:
        key: identifies the engine in keys of caches.
        is_numpys: whether NumPy can access the arrays directly.
    """

    key: Hashable
    is_numpys: bool

    def compile_program(
        self, program: Program, shapes: Sequence[tuple[int, ...]] | None = None, itemsize: int = 1
    ) -> CompiledCall:
        """Compile a program that may have constants, scratch and fills.

        Args:
            program: the program.
            shapes: shapes of the outputs if they are allocated by `results`; None if they are separate arrays.
            itemsize: bytes per element of the outputs.
        """

    def results(
        self,
        name: str,
        like: Array,
        shapes: Sequence[tuple[int, ...]],
        dtype: np.dtype[Any],
        adapter: ArrayAdapter | None,
    ) -> tuple[list[Any], list[Array]]:
        """Allocate results; return them in the form that adapters take, and as operands of the compiled call."""

    def target(self, name: str, field: str, array: Array) -> Array:
        """Convert the caller's array to an operand.

        Raises:
            BindingError: the array is not in this engine's memory.
        """


def only_name(name: str, device: str) -> None:
    """Check that a device's name has no number, for engines with one device.

    Raises:
        ValueError: the name has a number.
    """
    if device != name:
        raise ValueError(f"unknown device {device!r}: there is one {name!r}, without a number")
