"""Optional values, which only carry: a tensor, a sequence, or nothing."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from anydml.onnx.graph import Node
from anydml.onnx.moving import Moving
from anydml.onnx.nodes.arguments import Inputs
from anydml.onnx.values import Flowing, Nothing


def optional_value(node: Node, at: Moving, inputs: Inputs) -> Iterable[Flowing]:
    """The input, or nothing where there is none."""
    value = inputs[0] if inputs else None
    return (Nothing() if value is None else value,)


def get_element(node: Node, at: Moving, inputs: Inputs) -> Iterable[Flowing]:
    """What an optional value has; any other value is handed on."""
    value = inputs[0] if inputs else None
    if value is None or isinstance(value, Nothing):
        raise node.error("its input is empty", "input", "an optional value must have an element")
    return (value,)


def has_element(node: Node, at: Moving, inputs: Inputs) -> Iterable[Flowing]:
    """Whether there is anything."""
    value = inputs[0] if inputs else None
    return (at.given(node, np.array(value is not None and not isinstance(value, Nothing))),)
