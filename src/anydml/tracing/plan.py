"""What calls of a fused function with the same layouts share: a program, compiled, and how results are put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter, target_array
from anydml.arrays.receive import guest_of
from anydml.binding import check_overlap, check_strides, check_writeable
from anydml.core import fusing
from anydml.engines.common import scratch_shapes
from anydml.engines.protocol import ArrayEngine, CompiledCall
from anydml.errors import BindingError
from anydml.functions.planning import check_size
from anydml.memory.results import empty
from anydml.moves import Program
from anydml.moves.indices import as_signed
from anydml.tracing.donating import donated, in_place
from anydml.tracing.refusing import broken
from anydml.tracing.structure import PLAIN, leaves, paired, rebuilt
from anydml.tracing.trace import Trace, TracedArray, check_dtype

Array = np.ndarray[Any, Any]
Guests = Sequence[ArrayAdapter | None]

FIXED_WEIGHT, MOVE_WEIGHT = 2048, 1024
"""Bytes that a plan keeps beside its engine's: in any case, and for each move."""


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """One array that a function returns.

    Attributes:
        array: traced.
        like: number of an argument of the same dtype; None where there is none, and all are NumPy's.
        number: which of the results it is.
    """

    array: TracedArray
    like: int | None
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """INT64 numbers that a function returns beside arrays of another library than NumPy."""

    array: Array


class Plan:
    """A traced function.

    Args:
        trace: of the function, which is over.
        tree: what it returned, with a `Result` for every array.
        results: the same in order.
        engine: where it runs.
        names: of the arguments that are arrays.

    Attributes:
        program: what writes packed results.
        is_one: whether the function returns one array.
    """

    def __init__(
        self, trace: Trace, tree: Any, results: Sequence[Result], engine: ArrayEngine, names: Sequence[str]
    ) -> None:
        self.name = trace.name
        self.tree = tree
        self.results = results
        self.names = names
        self.shapes = [(result.array.shape, result.array.element) for result in results]
        for shape, element in self.shapes:
            check_size(trace.name, shape, element)
        self._trace = trace
        self._engine = engine
        self.is_one = isinstance(tree, Result)
        self._is_flat = type(tree) in (tuple, list) and [*tree] == [*results]
        self._is_numpys = engine.is_numpys
        self.program = self._program([None] * len(results))
        self.compiled = self.compile(self.program)

    @property
    def weight(self) -> int:
        """Bytes that are kept, about."""
        kept: int = FIXED_WEIGHT + MOVE_WEIGHT * len(self.program.moves) + self.program.constant_bytes
        return kept + (self.compiled.weight if self.compiled else 0)

    def compile(self, program: Program) -> CompiledCall | None:
        """What runs a program; None where nothing moves."""
        return self._engine.compile_program(program) if program.moves else None

    def in_core(self, adapters: Guests) -> Any:
        """What the compiled core does such calls by, from the arguments to the results; None where Python has to.

        Args:
            adapters: whose the arrays are.
        """
        packed = getattr(self.compiled, "packed", None)
        if fusing is None or packed is None or any(isinstance(leaf, Known) for leaf in leaves(self.tree)):
            return None
        if adapters[0] is not None and any(result.like is None for result in self.results):
            return None
        results = [
            fusing.Result(shape, dtype, result.like or 0)
            for result, (shape, dtype) in zip(self.results, self.shapes, strict=True)
        ]
        tree = rebuilt(self.tree, lambda leaf, _: fusing.Slot(leaf.number) if isinstance(leaf, Result) else leaf, "")
        return fusing.Call(packed, tuple(self.program.constants), scratch_shapes(self.program), tuple(results), tree)

    def run(self, inputs: Sequence[Array], adapters: Guests) -> Any:
        """New results."""
        if adapters[0] is None and self._is_numpys:
            arrays = [*starmap(empty, self.shapes)]
            self._dispatch(self.compiled, (*inputs, *arrays))
            return arrays[0] if self.is_one else self._put_together(arrays)
        given, operands = [], []
        for result, (shape, dtype) in zip(self.results, self.shapes, strict=True):
            source, adapter = inputs[result.like or 0], adapters[result.like or 0]
            (new,), places = self._engine.results(self.name, source, [shape], dtype, adapter)
            given.append((adapter, new))
            operands += places
        self._dispatch(self.compiled, (*inputs, *operands))
        found = [new if adapter is None else self._engine.give(adapter, new) for adapter, new in given]
        return found[0] if self.is_one else self._put_together(found, adapters[0])

    def run_to(
        self, out: Any, inputs: Sequence[Array], adapters: Guests, kept: Callable[[Any, Callable[[], Any]], Any]
    ) -> Any:
        """The results in the caller's arrays.

        Args:
            out: a structure like the results'.
            inputs: as the engines see them.
            adapters: whose they are.
            kept: gives what was kept under a key, or keeps what is made.

        Raises:
            BindingError: `out` does not fit, cannot be written, or overlaps.
        """
        try:
            pairs = [*paired(self.tree, out, Result, "out")]
        except ValueError as error:
            message = f"{self.name}: {error} is not of the structure of the results: {_shown(self.tree)}"
            raise BindingError(
                message, self.name, "out", "out must have one array a result, in the same structure"
            ) from None
        fields, given, targets = [], [], []
        for leaf, field, target in pairs:
            adapter, is_alike = adapters[leaf.like or 0], leaf.like is not None
            array = target_array(self.name, field, target, adapter, is_alike)
            operand = self._engine.target(self.name, field, array)
            shape, dtype = self.shapes[leaf.number]
            if operand.shape != shape or (operand.dtype != dtype and (adapter is None or not is_alike)):
                message = f"{self.name}: {field} is {operand.dtype} {operand.shape}, but the result is {dtype} {shape}"
                raise BindingError(message, self.name, field, "out must have the result's shape and dtype")
            check_strides(self.name, field, operand)
            check_writeable(self.name, field, operand)
            fields.append(field)
            given.append((adapter, target))
            targets.append(operand)
        donations = donated(inputs, targets)
        given_away = {number for number, _ in donations}
        apart = [number for number in range(len(inputs)) if number not in given_away]
        names, arrays = [*(self.names[k] for k in apart), *fields], [*(inputs[k] for k in apart), *targets]
        check_overlap(self.name, names, arrays, first_output=len(apart))
        compiled = self.compiled
        if donations or not all(target.flags.c_contiguous for target in targets):
            strides = tuple(target.strides for target in targets)

            def compile_again() -> CompiledCall | None:
                program = self._program(strides)
                return self.compile(in_place(program, donations, [*self.names, *fields]) if donations else program)

            compiled = kept((strides, donations), compile_again)
        self._dispatch(compiled, (*inputs, *targets))
        for adapter, target in given:
            if adapter is not None:
                type(adapter)(target).written()
        return out

    def _dispatch(self, compiled: CompiledCall | None, operands: tuple[Array, ...]) -> None:
        if compiled is None:
            return
        try:
            compiled.run(operands)
        except IndexError as error:
            raise as_signed(error, self._trace.unsigned) from None

    def _put_together(self, arrays: Sequence[Any], adapter: ArrayAdapter | None = None) -> Any:
        if self._is_flat:
            return type(self.tree)(arrays)

        def put(leaf: Any, path: str) -> Any:
            if isinstance(leaf, Known):
                return adapter.give_lengths(leaf.array.copy()) if adapter is not None else leaf.array.copy()
            return arrays[leaf.number] if isinstance(leaf, Result) else leaf

        return rebuilt(self.tree, put, "")

    def _program(self, strides: Sequence[Any]) -> Program:
        composer = self._trace.composer.copy()
        for result, own in zip(self.results, strides, strict=True):
            composer.output(f"result {result.number}", result.array.value, own)
        return composer.program()

    def __str__(self) -> str:
        moves = self.program.moves
        read, written = sum(move.bytes_read for move in moves), sum(move.bytes_written for move in moves)
        return f"{self.program}\n  {read} B to read, {written} B to write"


def results_of(trace: Trace, tree: Any, adapters: Guests, inputs: Sequence[Array]) -> Any:
    """What a function returned, with a `Result` for every array, and these.

    Args:
        trace: of the function.
        tree: what it returned.
        adapters: whose these are.
        inputs: as the engines see them.

    Raises:
        FuseError: it returned what is neither an array nor plain, or an array that the library cannot take.
    """
    results: list[Result] = []

    def result(leaf: Any, path: str) -> Any:
        if isinstance(leaf, PLAIN) and not isinstance(leaf, np.ndarray):
            return leaf
        if not isinstance(leaf, (TracedArray, np.ndarray)) and guest_of(leaf) is None:
            raise broken(f"{trace.name} returned a {type(leaf).__name__}: return arrays in tuples, lists or dicts")
        if adapters[0] is not None and isinstance(leaf, np.ndarray) and leaf.dtype == np.int64:
            return Known(leaf.copy())
        array = trace.array(leaf)
        check_dtype(array.element, path)
        like = array.like
        if like is None:
            like = next((k for k, each in enumerate(inputs) if each.dtype == array.element), None)
        if like is None and adapters[0] is not None and not adapters[0].holds(array.element):
            raise broken(f"{path} is {array.element}, but no argument is, and so is no array of its library")
        results.append(Result(array, like, len(results)))
        return results[-1]

    return rebuilt(tree, result, f"the result of {trace.name}"), results


def _shown(tree: Any) -> str:
    shown = rebuilt(tree, lambda leaf, _: leaf.array.shape if isinstance(leaf, Result) else leaf, "")
    return str(shown)
