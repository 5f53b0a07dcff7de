"""What an engine is: it compiles a program, and what comes out is bound to operands and dispatched."""

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
        """Everything that can be decided once the buffers are known; the result does the work, any number of times.

        Args:
            operands: inputs, then outputs. An operand is a NumPy array whose first element is where the moves' offsets
                count from; its own shape and dtype mean nothing.
        """


class Engine(Protocol):
    """An engine."""

    def compile(self, program: Program) -> CompiledProgram:
        """Choose how to run a program, whose constants and scratch are the engine's to provide."""


class CompiledCall(Protocol):
    """A program that functions run, each time on other arrays."""

    def run(self, operands: Sequence[Array]) -> None:
        """Bind inputs and results, and dispatch once."""

    @property
    def weight(self) -> int:
        """Bytes of memory that it keeps, about."""


class ArrayEngine(Protocol):
    """What functions ask of an engine beside `Engine`: memory for their results.

    Attributes:
        key: what tells plans of this engine from those of others.
        is_numpys: whether NumPy may read and write the arrays itself.
    """

    key: Hashable
    is_numpys: bool

    def compile_program(
        self, program: Program, shapes: Sequence[tuple[int, ...]] | None = None, itemsize: int = 1
    ) -> CompiledCall:
        """Compile a program that may have constants, scratch and fills.

        Args:
            program: what is done.
            shapes: of its outputs, where those are `results`; None where they are arrays of their own.
            itemsize: bytes of their elements.
        """

    def results(
        self,
        name: str,
        like: Array,
        shapes: Sequence[tuple[int, ...]],
        dtype: np.dtype[Any],
        adapter: ArrayAdapter | None,
    ) -> tuple[list[Any], list[Array]]:
        """New results: as `give` takes them, and as operands of what `compile_program` gave."""

    def give(self, adapter: ArrayAdapter, result: Any) -> Any:
        """A result as an array of the adapter's library."""

    def target(self, name: str, field: str, array: Array) -> Array:
        """The caller's array as an operand.

        Raises:
            BindingError: it does not lie where this engine runs.
        """


def only_name(name: str, device: str) -> None:
    """Refuse a device's number where there is one device.

    Raises:
        ValueError: the device is not called by the engine's name alone.
    """
    if device != name:
        raise ValueError(f"unknown device {device!r}: there is one {name!r}, without a number")
