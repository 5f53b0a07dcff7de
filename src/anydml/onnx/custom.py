"""ONNX nodes of the domain ``anydml``, version 1: every function of the operators, under its name in CamelCase.

The inputs are the function's arrays in order, where a list of arrays becomes several inputs and a host integer list an
INT64 input. The other parameters are attributes of the same names: INT, INTS, STRING, or FLOAT or INT for scalars.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import AttributeProto

from anydml import functions
from anydml.files.location import show
from anydml.functions.python_calls import check_arguments
from anydml.onnx.directml.described import Described
from anydml.onnx.graph import Entry, Node
from anydml.onnx.graph_values import Array, Tensor
from anydml.onnx.lowering import LoweringContext, UnknownElementsError
from anydml.onnx.signature import Attribute, Formal, Signature
from anydml.operators import OperatorDesc
from anydml.operators.function import Function
from anydml.operators.problem import camel
from anydml.operators.registry import FUNCTIONS

DOMAIN = "anydml"

_FUNCTIONS = {camel(name): function for name, function in FUNCTIONS.items()}


def run(node: Node, ctx: LoweringContext, *inputs: Tensor | None) -> list[Tensor]:
    """Call the function on stored arrays.

    Raises:
        ModelError: an attribute is unknown, missing or of the wrong type, or there is not enough memory.
        DescError, IndexError: the call violates a rule of the function.
    """
    function = _FUNCTIONS[node.operator]
    for name in node.attributes:
        if name not in node.signature.attributes:
            raise node.error(f"has an attribute {show(name)}, which {function.name} does not take", name)
    arguments: dict[str, Any] = {}
    inputs_left = iter(inputs)
    for parameter in function.parameters:
        name = parameter.name
        if parameter.kind == "Arrays":
            arguments[name] = [*inputs]
        elif parameter.is_array:
            arguments[name] = next(inputs_left)
        elif parameter.kind == HOST:
            sizes = next(inputs_left)
            arguments[name] = None if sizes is None else ctx.known_elements(node, sizes, name)
        else:
            arguments[name] = node.get(name)
    arrays = [arguments[parameter.name] for parameter in function.arrays]
    tensors: list[Tensor] = arrays[0] if function.is_of_lists else arrays
    ctx.fetch(*tensors)
    indices = [arguments[parameter.name] for parameter in function.arrays if parameter.is_index]
    shapes = [tensor.shape for tensor in tensors]
    inferred = function.infer(function.name, shapes, check_arguments(function, arguments, tensors[0], indices))
    waiting: list[Array] = []

    def make() -> Array:
        if not waiting:
            call = {name: _store(value) for name, value in arguments.items()}
            called = getattr(functions, function.name)(**call)
            waiting.extend(called[::-1] if function.has_parts else [called if function.lengths is None else called[0]])
        return waiting.pop()

    dtype, count = tensors[0].dtype, sum(map(math.prod, inferred.shapes))
    # Strings are moved by position, which takes index arrays; and all parts are allocated at once.
    working_bytes = 8 * (count + 2 * sum(tensor.size for tensor in tensors)) if dtype.hasobject else 0
    working_bytes += (count - math.prod(inferred.shapes[0])) * dtype.itemsize if inferred.shapes else 0
    results = [
        ctx.computed_result(node, shape, dtype, make, 0 if output_number else working_bytes)
        for output_number, shape in enumerate(inferred.shapes)
    ]
    if function.lengths is not None:
        lengths = function.lengths(function.name, shapes, *inferred.parameters)
        results.append(ctx.known_result(node, np.array(lengths, np.int64)))
    return results


def describe(described: Described, *_: Tensor | None) -> OperatorDesc | None:
    """Refuse: DirectML has no such node.

    Raises:
        UnknownElementsError: always.
    """
    raise UnknownElementsError(f"a node of the domain {DOMAIN} has no equivalent operator in DirectML")


def _cached_entry(function: Function) -> Entry:
    inputs = [parameter for parameter in function.parameters if parameter.is_array or parameter.kind == HOST]
    formals = (
        Formal(parameter.name, parameter.is_array or not parameter.has_default, is_variadic=parameter.kind == "Arrays")
        for parameter in inputs
    )
    attributes = {
        parameter.name: Attribute(
            _TYPES.get(parameter.kind, (AttributeProto.STRING,)), not parameter.has_default, parameter.default
        )
        for parameter in function.parameters
        if parameter not in inputs
    }
    decisive = tuple(input_number for input_number, parameter in enumerate(inputs) if not parameter.is_array)
    return Entry((1,), run, describe, decisive, Signature(tuple(formals), attributes))


HOST = "HostInts | None"
"""Arguments that are read on the host."""

_INT, _INTS, _FLOAT = AttributeProto.INT, AttributeProto.INTS, AttributeProto.FLOAT
_TYPES = {
    "int": (_INT,),
    "int | None": (_INT,),
    "Ints": (_INTS,),
    "Ints | None": (_INTS,),
    "int | Ints": (_INT, _INTS),
    "int | Ints | None": (_INT, _INTS),
    "Scalar": (_INT, _FLOAT),
}
"""Types of attributes, by kinds of parameters; others are words."""

NODES: Mapping[tuple[str, str], Entry] = {
    (DOMAIN, name): _cached_entry(function) for name, function in _FUNCTIONS.items()
}
"""Entries for `anydml.onnx.table`."""


def _store(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.array
    return [_store(item) for item in value] if isinstance(value, list) else value
