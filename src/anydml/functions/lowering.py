"""What functions come to without compiled code: moves, or NumPy's own ways for elements that only it can move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.engines.numpy.engine import NumpyEngine
from anydml.moves import Constant, Move, Operand, Program
from anydml.operators.element import ZERO, Element
from anydml.operators.function import Function, Inferred, Lowering, Parameters
from anydml.tensor import Layout

Array = np.ndarray[Any, Any]


def by_numpy(function: Function, inputs: Sequence[Array], inferred: Inferred, outputs: Sequence[Array]) -> None:
    """Write the results of a function whose elements only NumPy moves."""
    if function.by_numpy is not None:
        function.by_numpy(inputs, inferred, outputs)
    elif inferred.views:
        for output, view in zip(outputs, inferred.views, strict=True):
            output[...] = inputs[0][view]
    else:
        _by_positions(function, inputs, inferred, outputs)


def moves_of(
    lower: Lowering, inputs: Sequence[Layout], outputs: Sequence[Layout], parameters: Parameters, is_packed: bool
) -> tuple[Move, ...]:
    """What a function is lowered to: only the moves that move anything."""
    return tuple(move for move in lower(inputs, outputs, parameters, is_packed) if 0 not in move.sizes)


def _by_positions(function: Function, inputs: Sequence[Array], inferred: Inferred, outputs: Sequence[Array]) -> None:
    """Elements are looked up where the moves put their numbers, which count from 1; 0 is what is no input's."""
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
    moves = moves_of(function.lower, layouts[: len(inputs)], layouts[len(inputs) :], parameters, False)
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
