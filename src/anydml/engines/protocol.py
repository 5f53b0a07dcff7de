"""What an engine is: it compiles a program, and what comes out is bound to operands and dispatched."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

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


ArrayLayout = tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]
"""Shape, strides in bytes, and dtype."""

Start = Callable[[int], int]
"""Does a call's work on the arrays of the tuple at an address, or returns 1 if they are not what it was made for, an
output is read-only, or outputs may overlap: then nothing was done, and the long way says what is wrong."""


class Whole(NamedTuple):
    """A call of which compiled code does all, from the arguments to the results.

    Attributes:
        make: makes a table in which such calls are found (see `anydml.engines.cpu.whole_calls`), which is
            told whether lists of integers are as good as tuples.
        block: where the words are that say what it does.
        space: bytes of workspace that it takes beside a tuple of its operands.
        start: a launch's own, for work that other threads of Python go on beside; None for less.
        kept: what has to be kept alive.
    """

    make: Callable[[bool], Any]
    block: int
    space: int
    start: Start | None
    kept: object


class Launch(NamedTuple):
    """A call's work in one step, for arrays of NumPy's own.

    Attributes:
        start: does it.
        kept: what `start` needs kept alive.
        weight: bytes that are kept, about.
        spans: bytes from each operand's first element to the one past its highest.
        variant: the same for a tuple in which arguments of these types follow the arrays (integers, floats, words,
            None, tuples of integers): those that are of other types are refused, too. That they are equal is the
            caller's to see.
            With a type of another library's arrays, these are what the tuple has; None where they cannot be read.
        is_ready: whether `variant` answers at once for a type; where it does not, it will soon.
        whole: the same without a tuple, for functions' own arguments; None for another library's arrays whose
            structure is not known.
    """

    start: Start
    kept: object
    weight: int
    spans: tuple[int, ...]
    variant: Callable[[Sequence[object], type | None], Launch | None]
    is_ready: Callable[[type | None], bool]
    whole: Whole | None = None


class CompiledCall(Protocol):
    """A program that functions run, each time on other arrays."""

    def run(self, operands: Sequence[Array]) -> None:
        """Bind inputs and results, and dispatch once."""

    @property
    def weight(self) -> int:
        """Bytes of memory that it keeps, about."""


class Launches(Protocol):
    """What makes calls that come often a single step."""

    def often(self, calls: int) -> int:
        """Calls of one plan after which that pays, or after which to ask again; 0 where it never does.

        Args:
            calls: how many there were. What pays for several plans together may depend on it.
        """

    def ask(
        self,
        program: Program,
        layouts: Sequence[ArrayLayout],
        inputs: int,
        ready: Callable[[Launch], object],
    ) -> None:
        """Make a program such a step for arrays of these layouts; nobody waits.

        Args:
            program: what it does.
            layouts: of inputs and results.
            inputs: how many of them are inputs.
            ready: takes it once it is there, in any thread; is never called where it cannot be made.
        """


class ArrayEngine(Protocol):
    """What functions ask of an engine beside `Engine`: memory for their results.

    Attributes:
        key: what tells plans of this engine from those of others.
        is_numpys: whether NumPy may read and write the arrays itself.
        launches: what makes calls that come often a single step; None where nothing does.
    """

    key: Hashable
    is_numpys: bool

    @property
    def launches(self) -> Launches | None:
        """See above."""

    def compile_call(self, program: Program, shapes: Sequence[tuple[int, ...]] | None, itemsize: int) -> CompiledCall:
        """Compile a program whose outputs are `results` of these shapes, or, without shapes, the caller's own."""

    def compile_program(self, program: Program) -> CompiledCall:
        """Compile a program that may have constants, scratch and fills; its outputs are arrays of their own."""

    def results(
        self,
        name: str,
        like: Array,
        shapes: Sequence[tuple[int, ...]],
        dtype: np.dtype[Any],
        adapter: ArrayAdapter | None,
    ) -> tuple[list[Any], list[Array]]:
        """New results: as `give` takes them, and as operands of what `compile_call` gave."""

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
