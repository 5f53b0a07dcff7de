"""Plans of calls, made from layouts and arguments alone; calls that break a rule are refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.binding import check_strides
from anydml.engines.program_cache import ProgramCache
from anydml.engines.protocol import ArrayEngine
from anydml.errors import BindingError, DescError
from anydml.functions.arguments import is_movable, joined_dtype
from anydml.functions.lowering import constant_operands
from anydml.moves import Operand, Program
from anydml.operators.function import Function, Inferred, Sizes
from anydml.tensor import Layout
from anydml.text import counted

Array = np.ndarray[Any, Any]

PLANS = ProgramCache()
"""Cached plans of the calls that compiled code does not handle."""


class CallPlan(NamedTuple):
    """The part of a call that all calls with the same layouts and arguments share.

    Attributes:
        inferred: parameters and shapes.
        dtype: dtype of the results.
        compiled: the compiled program; None if NumPy moves the elements, or there are none.
        is_empty: whether there are no elements to move.
    """

    inferred: Inferred
    dtype: np.dtype[Any]
    compiled: Any
    is_empty: bool

    @property
    def weight(self) -> int:
        """Approximate size in bytes."""
        size: int = 1024 + 64 * len(self.inferred.shapes) + (self.compiled.weight if self.compiled else 0)
        return size


def out_names(function: Function, out: Sequence[Any] | None) -> list[str]:
    """Return the names of the arrays of `out`, for errors."""
    return [f"out[{i}]" for i in range(0 if out is None else len(out))] if function.has_parts else ["out"]


def make_plan(
    name: str,
    function: Function,
    inputs: Sequence[Array],
    arguments: tuple[Any, ...],
    targets: Sequence[Array] | None,
    engine: ArrayEngine,
    is_in_place: bool,
) -> CallPlan:
    """Make the plan of a call.

    Args:
        name: the function's name, for errors.
        function: its rules.
        inputs: arrays as the engines see them.
        arguments: the other arguments.
        targets: the caller's arrays to write to; None for new ones.
        engine: the engine that compiles the program.
        is_in_place: whether the target is the first input itself.

    Raises:
        DescError: the arguments break a rule of the function.
        BindingError: targets do not fit.
        MemoryError: the program's constants exceed the address space.
    """
    inferred = function.infer(name, [array.shape for array in inputs], arguments)
    dtype = inputs[0].dtype
    is_joined = False
    if function.is_of_lists and any(array.dtype != dtype for array in inputs):
        # Strings of several lengths, which NumPy pads.
        dtype, is_joined = joined_dtype(inputs) or dtype, True
    if targets is not None:
        _check_targets(name, out_names(function, targets), inferred.shapes, dtype, targets)
    for shape in inferred.shapes:
        check_size(name, shape, dtype)
    written = sum(map(math.prod, inferred.shapes)) * dtype.itemsize
    if not written:
        return CallPlan(inferred, dtype, None, is_empty=True)
    most = function.shortcuts.written_by_numpy
    is_numpys_own = is_joined or not is_movable(dtype) or (most is not None and written >= most)
    if engine.is_numpys and is_numpys_own:
        return CallPlan(inferred, dtype, None, is_empty=False)
    program = program_of(name, function, inputs, targets, inferred, dtype, is_in_place)
    if program.constant_bytes >= 1 << 63:
        raise MemoryError(f"{name}: its constants take {program.constant_bytes} bytes, 2⁶³ or more")
    compiled = engine.compile_program(program, None if targets is not None else inferred.shapes, dtype.itemsize)
    return CallPlan(inferred, dtype, compiled, is_empty=False)


def check_size(name: str, shape: Sizes, dtype: np.dtype[Any]) -> None:
    """Check that an array of this shape can exist.

    Raises:
        DescError: it has 2⁶³ or more bytes; dimensions of size 0 are not counted, as in NumPy.
    """
    if math.prod(filter(None, shape)) * max(dtype.itemsize, 1) >= 1 << 63:
        message = f"{name}: the result has shape {shape} and dtype {dtype}"
        raise DescError(message, name, None, "a result must have fewer than 2⁶³ bytes")


def program_of(
    name: str,
    function: Function,
    inputs: Sequence[Array],
    targets: Sequence[Array] | None,
    inferred: Inferred,
    dtype: np.dtype[Any],
    is_in_place: bool,
) -> Program:
    """Lower a call to a program, with the layouts of the targets, or packed results."""
    layouts = [Layout.of(array) for array in inputs]
    results = [Layout.of(array) for array in targets or ()]
    results = results or [Layout.packed(shape, dtype.itemsize) for shape in inferred.shapes]
    moves = function.moves(layouts, results, inferred.parameters, is_in_place)
    fields = function.input_names or [f"arrays[{i}]" for i in range(len(inputs))]
    operands = [Operand("input", field) for field in fields]
    operands += [Operand("output", f"result {k}") for k in range(len(results))]
    operands += constant_operands(function.constants(layouts, results, inferred.parameters))
    return Program(name, tuple(operands), moves)


def _check_targets(
    name: str, fields: Sequence[str], shapes: Sequence[Sizes], dtype: np.dtype[Any], targets: Sequence[Array]
) -> None:
    if len(targets) != len(shapes):
        message = f"{name}: out has {counted(len(targets), 'array')} for {counted(len(shapes), 'part')}"
        raise BindingError(message, name, "out", "out must have one array per part")
    for field, target, shape in zip(fields, targets, shapes, strict=True):
        if target.shape != shape or target.dtype != dtype:
            message = f"{name}: {field} is {target.dtype} {target.shape}, but the result is {dtype} {shape}"
            raise BindingError(message, name, field, "out must have the result's shape and dtype")
        check_strides(name, field, target)
