"""What a function's call does, decided from layouts and arguments alone, or refused."""

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
from anydml.functions.lowering import constant_operands, moves_of
from anydml.moves import Operand, Program
from anydml.operators.function import Function, Inferred, Sizes
from anydml.tensor import Layout
from anydml.text import counted

Array = np.ndarray[Any, Any]

PLANS = ProgramCache()
"""Plans for layouts seen before, of calls that compiled code does not do."""


class Plan(NamedTuple):
    """What calls with the same layouts and arguments share.

    Attributes:
        inferred: parameters and shapes.
        dtype: of the results.
        compiled: what moves the bytes; None where NumPy does, or nothing has to be done.
        is_empty: whether there is nothing to do.
    """

    inferred: Inferred
    dtype: np.dtype[Any]
    compiled: Any
    is_empty: bool

    @property
    def weight(self) -> int:
        """Bytes that are kept, about."""
        kept: int = 1024 + 64 * len(self.inferred.shapes) + (self.compiled.weight if self.compiled else 0)
        return kept


def out_names(function: Function, out: Sequence[Any] | None) -> list[str]:
    """What errors call the arrays of `out`."""
    return [f"out[{i}]" for i in range(0 if out is None else len(out))] if function.has_parts else ["out"]


def planned(
    name: str,
    function: Function,
    inputs: Sequence[Array],
    arguments: tuple[Any, ...],
    targets: Sequence[Array] | None,
    engine: ArrayEngine,
    is_in_place: bool,
) -> Plan:
    """The plan of a call.

    Args:
        name: what errors call it.
        function: what it does.
        inputs: arrays as the engines see them.
        arguments: the others.
        targets: the caller's arrays to write to; None for new ones.
        engine: where it runs.
        is_in_place: whether the target is the first input itself.

    Raises:
        DescError: the arguments break a rule of the function.
        BindingError: targets do not fit.
        MemoryError: what it reads beside the inputs has more bytes than addresses have.
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
        return Plan(inferred, dtype, None, is_empty=True)
    most = function.written_by_numpy
    is_numpys_own = is_joined or not is_movable(dtype) or (most is not None and written >= most)
    if engine.is_numpys and is_numpys_own:
        return Plan(inferred, dtype, None, is_empty=False)
    program = program_of(name, function, inputs, targets, inferred, dtype, is_in_place)
    if program.constant_bytes >= 1 << 63:
        raise MemoryError(f"{name}: it takes {program.constant_bytes} bytes, and addresses have fewer than 2⁶³")
    compiled = engine.compile_program(program, None if targets is not None else inferred.shapes, dtype.itemsize)
    return Plan(inferred, dtype, compiled, is_empty=False)


def check_size(name: str, shape: Sizes, dtype: np.dtype[Any]) -> None:
    """An array of this shape can be.

    Raises:
        DescError: it has more bytes than addresses have, or would have, were its empty dimensions left out.
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
    """The program of a call, whose results are packed, or the caller's."""
    layouts = [Layout.of(array) for array in inputs]
    results = [Layout.of(array) for array in targets or ()]
    results = results or [Layout.packed(shape, dtype.itemsize) for shape in inferred.shapes]
    is_packed = all(array.flags.c_contiguous for array in (*inputs, *(targets or ())))
    lower = function.in_place if is_in_place and function.in_place is not None else function.lower
    moves = moves_of(lower, layouts, results, inferred.parameters, is_packed)
    fields = function.input_names or [f"arrays[{i}]" for i in range(len(inputs))]
    operands = [Operand("input", field) for field in fields]
    operands += [Operand("output", f"result {k}") for k in range(len(results))]
    if function.constants is not None:
        operands += constant_operands(function.constants(layouts, results, inferred.parameters))
    return Program(name, tuple(operands), moves)


def _check_targets(
    name: str, fields: Sequence[str], shapes: Sequence[Sizes], dtype: np.dtype[Any], targets: Sequence[Array]
) -> None:
    if len(targets) != len(shapes):
        message = f"{name}: out has {counted(len(targets), 'array')} for {counted(len(shapes), 'part')}"
        raise BindingError(message, name, "out", "one array a part")
    for field, target, shape in zip(fields, targets, shapes, strict=True):
        if target.shape != shape or target.dtype != dtype:
            message = f"{name}: {field} is {target.dtype} {target.shape}, but the result is {dtype} {shape}"
            raise BindingError(message, name, field, "out must have the result's shape and dtype")
        check_strides(name, field, target)
