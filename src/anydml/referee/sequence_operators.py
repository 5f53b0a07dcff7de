"""Operators of sequences: construction, and the tensors in them (see `sequence_parts` for what splits and joins)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import helper

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Array, Constant, Coordinate, Node, Result, ResultList, Source, TensorList, wrap_index
from anydml.referee.operator_rules import (
    Operator,
    Quote,
    Rule,
    input_between,
    is_any_node,
)
from anydml.referee.schema_texts import element_type, result_dtypes

INT64 = np.dtype(np.int64)
FIRST = "input_sequence"


def copy_tensor(node: Node, input_number: int, within: int | None = None) -> Result:
    """Return a copy of a tensor of an input."""
    tensor = node.array(input_number) if within is None else node.tensors(input_number)[within]

    def source(at: Coordinate) -> Source:
        return (input_number, at) if within is None else (input_number, at, within)

    return Result(tensor.shape, tensor.dtype, source)


def sequence(node: Node, input_number: int = 0) -> TensorList:
    """Return an input that is a sequence."""
    value = node.inputs[input_number]
    assert isinstance(value, TensorList)
    return value


def _input_list(node: Node) -> list[Result]:
    return [copy_tensor(node, 0, k) for k in range(len(sequence(node).tensors))]


def _draw_construct(draw: Draw) -> Node:
    tensors = draw.tensors(draw.dtype("inputs"), draw.choice([1, 2, 2, 3, 4]))
    return Node("SequenceConstruct", draw.opset, tensors.tensors)


def _construct(node: Node) -> list[ResultList]:
    tensors = tuple(copy_tensor(node, k) for k in range(len(node.inputs)))
    return [ResultList(tensors[0].dtype, tensors)]


def other_type(value: Array) -> Array:
    """Return the same sizes of another type."""
    return np.zeros(value.shape, np.float32 if value.dtype != np.float32 else np.int64)


SEQUENCE_CONSTRUCT = Operator(
    "SequenceConstruct",
    _draw_construct,
    _construct,
    ((is_any_node, ("Construct a tensor sequence containing 'inputs' tensors.",)),),
    (
        Rule(
            "types",
            ("All tensors in 'inputs' must have the same data type.",),
            lambda node: len({node.array(k).dtype for k in range(len(node.inputs))}) == 1,
            lambda node, draw: (
                node._replace(inputs=(*node.inputs[:-1], other_type(node.array(len(node.inputs) - 1))))
                if len(node.inputs) > 1
                else None
            ),
        ),
    ),
)


def _draw_empty(draw: Draw) -> Node:
    attributes = {}
    if draw.is_likely(0.85):
        dtype = draw.choice(result_dtypes("SequenceEmpty", draw.opset))[1]
        attributes["dtype"] = element_type(dtype)
    return Node("SequenceEmpty", draw.opset, (), attributes)


def _empty(node: Node) -> list[ResultList]:
    type_number = node.attribute("dtype")
    dtype = np.dtype(np.float32 if type_number is None else helper.tensor_dtype_to_np_dtype(type_number))
    return [ResultList(dtype, ())]


SEQUENCE_EMPTY = Operator(
    "SequenceEmpty",
    _draw_empty,
    _empty,
    (
        (lambda node: "dtype" not in node.attributes, ("The default type is 'float'.",)),
        (is_any_node, ("Construct an empty tensor sequence, with given data type.",)),
    ),
)


def _draw_position(draw: Draw, first: int, last: int) -> Array:
    dtype = draw.index_dtype("position")
    return np.array(draw.choice([first, last, draw.randint(first, last)]), dtype)


def _draw_at(draw: Draw) -> Node:
    tensors = draw.tensors(draw.dtype(FIRST), draw.choice([1, 2, 3, 4]))
    count = len(tensors.tensors)
    return Node("SequenceAt", draw.opset, (tensors, _draw_position(draw, -count, count - 1)))


def _position(node: Node, input_number: int, default: int) -> int:
    """Return a position, counted from the front."""
    (position,) = node.integers(input_number) or [default]
    return wrap_index(position, len(sequence(node).tensors))


def _sequence_at(node: Node) -> list[Result]:
    return [_input_list(node)[_position(node, 1, 0)]]


def _positions(last: int) -> Callable[[Node], tuple[Array, Array]]:
    """Return the lowest and the highest position, where the highest is so much below the number of tensors."""

    def bounds(node: Node) -> tuple[Array, Array]:
        count = len(sequence(node).tensors)
        return np.array(-count), np.array(count - last)

    return bounds


IN_RANGE: Quote = ("Accepted range for 'position' is in `[-n, n - 1]`",)
BACK = "Negative value means counting positions from the back."

SEQUENCE_AT = Operator(
    "SequenceAt",
    _draw_at,
    _sequence_at,
    (
        (lambda node: node.integers(1)[0] < 0, (BACK,)),
        (is_any_node, ("Outputs a tensor copy from the tensor at 'position' in 'input_sequence'.",)),
    ),
    (input_between("position", 1, _positions(1), IN_RANGE),),
)


def _draw_erase(draw: Draw) -> Node:
    tensors = draw.tensors(draw.dtype(FIRST), draw.choice([1, 2, 3, 4]))
    count = len(tensors.tensors)
    position = (_draw_position(draw, -count, count - 1),) if draw.is_likely(0.8) else ()
    return Node("SequenceErase", draw.opset, (tensors, *position))


def _erase(node: Node) -> list[ResultList]:
    tensors = _input_list(node)
    index = _position(node, 1, -1)
    return [ResultList(sequence(node).dtype, (*tensors[:index], *tensors[index + 1 :]))]


SEQUENCE_ERASE = Operator(
    "SequenceErase",
    _draw_erase,
    _erase,
    (
        (lambda node: not node.integers(1), ("by default it erases the last tensor from 'input_sequence'",)),
        (lambda node: node.integers(1)[0] < 0, (BACK,)),
        (is_any_node, ("Outputs a tensor sequence that removes the tensor at 'position' from 'input_sequence'.",)),
    ),
    (
        input_between("position", 1, _positions(1), IN_RANGE),
        Rule(
            "tensors",
            IN_RANGE,
            lambda node: len(sequence(node).tensors) > 0,
            lambda node, draw: node._replace(inputs=(TensorList(sequence(node).dtype, ()), *node.inputs[1:])),
        ),
    ),
)


def _draw_insert(draw: Draw) -> Node:
    dtype = draw.dtype(FIRST)
    tensors = draw.tensors(dtype, draw.choice([0, 1, 2, 3]))
    count = len(tensors.tensors)
    position = (_draw_position(draw, -count, count),) if draw.is_likely(0.8) else ()
    return Node("SequenceInsert", draw.opset, (tensors, draw.data(dtype, draw.sizes(max_rank=3)), *position))


def _insert(node: Node) -> list[ResultList]:
    tensors = _input_list(node)
    index = _position(node, 2, len(tensors))
    return [ResultList(sequence(node).dtype, (*tensors[:index], copy_tensor(node, 1), *tensors[index:]))]


SEQUENCE_INSERT = Operator(
    "SequenceInsert",
    _draw_insert,
    _insert,
    (
        (lambda node: not node.integers(2), ("by default it inserts 'tensor' to the back of 'input_sequence'",)),
        (lambda node: node.integers(2)[0] < 0, (BACK,)),
        (is_any_node, ("Outputs a tensor sequence that inserts 'tensor' into 'input_sequence' at 'position'.",)),
    ),
    (
        input_between("position", 2, _positions(0), ("Accepted range for 'position' is in `[-n, n]`",)),
        Rule(
            "types",
            ("'tensor' must have the same data type as 'input_sequence'.",),
            lambda node: node.array(1).dtype == sequence(node).dtype,
            lambda node, draw: node.with_input(1, other_type(node.array(1))),
        ),
    ),
)


def _length(node: Node) -> list[Result]:
    return [Result((), INT64, lambda at: Constant(len(sequence(node).tensors)))]


SEQUENCE_LENGTH = Operator(
    "SequenceLength",
    lambda draw: Node("SequenceLength", draw.opset, (draw.tensors(draw.dtype(FIRST), draw.choice([0, 1, 2, 3, 5])),)),
    _length,
    ((is_any_node, ("containing the number of tensors in 'input_sequence'",)),),
)

OPERATORS = (
    SEQUENCE_CONSTRUCT, SEQUENCE_EMPTY, SEQUENCE_AT, SEQUENCE_INSERT, SEQUENCE_ERASE, SEQUENCE_LENGTH,
)  # fmt: skip
