"""The operators' functions as what `calling` runs: each with a way for elements that only NumPy can move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from anydml.engines.numpy.engine import NumpyEngine
from anydml.moves import Constant, Move, Operand, Program
from anydml.operators.element import ZERO, Element
from anydml.operators.function import Function, Inferred, Parameters, Sizes
from anydml.operators.registry import FUNCTIONS
from anydml.operators.slice import lower_slice
from anydml.tensor import Layout

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False, repr=False, slots=True)
class Operation:
    """A function on arrays, without any array.

    Attributes:
        infer: from what errors call it, the inputs' shapes and its hashable arguments; raises DescError.
        lower: to moves, from the layouts of inputs (operands 0 …) and results (the operands after them), which are
            packed if the last argument is True.
        by_numpy: writes the results of inputs to arrays.
        input_names: what errors call the inputs, where it is not ``arrays[i]``.
        has_parts: whether there are several results.
        written_by_numpy: bytes of results from which `by_numpy` takes less time than a program; None: never.
        in_place: what calls do whose `out` is the first input itself; None where that is refused.
        constants: operands that follow the results, as `Function` says.
    """

    infer: Callable[[str, Sequence[Sizes], Parameters], Inferred]
    lower: Callable[[Sequence[Layout], Sequence[Layout], Parameters, bool], tuple[Move, ...]]
    by_numpy: Callable[[Sequence[Array], Inferred, Sequence[Array]], None]
    input_names: tuple[str, ...] = ("x",)
    has_parts: bool = False
    written_by_numpy: int | None = None
    constants: Callable[[Sequence[Layout], Sequence[Layout], Parameters], tuple[Constant, ...]] | None = None
    in_place: Operation | None = None


def operation(function: Function) -> Operation:
    """What `calling` runs for a function."""
    names = () if function.is_of_lists else tuple(each.name for each in function.arrays)
    lower = partial(_lowered, function.lower)
    by_numpy = function.by_numpy or partial(_by_positions, function)
    kinds = function.has_parts, function.written_by_numpy, function.constants
    made = Operation(function.infer, lower, by_numpy, names, *kinds)
    if function.in_place is None:
        return made
    return replace(made, in_place=replace(made, lower=partial(_lowered, function.in_place)))


def _lowered(
    lower: Callable[[Sequence[Layout], Sequence[Layout], Parameters, bool], tuple[Move, ...]],
    inputs: Sequence[Layout],
    outputs: Sequence[Layout],
    parameters: Parameters,
    is_packed: bool,
) -> tuple[Move, ...]:
    """Only the moves that move anything."""
    return tuple(move for move in lower(inputs, outputs, parameters, is_packed) if 0 not in move.sizes)


def _copy_views(inputs: Sequence[Array], inferred: Inferred, outputs: Sequence[Array]) -> None:
    (x,) = inputs
    for output, view in zip(outputs, inferred.views, strict=True):
        output[...] = x[view]


def _by_positions(function: Function, inputs: Sequence[Array], inferred: Inferred, outputs: Sequence[Array]) -> None:
    """Elements are looked up where the moves put their numbers, which count from 1; 0 is what is no input's."""
    if inferred.views:
        _copy_views(inputs, inferred, outputs)
        return
    count = function.data_count(len(inputs))
    data, indices = inputs[:count], inputs[count:]
    numbers, flat = [], [np.empty(1, data[0].dtype)]
    for each in data:
        first = sum(map(np.size, flat))
        numbers.append(np.arange(first, first + each.size).reshape(each.shape))
        flat.append(each.reshape(-1))
    for parameter in inferred.parameters:
        if isinstance(parameter, Element):
            # An object is one element, even if it is a list or an array.
            flat[0].fill(
                parameter.value if not parameter.pattern else np.frombuffer(parameter.pattern, flat[0].dtype)[0]
            )
    parameters = tuple(ZERO if isinstance(each, Element) else each for each in inferred.parameters)
    operands = [*numbers, *indices, *(np.empty(output.shape, np.int64) for output in outputs)]
    layouts = [Layout.of(each) for each in operands]
    moves = _lowered(function.lower, layouts[: len(inputs)], layouts[len(inputs) :], parameters, False)
    roles = [Operand("input" if k < len(inputs) else "output", f"#{k}") for k in range(len(operands))]
    if function.constants is not None:
        roles += constant_operands(function.constants(layouts[: len(inputs)], layouts[len(inputs) :], parameters))
    NumpyEngine().compile(Program(function.label, tuple(roles), moves)).bind(operands)()
    whole = np.concatenate(flat)
    for output, where in zip(outputs, operands[len(inputs) :], strict=True):
        # By a list of places: one object is found itself, and may be an array.
        output[...] = whole[where.reshape(-1)].reshape(output.shape)


def constant_operands(constants: Sequence[Constant]) -> list[Operand]:
    """What a program has them as."""
    return [Operand("constant", f"constant {k}", value=value) for k, value in enumerate(constants)]


def _infer_copy(name: str, shapes: Sequence[Sizes], arguments: Parameters) -> Inferred:
    (shape,) = shapes
    return Inferred(((0,) * len(shape), (1,) * len(shape)), [shape], [(...,)])


COPY = Operation(_infer_copy, lower_slice, _copy_views)
OPERATIONS: dict[str, Operation] = {name: operation(function) for name, function in FUNCTIONS.items()}
"""By the functions' names."""

__all__ = ["COPY", "OPERATIONS", "Inferred", "Operation", "operation"]
