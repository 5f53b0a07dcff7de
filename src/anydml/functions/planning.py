"""What a function's call does, decided from layouts and arguments alone, or refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from anydml.binding import check_strides
from anydml.engines.program_cache import ProgramCache
from anydml.engines.protocol import ArrayEngine
from anydml.errors import BindingError, DescError
from anydml.functions.arguments import is_movable, joined_dtype
from anydml.functions.operations import Inferred, Operation, constant_operands
from anydml.moves import Operand, Program
from anydml.tensor import Layout
from anydml.text import counted

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

FEW_OPERANDS = 32
"""Inputs and results that programs are remembered for to have."""

PLANS = ProgramCache()
"""Plans for layouts seen before, of calls that compiled code does not do."""


class Plan:
    """What calls with the same layouts and arguments share.

    Attributes:
        inferred: parameters and shapes.
        dtype: of the results.
        compiled: what moves the bytes; None where NumPy does, or nothing has to be done.
        is_empty: whether there is nothing to do.
    """

    __slots__ = ("compiled", "dtype", "inferred", "is_empty")

    def __init__(self, inferred: Inferred, dtype: np.dtype[Any], compiled: Any, is_empty: bool) -> None:
        self.inferred = inferred
        self.dtype = dtype
        self.compiled = compiled
        self.is_empty = is_empty

    @property
    def weight(self) -> int:
        """Bytes that are kept, about."""
        kept: int = 1024 + 64 * len(self.inferred.shapes) + (self.compiled.weight if self.compiled else 0)
        return kept


def out_names(operation: Operation, out: Sequence[Any] | None) -> list[str]:
    """What errors call the arrays of `out`."""
    return [f"out[{i}]" for i in range(0 if out is None else len(out))] if operation.has_parts else ["out"]


def planned(
    name: str,
    operation: Operation,
    inputs: Sequence[Array],
    arguments: tuple[Any, ...],
    targets: Sequence[Array] | None,
    engine: ArrayEngine,
) -> Plan:
    """The plan of a call.

    Args:
        name: what errors call it.
        operation: what it does.
        inputs: arrays as the engines see them.
        arguments: the others.
        targets: the caller's arrays to write to; None for new ones.
        engine: where it runs.

    Raises:
        DescError: the arguments break a rule of the operation.
        BindingError: targets do not fit.
        MemoryError: what it reads beside the inputs has more bytes than addresses have.
    """
    inferred = operation.infer(name, [array.shape for array in inputs], arguments)
    dtype = inputs[0].dtype
    is_joined = False
    if not operation.input_names and any(array.dtype != dtype for array in inputs):
        # Strings of several lengths, which NumPy pads.
        dtype, is_joined = joined_dtype(inputs) or dtype, True
    if targets is not None:
        _check_targets(name, out_names(operation, targets), inferred.shapes, dtype, targets)
    for shape in inferred.shapes:
        check_size(name, shape, dtype)
    written = sum(map(math.prod, inferred.shapes)) * dtype.itemsize
    if not written:
        return Plan(inferred, dtype, None, is_empty=True)
    most = operation.written_by_numpy
    is_numpys_own = is_joined or not is_movable(dtype) or (most is not None and written >= most)
    if engine.is_numpys and is_numpys_own:
        return Plan(inferred, dtype, None, is_empty=False)
    program = program_of(name, operation, inputs, targets, inferred, dtype)
    if program.constant_bytes >= 1 << 63:
        raise MemoryError(f"{name}: it takes {program.constant_bytes} bytes, and addresses have fewer than 2⁶³")
    compiled = engine.compile_call(program, None if targets is not None else inferred.shapes, dtype.itemsize)
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
    operation: Operation,
    inputs: Sequence[Array],
    targets: Sequence[Array] | None,
    inferred: Inferred,
    dtype: np.dtype[Any],
) -> Program:
    """The program of a call, whose results are packed, or the caller's."""
    layouts = [Layout.of(array) for array in inputs]
    results = [Layout.of(array) for array in targets or ()]
    results = results or [Layout.packed(shape, dtype.itemsize) for shape in inferred.shapes]
    is_packed = all(array.flags.c_contiguous for array in (*inputs, *(targets or ())))
    moves = operation.lower(layouts, results, inferred.parameters, is_packed)
    make = _few_operands if len(inputs) + len(results) <= FEW_OPERANDS else _operands
    operands = make(operation.input_names, len(inputs), len(results))
    if operation.constants is not None:
        operands = (*operands, *constant_operands(operation.constants(layouts, results, inferred.parameters)))
    return Program(name, operands, moves)


def _operands(names: tuple[str, ...], inputs: int, results: int) -> tuple[Operand, ...]:
    """Operands by the names of inputs, or by their numbers where they have none."""
    fields = names or [f"arrays[{i}]" for i in range(inputs)]
    outputs = [Operand("output", f"result {k}") for k in range(results)]
    return (*[Operand("input", field) for field in fields], *outputs)


_few_operands = lru_cache(64)(_operands)


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
