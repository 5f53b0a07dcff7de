"""ONNX nodes of the domain ``anydml``, version 1: every function of the operators, under its name in CamelCase.

The inputs are the function's arrays in order, where a list of arrays becomes several inputs and a host integer list an
INT64 input. The other parameters are attributes of the same names: INT, INTS, STRING, or FLOAT or INT for scalars.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto

from anydml import functions
from anydml.files.json_path import show
from anydml.functions.arguments import all_parts, check_word
from anydml.onnx.directml.described import Described
from anydml.onnx.graph import Entry, Node
from anydml.onnx.lowering import LoweringContext, UnknownElementsError
from anydml.onnx.nodes.arguments import Inputs, optional, required
from anydml.onnx.values import Array, GraphValue, Tensor
from anydml.operators import OperatorDesc
from anydml.operators.element import Element
from anydml.operators.function import Function, Parameter
from anydml.operators.problem import camel
from anydml.operators.registry import FUNCTIONS

DOMAIN = "anydml"

_FUNCTIONS = {camel(name): function for name, function in FUNCTIONS.items()}


def run(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Call the function on stored arrays.

    Raises:
        ModelError: an input or attribute is missing, unknown or of the wrong type, or there is not enough memory.
        DescError, IndexError: the call violates a rule of the function.
    """
    function = _FUNCTIONS[node.operator]
    known = {each.name for each in function.parameters}
    for name in node.attributes:
        if name not in known:
            raise node.error(f"has an attribute {show(name)}, which {function.name} does not take", name)
    given: dict[str, Any] = {}
    number = 0
    for parameter in function.parameters:
        name = parameter.name
        if parameter.kind == "Arrays":
            given[name] = [required(node, inputs, i, f"{name}[{i}]") for i in range(len(inputs))]
        elif parameter.is_array:
            given[name] = required(node, inputs, number, name)
            number += 1
        elif parameter.kind == "HostInts | None":
            sizes = optional(node, inputs, number, name)
            given[name] = None if sizes is None else ctx.known(node, sizes, name)
            number += 1
        else:
            given[name] = _attribute(node, parameter)
    arrays = [given[each.name] for each in function.arrays]
    tensors: list[Tensor] = arrays[0] if function.is_of_lists else arrays
    is_stored = ctx.stored(*tensors)
    arguments = _arguments(function, given, tensors)
    label, sizes_of = function.label, [each.shape for each in tensors]
    inferred = function.infer(label, sizes_of, arguments)
    made: list[Array] = []

    def make() -> Array:
        if not is_stored:
            return np.empty(0)
        if not made:
            call = {name: _stored(value) for name, value in given.items()}
            found = getattr(functions, function.name)(**call)
            made.extend(found[::-1] if function.has_parts else [found if function.lengths is None else found[0]])
        return made.pop()

    dtype, count = (tensors[0].dtype, sum(map(math.prod, inferred.shapes))) if tensors else (np.dtype(np.uint8), 0)
    # Strings are moved by position, which takes index arrays; and all parts are allocated at once.
    more = 8 * (count + 2 * sum(each.size for each in tensors)) if dtype.hasobject else 0
    more += (count - math.prod(inferred.shapes[0])) * dtype.itemsize if inferred.shapes else 0
    for number, shape in enumerate(inferred.shapes):
        yield ctx.computed_result(node, shape, dtype, make, 0 if number else more)
    if function.lengths is not None:
        lengths = function.lengths(sizes_of, inferred.parameters)
        yield ctx.known_result(node, np.array(lengths, np.int64))


def describe(known: Described) -> OperatorDesc | None:
    """Refuse: DirectML has no such node.

    Raises:
        UnknownElementsError: always.
    """
    raise UnknownElementsError(f"a node of the domain {DOMAIN} has no equivalent operator in DirectML")


def _decisive(function: Function) -> tuple[int, ...]:
    """Return the numbers of the inputs that are read on the host."""
    inputs = [each for each in function.parameters if each.is_array or each.kind == "HostInts | None"]
    return tuple(number for number, each in enumerate(inputs) if not each.is_array)


NODES: Mapping[tuple[str, str], Entry] = {
    (DOMAIN, name): Entry((1,), run, describe, _decisive(function)) for name, function in _FUNCTIONS.items()
}
"""Entries for `anydml.onnx.table`."""


def _stored(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.array
    return [_stored(each) for each in value] if isinstance(value, list) else value


def _attribute(node: Node, parameter: Parameter) -> Any:
    name, kind = parameter.name, parameter.kind
    found = node.attributes.get(name)
    if found is None:
        if not parameter.has_default:
            raise node.error(f"has no attribute {name}", name, f"{name} is required")
        return parameter.default
    types = {
        "int": ("INT",),
        "int | None": ("INT",),
        "Ints": ("INTS",),
        "Ints | None": ("INTS",),
        "int | Ints": ("INT", "INTS"),
        "int | Ints | None": ("INT", "INTS"),
        "Scalar": ("INT", "FLOAT"),
    }.get(kind, ("STRING",))
    kinds: Any = AttributeProto.AttributeType
    if kinds.Name(found.type) not in types:
        raise node.error(f"attribute {name} is no {' or '.join(types)}", name, f"{name} must be {' or '.join(types)}")
    if found.type == AttributeProto.INTS:
        return list(found.ints)
    if found.type == AttributeProto.STRING:
        return found.s.decode("utf-8")
    return found.i if found.type == AttributeProto.INT else found.f


def _arguments(function: Function, given: Mapping[str, Any], tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """Return the arguments of `Function.infer` besides shapes."""
    rest: list[Any] = []
    for each in function.parameters:
        value = given[each.name]
        if each.kind == "HostInts | None":
            value = all_parts(function.label, each.name, value)
        elif each.kind == "Scalar":
            value = Element.of(function.label, each.name, value, tensors[0].dtype)
        elif isinstance(value, list):
            value = tuple(value)
        if each.words:
            check_word(function.label, each.name, value, each.words)
        if not each.is_array:
            rest.append(value)
    rest += [given[each.name].dtype for each in function.arrays if each.is_index]
    return tuple(rest)
