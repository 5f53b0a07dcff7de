"""Optional values: a tensor, a sequence, or empty."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from anydml.onnx.graph import Node
from anydml.onnx.lowering import LoweringContext
from anydml.onnx.nodes.arguments import Inputs
from anydml.onnx.values import EmptyOptional, GraphValue


def optional_value(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Return the input, or an empty optional if it is omitted."""
    value = inputs[0] if inputs else None
    return (EmptyOptional() if value is None else value,)


def get_element(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Return the element of an optional value; any other value is returned unchanged."""
    value = inputs[0] if inputs else None
    if value is None or isinstance(value, EmptyOptional):
        raise node.error("its input is empty", "input", "an optional value must have an element")
    return (value,)


def has_element(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Return whether the input is given and not empty, as a BOOL scalar."""
    value = inputs[0] if inputs else None
    return (ctx.known_result(node, np.array(value is not None and not isinstance(value, EmptyOptional))),)
