"""ONNX nodes of the domain ``anydml``, version 1: every function of an operator's file, under its name in CamelCase.

Inputs are the function's arrays in its order, a list of arrays as many inputs; an integer list that is data is an input
too. Attributes are its other parameters, by their names: INT, INTS, STRING, and FLOAT or INT for an element's value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import AttributeProto

from anydml import functions
from anydml.functions.arguments import all_parts
from anydml.operators.base import camel
from anydml.operators.function import Element, Function, Parameter
from anydml.operators.registry import FUNCTIONS

if TYPE_CHECKING:
    from anydml.onnx.budget import Budget
    from anydml.onnx.graph import Node

DOMAIN = "anydml"

NO_DESC = "a node of the domain anydml amounts to no DirectML operator"

_FUNCTIONS = {camel(name): function for name, function in FUNCTIONS.items()}

VERSIONS: Mapping[tuple[str, str], tuple[int, ...]] = {(DOMAIN, name): (1,) for name in _FUNCTIONS}
"""Operators by domain and type, and their versions."""

Array = np.ndarray[Any, Any]


def run(node: Node, inputs: Sequence[Array | None], budget: Budget) -> tuple[Array, ...]:
    """Run one node.

    Args:
        node: of this domain.
        inputs: one a name in ``node.inputs``, None where the name is empty.
        budget: is asked before anything is allocated.

    Raises:
        ModelError: an input or attribute is missing, unknown or of another type, or there is not enough memory.
        DescError, IndexError: the call breaks a rule of the function.
    """
    function = _FUNCTIONS[node.operator]
    known = {each.name for each in function.parameters}
    for name in node.attributes:
        if name not in known:
            raise node.error(f"has an attribute {name}, which {function.name} does not take", name)
    given: dict[str, Any] = {}
    arrays = iter(inputs)
    for parameter in function.parameters:
        name = parameter.name
        if parameter.kind == "Arrays":
            given[name] = [_array(node, name, each) for each in inputs]
        elif parameter.is_array:
            given[name] = _array(node, name, next(arrays, None))
        elif parameter.kind == "HostInts | None":
            given[name] = next(arrays, None)
        else:
            given[name] = _attribute(node, parameter)
    _ask(node, function, given, budget)
    found = getattr(functions, function.name)(**given)
    return tuple(found) if isinstance(found, (list, tuple)) else (found,)


def _array(node: Node, name: str, value: Array | None) -> Array:
    if value is None:
        raise node.error(f"its input {name} is missing", name, f"{name} is required")
    return value


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
        raise node.error(f"attribute {name} is no {' or '.join(types)}", name, f"{name} is {' or '.join(types)}")
    if found.type == AttributeProto.INTS:
        return list(found.ints)
    if found.type == AttributeProto.STRING:
        return found.s.decode("utf-8")
    return found.i if found.type == AttributeProto.INT else found.f


def _ask(node: Node, function: Function, given: Mapping[str, Any], budget: Budget) -> None:
    """Ask for the memory of the results, and of what NumPy needs beside them where elements are references."""
    arrays = [given[each.name] for each in function.arrays]
    inputs: list[Array] = arrays[0] if function.is_of_lists else arrays
    rest: list[Any] = []
    for each in function.parameters:
        value = given[each.name]
        if each.kind == "HostInts | None":
            value = all_parts(function.label, each.name, value)
        elif each.kind == "Scalar":
            value = Element.of(function.label, each.name, value, inputs[0].dtype)
        elif isinstance(value, list):
            value = tuple(value)
        if not each.is_array and each.kind != "OutOfRange":
            rest.append(value)
    rest += [given[each.name].dtype for each in function.arrays if each.kind == "Indices"]
    shapes = function.infer(function.label, [each.shape for each in inputs], tuple(rest)).shapes
    count = sum(map(math.prod, shapes))
    more = 8 * (count + 2 * sum(each.size for each in inputs)) if inputs[0].dtype.hasobject else 0
    budget.ask(node.label, "its results", count * max(inputs[0].itemsize, 1) + more)
