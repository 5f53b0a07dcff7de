"""Traced programs: programs with open sizes, and the guards that decide which calls they are valid for."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from anydml.core import forms, fusing, slots, tapes
from anydml.moves import Fill, LazyConstant, Move, Program, simplify
from anydml.moves.move_numbers import open_numbers_of, with_integers
from anydml.tensor import Layout
from anydml.tracing.results_in_arguments import Pairs, in_place
from anydml.tracing.scope import Scope
from anydml.tracing.specialized_program import Adapters, SpecializedProgram
from anydml.tracing.structure import leaves, map_leaves
from anydml.tracing.surrounding_values import SurroundingValues
from anydml.tracing.tape import AT_LEAST, AT_MOST, CONSTANT, FLOOR, PROVIDED, Step
from anydml.tracing.trace import Sizes, Trace
from anydml.tracing.traced_results import HostNumbers, Result, TracedFunction

INT64_END = 1 << 63

WEIGHT = 4096
"""Approximate bytes of a traced program: fixed, and per move."""

MAX_COMPUTED = 1 << 20
"""Maximum size in bytes of a constant that is computed before a call runs."""

Path = tuple[int, str, int]
"""The first of the numbers of an argument, its name, and, of an array, the number of its dimensions, else −1."""


class TracedProgram:
    """A traced function, valid for all calls that pass its guards.

    Args:
        trace: the finished trace.
        traced: the traced function.
        surrounding_values: what the function could read besides its arguments.
        paths: the meaning of a call's numbers, in ascending order.

    Attributes:
        program: a program with open sizes that writes results of any strides.
        surrounding_values: as given.
        is_assigning: whether the function may assign into arrays.
        is_naming: whether it passes texts or dtypes to functions on arrays.
        has_elements: whether it returns NumPy's arrays without dimensions.
        pins: descriptions of the pinned sizes, for which other calls need another trace.
    """

    def __init__(
        self, trace: Trace, traced: TracedFunction, surrounding_values: SurroundingValues, paths: Sequence[Path] = ()
    ) -> None:
        self.traced = traced
        self.surrounding_values = surrounding_values
        self.pins = [*trace.scope.pins]
        self.is_assigning = trace.is_assigning
        self.is_naming = trace.is_naming or trace.is_assigning
        self.has_elements = trace.device is None and not all(result.array.ndim for result in traced.results)
        self._paths = paths
        scope = trace.scope
        self._register = scope.register
        self._tape = tape = scope.tape
        self._shapes = [tuple(map(scope.register, result.array.shape)) for result in traced.results]
        self._call_steps = len(tape.steps)
        self._strides = [tape.add_provided(len(shape)) for shape in self._shapes]
        for result, registers in zip(traced.results, self._strides, strict=True):
            strides: list[Any] = [scope.variable(register, 0) for register in registers]
            trace.composer.output(f"result {result.number}", result.array.value, strides)
        self.program = trace.composer.program(is_simple=False)
        # Registers are assigned now, so that they do not depend on later calls.
        self._form = _form_of(self.program, scope)
        self._scratch = [scope.register(operand.size) for operand in self.program.operands if operand.role == "scratch"]

    @property
    def weight(self) -> int:
        """Approximate size in bytes."""
        return WEIGHT * (1 + len(self.program.moves)) + self.program.constant_bytes

    def registers(self, numbers: Sequence[int]) -> list[int] | None:
        """Run the tape on the numbers of a call's arguments; return the registers, or None if a guard fails."""
        registers = [*numbers]
        return registers if self._tape.run(registers, self._tape.steps[: self._call_steps]) else None

    def refusal(self, numbers: Sequence[int]) -> str | None:
        """Return the description of the first guard that a call fails; None if none fails."""
        if changed := self.surrounding_values.change():
            return f"{changed} has changed"
        registers = [*numbers]
        for step in self._tape.steps[: self._call_steps]:
            if not self._tape.run(registers, [step]):
                operation, register, operand_or_number = step
                # A division fails if its divisor is 0.
                number = self._source_number(operand_or_number if operation == FLOOR else register)
                return (
                    None if number is None or not self._paths else f"{self._number_text(number)} is {numbers[number]}"
                )
        return None

    def _source_number(self, register: int) -> int | None:
        """Return a number of the arguments that a register depends on; None if there is none."""
        if register < self._tape.input_count:
            return register
        operation, x, y = self._tape.step_of(register)
        if operation in (CONSTANT, PROVIDED):
            return None
        number = self._source_number(x)
        return self._source_number(y) if number is None else number

    def _number_text(self, number: int) -> str:
        first, path, rank = next(entry for entry in reversed(self._paths) if entry[0] <= number)
        size_number = number - first
        return path if rank < 0 else f"{path}.{'shape' if size_number < rank else 'strides'}[{size_number % rank}]"

    def specialize(
        self, registers: Sequence[int], strides: Sequence[Sizes] | None = None, donations: Pairs = ()
    ) -> SpecializedProgram:
        """Specialize to one call.

        Args:
            registers: the call's registers (see `registers`).
            strides: strides in bytes of each result; packed by default.
            donations: results in the memory of arguments (see `donated`).

        Raises:
            BindingError: such a result would overwrite elements that are read later.
        """
        numbers = [*registers]
        shapes = [tuple(numbers[n] for n in shape) for shape in self._shapes]
        if strides is None:
            strides = [
                Layout.packed(shape, result.array.itemsize).strides
                for shape, result in zip(shapes, self.traced.results, strict=True)
            ]
        numbers += [step for steps in strides for step in steps]
        self._tape.run(numbers, self._tape.steps[len(numbers) - self._tape.input_count :])
        sizes = iter(self._scratch)
        operands = [
            operand._replace(size=numbers[next(sizes)]) if operand.role == "scratch" else operand
            for operand in self.program.operands
        ]
        moves = [with_integers(move, lambda size: numbers[self._register(size)]) for move in self.program.moves]
        program = Program(self.traced.name, tuple(operands), simplify(moves))
        if donations:
            outputs = [f"out[{k}]" if len(self.traced.results) > 1 else "out" for k in range(len(self.traced.results))]
            program = in_place(program, donations, [*self.traced.names, *outputs])
        return SpecializedProgram(self.traced, shapes, program)

    def compiled_trace(self, adapters: Adapters) -> Any:
        """Return the trace in the form that compiled code runs; None if compiled code cannot run it.

        Args:
            adapters: the arrays' libraries; None for NumPy.
        """
        traced = self.traced
        if (
            fusing is None
            or self._form is None
            or not traced.engine.is_numpys
            or any(isinstance(leaf, HostNumbers) for leaf in leaves(traced.tree))
        ):
            return None
        if adapters[0] is not None and any(result.like is None for result in traced.results):
            return None
        values = [operand.value for operand in self.program.operands]
        if any(isinstance(value, LazyConstant) and value.nbytes > MAX_COMPUTED for value in values):
            return None
        results = [
            fusing.ResultSpec(shape, result.array.element, result.like or 0)
            for result, shape in zip(self.traced.results, self._shapes, strict=True)
        ]

        def place(leaf: Any, _: str) -> Any:
            return slots.Slot(leaf.number) if isinstance(leaf, Result) else leaf

        tree = map_leaves(traced.tree, place, "")
        try:
            steps = [
                _within_64_bits(step) if step[0] == AT_LEAST or step[0] == AT_MOST else step
                for step in self._tape.steps
            ]
            tape = tapes.Tape(self._tape.input_count, steps, self._call_steps)
        except OverflowError:
            return None
        constants, scratch = tuple(self.program.constants), tuple(self._scratch)
        change = None if self.surrounding_values.is_empty else self.surrounding_values.change
        return fusing.CompiledTrace(
            tape,
            self._call_steps,
            self._form,
            constants,
            scratch,
            self._results_for_scratch(),
            tuple(results),
            tree,
            change,
        )

    def _results_for_scratch(self) -> tuple[int, ...]:
        """Return, for each scratch operand, the result that is a copy of it in the same layout; −1 for none."""
        if not self._scratch:
            return ()
        readers, writers = defaultdict(list), defaultdict(list)
        for move_number, move in enumerate(self.program.moves):
            writers[move.destination.operand].append(move_number)
            for operand in _operands_read(move):
                readers[operand].append(move_number)
        operands = self.program.operands
        outputs = [number for number, operand in enumerate(operands) if operand.role == "output"]

        def result_of(scratch: int) -> int:
            if len(readers[scratch]) != 1 or any(
                move_number >= readers[scratch][0] for move_number in writers[scratch]
            ):
                return -1
            sizes, to, source, element = self.program.moves[readers[scratch][0]]
            if isinstance(source, Fill) or to.lookups or source.lookups or source.operand != scratch:
                return -1
            if to.operand not in outputs or len(writers[to.operand]) > 1:
                return -1
            register, result_number = self._register, outputs.index(to.operand)
            packed = Layout.packed(sizes, element).strides
            size = math.prod(sizes) * element
            expected = [
                *self._shapes[result_number],
                *self._strides[result_number],
                *map(register, packed),
                register(0),
                register(0),
            ]
            present = [*map(register, (*sizes, *to.strides, *source.strides, to.offset, source.offset))]
            # A result has no room for larger scratch.
            return result_number if present == expected and register(operands[scratch].size) == register(size) else -1

        return tuple([result_of(number) for number, operand in enumerate(operands) if operand.role == "scratch"])


def _form_of(program: Program, scope: Scope) -> Any:
    """Give registers to the numbers of a program's moves; return the core's form, None if the core cannot run them."""
    if forms is not None:
        try:
            return forms.Form(program.moves, len(program.operands), scope.register)
        except forms.UnfitError:
            pass
    for move in program.moves:
        for number in open_numbers_of(move):
            scope.register(number)
    return None


def _within_64_bits(step: Step) -> Step:
    """Replace a guard that holds for all numbers of 64 bits, which compiled code is limited to."""
    operation, _, number = step
    is_no_guard = (operation == AT_MOST and number >= INT64_END) or (operation == AT_LEAST and number < -INT64_END)
    return (CONSTANT, 0, 0) if is_no_guard else step


def _operands_read(move: Move) -> set[int]:
    """Return the operands that a move reads."""
    sources = [] if isinstance(move.source, Fill) else [move.source.operand]
    return {*sources, *[lookup.operand for lookup in move.all_lookups()]}
