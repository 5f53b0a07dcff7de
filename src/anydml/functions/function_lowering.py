"""Functions lowered to moves, and run by NumPy on elements that only NumPy can move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.engines.numpy.references import move_references
from anydml.infer import type_name
from anydml.memory.host import indexed_window
from anydml.moves import Fill, Operand, Program
from anydml.operators.element import ZERO, Element
from anydml.operators.function import Function, Inferred, Parameters
from anydml.tensor import Layout

Array = np.ndarray[Any, Any]

ZERO_SIZE = len(ZERO.pattern)
"""Bytes of an element's number."""


def move_with_numpy(function: Function, inputs: Sequence[Array], inferred: Inferred, outputs: Sequence[Array]) -> None:
    """Write the results of a function on elements that only NumPy can move.

    Raises:
        MemoryError: there is no memory for NumPy's temporary arrays.
    """
    try:
        if not _move_as_views(function, inputs, inferred, outputs):
            _move_by_element_index(function, inputs, inferred, outputs)
    except MemoryError:
        # NumPy's message would be about a temporary array.
        shapes = " and ".join([str(operand.shape) for operand in inputs])
        message = f"there is no memory to move {outputs[0].dtype} elements of arrays of shapes {shapes}"
        raise MemoryError(f"{function.name}: {message}") from None


def _move_as_views(function: Function, inputs: Sequence[Array], inferred: Inferred, outputs: Sequence[Array]) -> bool:
    """Move elements from view to view; return False if there are indices or fills, or no views."""
    if function.data_count(len(inputs)) < len(inputs):
        return False
    operands = [*inputs, *outputs]
    layouts = [Layout.of(operand) for operand in operands]
    lowering = function.lower(layouts[: len(inputs)], (), layouts[len(inputs) :], inferred.parameters)
    if lowering.scratch or any(isinstance(move.source, Fill) or move.has_lookups for move in lowering.moves):
        return False
    ends = [
        [
            indexed_window(operands[end.operand], end.offset, move.sizes, end.strides)
            for end in (move.destination, move.reads)
        ]
        for move in lowering.moves
    ]
    if any(view is None for views in ends for view in views):
        return False
    for written, read in ends:
        written[...] = read  # type: ignore[index]  # none is None
    return True


def _move_by_element_index(
    function: Function, inputs: Sequence[Array], inferred: Inferred, outputs: Sequence[Array]
) -> None:
    """Move elements by number: run a program for elements of 8 bytes, whose addresses are these numbers."""
    count = function.data_count(len(inputs))
    parameters = [ZERO if isinstance(parameter, Element) else parameter for parameter in inferred.parameters]
    filler = np.zeros(1, inputs[0].dtype)
    for parameter in inferred.parameters:
        if isinstance(parameter, Element):
            # An object is one element, even if it is a list or an array.
            filler.fill(parameter.value if not parameter.pattern else np.frombuffer(parameter.pattern, filler.dtype)[0])
    layouts = [Layout.packed(array.shape, ZERO_SIZE) for array in inputs[:count]] + [*map(Layout.of, inputs[count:])]
    names = [type_name(operand.dtype) for operand in inputs[count:]]
    results = [Layout.packed(output.shape, ZERO_SIZE) for output in outputs]
    program = lower_function(function.name, function, layouts, names, results, tuple(parameters))
    scratch = [operand.size // ZERO_SIZE for operand in program.operands if operand.role == "scratch"]
    scratch_arrays = [np.empty(size, outputs[0].dtype) for size in scratch]
    move_references(program, [*inputs, *outputs, *program.constants, *scratch_arrays], filler)


def lower_function(
    name: str,
    function: Function,
    inputs: Sequence[Layout],
    dtypes: Sequence[str],
    results: Sequence[Layout],
    parameters: Parameters,
    is_in_place: bool = False,
) -> Program:
    """Return the program of a call (see `Function.lower`)."""
    operands = [Operand("input", field) for field in function.input_names(len(inputs))]
    operands += [Operand("output", f"result {k}") for k in range(len(results))]
    lowering = function.lower(inputs, dtypes, results, parameters, is_in_place)
    operands += [Operand("constant", f"constant {k}", value=value) for k, value in enumerate(lowering.constants)]
    operands += [Operand("scratch", f"scratch {k}", n, reason=why) for k, (n, why) in enumerate(lowering.scratch)]
    return Program(name, tuple(operands), tuple(lowering.moves))
