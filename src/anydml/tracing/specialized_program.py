"""A traced function specialized to one call's numbers: the compiled program, and the structure of its results.

Calls that the compiled core does not support run this way (see `traced_program`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter, target_array
from anydml.binding import check_overlap, check_strides, check_writeable
from anydml.engines.protocol import CompiledCall
from anydml.errors import BindingError
from anydml.functions.call_plans import check_size
from anydml.moves import Program
from anydml.moves.wrapped_indices import as_signed
from anydml.tracing.results_in_arguments import Pairs, donated
from anydml.tracing.structure import map_leaves, pair_leaves
from anydml.tracing.trace import Sizes
from anydml.tracing.traced_results import HostNumbers, Result, TracedFunction

Array = np.ndarray[Any, Any]
Adapters = Sequence[ArrayAdapter | None]

FIXED_WEIGHT = 2048
"""Approximate bytes of a specialization without moves, beside the engine's."""

MOVE_WEIGHT = 1024
"""Approximate bytes of a specialization per move, beside the engine's."""


class SpecializedProgram:
    """A traced program with integers in place of its open sizes.

    Args:
        traced: the traced function.
        shapes: the results' shapes.
        program: the program that writes the results.

    Attributes:
        program: the program.
        shapes: the results' shapes and dtypes.
        compiled: the compiled program; None if nothing moves.

    Raises:
        DescError: a result exceeds the address space.
    """

    def __init__(self, traced: TracedFunction, shapes: Sequence[Sizes], program: Program) -> None:
        self.name = traced.name
        self.program = program
        self.shapes = [(shape, result.array.element) for shape, result in zip(shapes, traced.results, strict=True)]
        for shape, element in self.shapes:
            check_size(traced.name, shape, element)
        self._traced = traced
        self._engine = traced.engine
        self.compiled: CompiledCall | None = self._engine.compile_program(program) if program.moves else None

    @property
    def weight(self) -> int:
        """Approximate size in bytes."""
        weight_bytes: int = FIXED_WEIGHT + MOVE_WEIGHT * len(self.program.moves) + self.program.constant_bytes
        return weight_bytes + (self.compiled.weight if self.compiled else 0)

    def run(self, inputs: Sequence[Array], adapters: Adapters) -> Any:
        """Run the program; return new arrays."""
        new_arrays, operands = [], []
        for result, (shape, dtype) in zip(self._traced.results, self.shapes, strict=True):
            source, adapter = inputs[result.like or 0], adapters[result.like or 0]
            (new,), new_operands = self._engine.results(self.name, source, [shape], dtype, adapter)
            new_arrays.append((adapter, new))
            operands += new_operands
        self._dispatch((*inputs, *operands))
        results = [new if adapter is None else adapter.to_library(new) for adapter, new in new_arrays]
        return self._structured(results, adapters[0])

    def run_to(
        self,
        out: Any,
        inputs: Sequence[Array],
        adapters: Adapters,
        specialize: Callable[[Sequence[Sizes], Pairs], SpecializedProgram],
    ) -> Any:
        """Run the program; write the results to the caller's arrays.

        Args:
            out: arrays in the structure of the results.
            inputs: the arguments' arrays, as engines take them.
            adapters: the arrays' libraries; None for NumPy.
            specialize: returns the program for results of other strides, in bytes, some in an argument's memory.

        Raises:
            BindingError: `out` does not fit, cannot be written, or overlaps.
        """
        try:
            pairs = [*pair_leaves(self._traced.tree, out, Result, "out")]
        except ValueError as error:
            shapes = self._shape_text()
            message = f"{self.name}: {error} does not have the structure of the results, whose shapes are {shapes}"
            raise BindingError(
                message, self.name, "out", "out must have one array per result, in the same structure"
            ) from None
        fields, written, targets = [], [], []
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
            written.append((adapter, target))
            targets.append(operand)
        donations = donated(inputs, targets)
        donated_inputs = {input_number for input_number, _ in donations}
        other_inputs = [input_number for input_number in range(len(inputs)) if input_number not in donated_inputs]
        names, arrays = (
            [*(self._traced.names[k] for k in other_inputs), *fields],
            [*(inputs[k] for k in other_inputs), *targets],
        )
        check_overlap(self.name, names, arrays, first_output=len(other_inputs))
        specialized = self
        if donations or not all(target.flags.c_contiguous for target in targets):
            specialized = specialize([target.strides for target in targets], donations)
        specialized._dispatch((*inputs, *targets))
        for adapter, target in written:
            if adapter is not None:
                type(adapter)(target).mark_written()
        return out

    def _dispatch(self, operands: tuple[Array, ...]) -> None:
        if self.compiled is None:
            return
        try:
            self.compiled.run(operands)
        except IndexError as error:
            raise as_signed(error, self._traced.unsigned) from None

    def _structured(self, arrays: Sequence[Any], adapter: ArrayAdapter | None = None) -> Any:
        def in_library(leaf: Any, path: str) -> Any:
            if isinstance(leaf, HostNumbers):
                return adapter.from_lengths(leaf.array.copy()) if adapter is not None else leaf.array.copy()
            return arrays[leaf.number] if isinstance(leaf, Result) else leaf

        return map_leaves(self._traced.tree, in_library, "")

    def _shape_text(self) -> str:
        shapes = [shape for shape, _ in self.shapes]
        return str(
            map_leaves(self._traced.tree, lambda leaf, _: shapes[leaf.number] if isinstance(leaf, Result) else leaf, "")
        )

    def __str__(self) -> str:
        moves = self.program.moves
        read, written = sum(move.bytes_read for move in moves), sum(move.bytes_written for move in moves)
        return f"{self.program}\n  {read} B to read, {written} B to write"
