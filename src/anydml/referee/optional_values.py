"""Operators of optional values: Optional, OptionalGetElement, OptionalHasElement."""

from __future__ import annotations

import numpy as np
from onnx import helper

from anydml.referee.copies import copy_input
from anydml.referee.drawing import Draw
from anydml.referee.nodes import (
    AnyResult,
    Constant,
    Node,
    OptionalResult,
    OptionalValue,
    Result,
    ResultList,
)
from anydml.referee.operator_rules import Operator, Rule, is_any_node
from anydml.referee.schema_texts import element_type


def _draw_optional(draw: Draw) -> Node:
    input_kind = draw.kind("input")
    if draw.is_likely(0.6):
        return Node("Optional", draw.opset, (draw.value(input_kind),))
    element = helper.make_tensor_type_proto(element_type(input_kind.dtype), None)
    return Node(
        "Optional",
        draw.opset,
        (),
        {"type": helper.make_sequence_type_proto(element) if input_kind.is_sequence else element},
    )


def _optional_result(node: Node) -> list[OptionalResult]:
    if not node.inputs:
        type_proto = node.attributes["type"]
        is_sequence = type_proto.HasField("sequence_type")
        element = (type_proto.sequence_type.elem_type if is_sequence else type_proto).tensor_type.elem_type
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(element))
        return [OptionalResult(dtype, is_sequence, None)]
    copy = copy_input(node)
    assert not isinstance(copy, OptionalResult)
    return [OptionalResult(copy.dtype, isinstance(copy, ResultList), copy)]


OPTIONAL = Operator(
    "Optional",
    _draw_optional,
    _optional_result,
    (
        (
            lambda node: not node.inputs,
            ("containing either an empty optional of a certain type specified by the attribute",),
        ),
        (is_any_node, ("or a non-empty value containing the input element",)),
    ),
)


def _draw_get(draw: Draw) -> Node:
    value = draw.value(draw.kind("input"))
    while isinstance(value, OptionalValue) and value.element is None:
        value = draw.value(draw.kind("input"))
    return Node("OptionalGetElement", draw.opset, (value,))


def _get(node: Node) -> list[AnyResult]:
    element = copy_input(node)
    if isinstance(element, OptionalResult):
        assert element.result is not None
        return [element.result]
    return [element]


def is_empty(node: Node) -> bool:
    """Whether the input is an empty optional value."""
    return any(isinstance(value, OptionalValue) and value.element is None for value in node.inputs)


def _without_element(node: Node, draw: Draw) -> Node | None:
    value = node.inputs[0]
    if not isinstance(value, OptionalValue):
        return None
    return node.with_input(0, OptionalValue(value.dtype, value.is_sequence, None))


OPTIONAL_GET_ELEMENT = Operator(
    "OptionalGetElement",
    _draw_get,
    _get,
    (
        (
            lambda node: not isinstance(node.inputs[0], OptionalValue),
            ("If the input is a tensor or sequence type, it returns the input.",),
        ),
        (
            is_any_node,
            (
                "If the input is an optional type, it outputs the element in the input.",
                "Outputs the element in the optional-type input.",
            ),
        ),
    ),
    (
        Rule(
            "element",
            (
                "It is an error if the input is an empty optional-type",
                "It is an error if the input value does not have an element",
            ),
            lambda node: not is_empty(node),
            _without_element,
        ),
    ),
)


def _draw_has(draw: Draw) -> Node:
    if draw.opset >= 18 and draw.is_likely(0.1):
        return Node("OptionalHasElement", draw.opset, ())
    return Node("OptionalHasElement", draw.opset, (draw.value(draw.kind("input")),))


def _has(node: Node) -> list[Result]:
    return [Result((), np.dtype(bool), lambda at: Constant(bool(node.inputs) and not is_empty(node)))]


OPTIONAL_HAS_ELEMENT = Operator(
    "OptionalHasElement",
    _draw_has,
    _has,
    (
        (
            lambda node: not node.inputs or is_empty(node),
            (
                "If the input is not provided or is an empty optional-type, this op returns false.",
                "If it is an empty optional-type, this op returns false.",
            ),
        ),
        (
            is_any_node,
            (
                "Returns true if (1) the input is an optional-type and contains an element, or, (2) the input is a "
                "tensor or sequence type.",
                "Returns true if the optional-type input contains an element.",
            ),
        ),
    ),
)

OPERATORS = (OPTIONAL, OPTIONAL_GET_ELEMENT, OPTIONAL_HAS_ELEMENT)
