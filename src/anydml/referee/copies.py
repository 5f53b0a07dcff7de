"""Operators that copy their input: Identity, Dropout in inference, casts to the same type, Constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.referee.drawing import INT64_MAX, INT64_MIN, WORDS, Draw
from anydml.referee.nodes import (
    AnyResult,
    Array,
    Constant,
    Node,
    OptionalResult,
    OptionalValue,
    Result,
    ResultList,
    TensorList,
)
from anydml.referee.operator_rules import LeftOut, Operator, Rule, is_any_node
from anydml.referee.schema_texts import element_type, result_dtypes
from anydml.referee.sequence_operators import copy_tensor


def copy_input(node: Node) -> AnyResult:
    """Return the first input, of any kind, unchanged."""
    value = node.inputs[0]
    element = value.element if isinstance(value, OptionalValue) else value
    copy: Any = None
    if isinstance(element, TensorList):
        copy = ResultList(element.dtype, tuple(copy_tensor(node, 0, k) for k in range(len(element.tensors))))
    elif element is not None:
        copy = copy_tensor(node, 0, 0)
    return OptionalResult(value.dtype, value.is_sequence, copy) if isinstance(value, OptionalValue) else copy


def _identity(node: Node) -> list[AnyResult]:
    return [copy_input(node)]


IDENTITY = Operator(
    "Identity",
    lambda draw: Node("Identity", draw.opset, (draw.value(draw.kind("input")),)),
    _identity,
    ((is_any_node, ("Tensor to copy input into.",)),),
)


def _draw_dropout(draw: Draw) -> Node:
    x = draw.data(draw.dtype("data"), draw.sizes())
    if draw.opset < 12:
        return Node("Dropout", draw.opset, (x,), {"ratio": 0.25} if draw.is_likely(0.6) else {})
    ratio: Array | None = None
    if draw.is_likely(0.6):
        ratio = np.array(draw.choice([0, 0.25, 0.5, 0.75]), np.float32).astype(draw.dtype("ratio"))
    mode: Array | None = None
    if draw.is_likely(0.6):
        mode = np.array(ratio is not None and float(ratio) == 0 and draw.is_likely(0.4))
    inputs = (x, ratio, mode) if mode is not None else (x, ratio) if ratio is not None else (x,)
    is_training = mode is not None and bool(mode)
    return Node("Dropout", draw.opset, inputs, {}, 1 if is_training else draw.choice([1, 2]))


def _dropout(node: Node) -> list[Result]:
    mask = Result(node.array(0).shape, np.dtype(bool), lambda at: Constant(True))
    return [copy_tensor(node, 0), mask][: node.outputs]


def _is_training(node: Node) -> bool:
    mode = node.optional(2)
    return mode is not None and bool(mode.any())


def _drops_input(node: Node) -> bool:
    ratio = node.optional(1)
    return _is_training(node) and (ratio is None or float(ratio) != 0)


DROPOUT = Operator(
    "Dropout",
    _draw_dropout,
    _dropout,
    (
        (
            _is_training,
            (
                "If set to 0, the output would be a simple copy of the input.",
                "if it was set to 0, the output would be a simple copy of the input.",
            ),
        ),
        (
            is_any_node,
            (
                "the operation mimics inference mode where nothing will be dropped from the input data and if mask is "
                "requested as output it will contain all ones",
                "during testing nothing needs to be done",
            ),
        ),
    ),
    left_out=(
        LeftOut("training, which draws at random what is dropped", _drops_input),
        LeftOut(
            "masks before opset 12, and of training by a ratio of 0, which the text does not describe",
            lambda node: node.outputs > 1 and (node.opset < 12 or _is_training(node)),
        ),
    ),
)


def _draw_cast(draw: Draw) -> Node:
    x = draw.data(draw.dtype("input"), draw.sizes())
    return Node("Cast", draw.opset, (x,), {"to": element_type(x.dtype), **_conversion_attributes(draw)})


def _conversion_attributes(draw: Draw) -> dict[str, Any]:
    """Return attributes that control conversions to other types."""
    attributes: dict[str, Any] = {}
    if draw.opset >= 19 and draw.is_likely(0.3):
        attributes["saturate"] = draw.choice([0, 1])
    if draw.opset >= 24 and draw.is_likely(0.3):
        attributes["round_mode"] = draw.choice(["up", "down", "nearest"])
    return attributes


def _cast(node: Node) -> list[Result]:
    return [copy_tensor(node, 0)]


def converts(to: Callable[[Node], int]) -> LeftOut:
    """Return casts to another type."""
    return LeftOut(
        "casts to another type, which convert elements", lambda node: to(node) != element_type(node.array(0).dtype)
    )


CAST = Operator(
    "Cast",
    _draw_cast,
    _cast,
    ((is_any_node, ("returns an output tensor of the same size in the converted type",)),),
    left_out=(converts(lambda node: int(node.attributes["to"])),),
)


def _draw_cast_like(draw: Draw) -> Node:
    x = draw.data(draw.dtype("input"), draw.sizes())
    return Node("CastLike", draw.opset, (x, draw.data(x.dtype, draw.sizes(max_rank=2))), _conversion_attributes(draw))


CAST_LIKE = Operator(
    "CastLike",
    _draw_cast_like,
    _cast,
    (
        (
            is_any_node,
            (
                "casts the elements of a given input tensor (the first input) to the same data type as the elements "
                "of the second input tensor",
            ),
        ),
    ),
    left_out=(converts(lambda node: element_type(node.array(1).dtype)),),
)


def _draw_constant(draw: Draw) -> Node:
    names = ["value"]
    if draw.opset >= 12:
        names += [f"value_{kind}{s}" for kind in ("int", "float", "string") for s in ("", "s")]
    name = draw.choice([*names, "value"])
    value: Any
    if name == "value":
        value = draw.data(draw.choice(result_dtypes("Constant", draw.opset))[1], draw.sizes())
    else:
        drawers: Callable[[], Any] = {
            "int": lambda: draw.choice([0, 1, -1, 7, INT64_MIN, INT64_MAX]),
            "float": lambda: draw.choice([0.0, -0.0, 1.5, -2.25, float("inf")]),
            "string": lambda: draw.choice(WORDS),
        }[name.removeprefix("value_").removesuffix("s")]
        value = [drawers() for _ in range(draw.choice([0, 1, 2, 5]))] if name.endswith("s") else drawers()
    return Node("Constant", draw.opset, (), {name: value})


DTYPES: dict[str, np.dtype[Any]] = {
    "int": np.dtype(np.int64),
    "float": np.dtype(np.float32),
    "string": np.dtype(object),
}


def _constant(node: Node) -> list[Result]:
    ((name, value),) = node.attributes.items()
    if name == "value":
        return [Result(value.shape, value.dtype, lambda at: Constant(value[at]))]
    dtype = DTYPES[name.removeprefix("value_").removesuffix("s")]
    if name.endswith("s"):
        return [Result((len(value),), dtype, lambda at: Constant(value[at[0]]))]
    return [Result((), dtype, lambda at: Constant(value))]


CONSTANT = Operator(
    "Constant",
    _draw_constant,
    _constant,
    ((is_any_node, ("Output tensor containing the same value of the provided tensor.",)),),
    (
        Rule(
            "one attribute",
            (
                "Exactly one of the provided attributes, either value, sparse_value, or value_* must be specified.",
                "Exactly one of the two attributes, either value or sparse_value, must be specified.",
            ),
            lambda node: len(node.attributes) == 1,
            lambda node, draw: (
                node._replace(attributes={**node.attributes, "value_int": 1, "value_float": 1.0})
                if node.opset >= 12
                else None
            ),
        ),
    ),
    left_out=(
        LeftOut(
            "sparse_value: the text does not say what stands where it has no value",
            lambda node: "sparse_value" in node.attributes,
        ),
    ),
)

OPERATORS = (IDENTITY, DROPOUT, CAST, CAST_LIKE, CONSTANT)
