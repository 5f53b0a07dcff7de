"""Operators that create numbers: ConstantOfShape, NonZero, Range, Shape, Size."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from anydml.referee.drawing import INT64_MAX, Draw
from anydml.referee.nodes import Constant, Node, Result
from anydml.referee.operator_rules import LeftOut, Operator, Rule, is_any_node
from anydml.referee.schema_texts import result_dtypes
from anydml.referee.shaping import draw_elements

INT64 = np.dtype(np.int64)


def numbers(values: list[int], dtype: np.dtype[Any] = INT64) -> Result:
    """Return a vector of numbers."""
    return Result((len(values),), dtype, lambda at: Constant(values[at[0]]))


def _draw_constant(draw: Draw) -> Node:
    shape = draw.sizes()
    attributes = {}
    if draw.is_likely(0.75):
        dtype = draw.choice(result_dtypes("ConstantOfShape", draw.opset))[1]
        attributes["value"] = draw.data(dtype, (1,))
    return Node("ConstantOfShape", draw.opset, (draw.integers(shape),), attributes)


def _constant(node: Node) -> list[Result]:
    value = node.attributes.get("value", np.zeros(1, np.float32))
    return [Result(tuple(node.integers(0)), value.dtype, lambda at: Constant(value.reshape(-1)[0]))]


def _negative_size(node: Node, draw: Draw) -> Node | None:
    sizes = node.integers(0)
    return node.with_input(0, draw.integers([*sizes[:-1], -1])) if sizes else None


CONSTANT_OF_SHAPE = Operator(
    "ConstantOfShape",
    _draw_constant,
    _constant,
    (
        (
            lambda node: "value" in node.attributes,
            ("the value and datatype of the output tensor is taken from 'value'",),
        ),
        (is_any_node, ("the value in the output defaults to 0, and the datatype defaults to float32",)),
    ),
    (
        Rule(
            "sizes",
            ("All values must be >= 0.",),
            lambda node: min(node.integers(0), default=0) >= 0,
            _negative_size,
        ),
    ),
)


def _draw_nonzero(draw: Draw) -> Node:
    x = draw.data(draw.dtype("X", without=("string",)), draw.sizes())
    holes = np.array([draw.is_likely(0.4) for _ in range(x.size)], bool).reshape(x.shape)
    x = x.copy()
    x[holes] = np.zeros((), x.dtype)
    return Node("NonZero", draw.opset, (x,))


def _is_nonzero(value: Any) -> bool:
    return bool(value != 0)


def _nonzero(node: Node) -> list[Result]:
    x = node.array(0)
    places = [at for at in np.ndindex(*x.shape) if _is_nonzero(x[at])]
    return [Result((x.ndim, len(places)), INT64, lambda at: Constant(places[at[1]][at[0]]))]


NON_ZERO = Operator(
    "NonZero",
    _draw_nonzero,
    _nonzero,
    (
        (
            lambda node: node.array(0).ndim == 0,
            (
                "but for scalar input, NonZero produces output shape (0, N) instead of (1, N)",
                "Returns the indices of the elements that are non-zero (in row-major order - by dimension).",
            ),
        ),
        (is_any_node, ("Returns the indices of the elements that are non-zero (in row-major order - by dimension).",)),
    ),
    left_out=(LeftOut("strings: the text does not say which is zero", lambda node: node.array(0).dtype.hasobject),),
)


def _draw_range(draw: Draw) -> Node:
    dtype = draw.dtype("start")
    scale = Fraction(1, draw.choice([1, 2, 4])) if dtype.kind == "f" else Fraction(1)
    delta = draw.choice([1, 1, 2, 3, 7, -1, -2, -5])
    start, limit = draw.randint(-20, 20), draw.randint(-20, 20)
    ends = [np.array(float(n * scale)).astype(dtype) for n in (start, limit, delta)]
    return Node("Range", draw.opset, tuple(ends))


def _range(node: Node) -> list[Result]:
    start, limit, delta = (Fraction(float(node.array(k))) for k in range(3))
    length = max(math.ceil((limit - start) / delta), 0)
    dtype = node.array(0).dtype
    return [Result((length,), dtype, lambda at: Constant(dtype.type(float(start + at[0] * delta))))]


def _is_rounded(node: Node) -> bool:
    start, delta = (Fraction(float(node.array(k))) for k in (0, 2))
    numbers = [start + k * delta for k in range(_range(node)[0].shape[0])]
    return any(Fraction(float(node.array(0).dtype.type(float(number)))) != number for number in numbers)


RANGE = Operator(
    "Range",
    _draw_range,
    _range,
    ((is_any_node, ("number_of_elements = max( ceil( (limit - start) / delta ) , 0 )",)),),
    left_out=(LeftOut("numbers that the type rounds: the text does not say how often it does", _is_rounded),),
)


def _draw_shape(draw: Draw) -> Node:
    x = draw_elements(draw)
    attributes = {}
    if draw.opset >= 15:
        ends = [draw.randint(-x.ndim - 2, x.ndim + 2), -x.ndim, x.ndim, -1, 1, INT64_MAX, -INT64_MAX]
        attributes = {name: draw.choice(ends) for name in ("start", "end") if draw.is_likely(0.6)}
    return Node("Shape", draw.opset, (x,), attributes)


def _shape(node: Node) -> list[Result]:
    x = node.array(0)
    rank = x.ndim
    start, end = node.attributes.get("start", 0), node.attributes.get("end", rank)
    first, last = (min(max(n + rank if n < 0 else n, 0), rank) for n in (start, end))
    return [numbers([*x.shape][first:last] if first < last else [])]


SHAPE = Operator(
    "Shape",
    _draw_shape,
    _shape,
    (
        (
            lambda node: bool(node.attributes),
            (
                "Note that axes will be clamped to the range [0, r], where r is the rank of the "
                "input tensor if they are "
                "out-of-range",
                "Note that axes will be clamped to the range [0, r-1], where r is the rank of the "
                "input tensor if they are "
                "out-of-range",
            ),
        ),
        (is_any_node, ("outputs an 1D int64 tensor containing the shape of the input tensor",)),
    ),
)


def _size(node: Node) -> list[Result]:
    return [Result((), INT64, lambda at: Constant(node.array(0).size))]


SIZE = Operator(
    "Size",
    lambda draw: Node("Size", draw.opset, (draw_elements(draw),)),
    _size,
    ((is_any_node, ("outputs a int64 scalar that equals to the total number of elements of the input tensor",)),),
)


OPERATORS = (CONSTANT_OF_SHAPE, NON_ZERO, RANGE, SHAPE, SIZE)
