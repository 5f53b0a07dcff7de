"""Operators of diagonals and triangles: EyeLike, Trilu."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Constant, Coordinate, Node, Result, Source, zero
from anydml.referee.operator_rules import Operator, Rule, is_any_node, zero_of_strings
from anydml.referee.schema_texts import result_dtypes


def _draw_eye_like(draw: Draw) -> Node:
    shape = (draw.choice([0, 1, 2, 3, 5]), draw.choice([1, 2, 3, 5]))
    attributes: dict[str, Any] = {}
    if draw.is_likely(0.7):
        attributes["k"] = draw.choice([draw.randint(-shape[0] - 1, shape[1] + 1), -shape[0], shape[1]])
    if draw.is_likely(0.5):
        chosen = draw.choice(result_dtypes("EyeLike", draw.opset))[1]
        attributes["dtype"] = helper.np_dtype_to_tensor_dtype(chosen)
    return Node("EyeLike", draw.opset, (draw.data(draw.dtype("input"), shape),), attributes)


def _eye_like(node: Node) -> list[Result]:
    x, chosen = node.array(0), node.attribute("dtype")
    dtype = x.dtype if chosen is None else np.dtype(helper.tensor_dtype_to_np_dtype(chosen))
    unit, nothing, k = Constant(np.array(1).astype(dtype)[()]), zero(dtype), node.attribute("k")
    return [Result(x.shape, dtype, lambda at: unit if at[1] == at[0] + k else nothing)]


EYE_LIKE = Operator(
    "EyeLike",
    _draw_eye_like,
    _eye_like,
    (
        (lambda node: node.attribute("k") != 0, ("If T2 is the output, this op sets T2[i, i+k] = 1.",)),
        (is_any_node, ("Generate a 2D tensor (matrix) with ones on the diagonal and zeros everywhere else.",)),
    ),
    (
        Rule(
            "rank of input",
            ("Only 2D tensors are supported, i.e. input T1 must be of rank 2.",),
            lambda node: node.array(0).ndim == 2,
            lambda node, draw: node.with_input(0, node.array(0)[None]),
        ),
    ),
)


def _draw_trilu(draw: Draw) -> Node:
    shape = (*draw.sizes(draw.choice([0, 0, 1, 2])), draw.choice([0, 1, 2, 3, 4]), draw.choice([0, 1, 2, 3, 4]))
    x = draw.data(draw.dtype("input"), shape)
    attributes = {"upper": draw.choice([0, 1])} if draw.is_likely(0.8) else {}
    k = draw.choice([draw.randint(-5, 5), draw.randint(-1, 1), -(2**40), 2**40])
    return Node("Trilu", draw.opset, (x, *([np.array(k, np.int64)] if draw.is_likely(0.8) else [])), attributes)


def _trilu(node: Node) -> list[Result]:
    x, k = node.array(0), (node.integers(1) or [0])[0]

    def source(at: Coordinate) -> Source:
        above = at[-1] - at[-2] - k
        return (0, at) if (above >= 0 if node.attribute("upper") else above <= 0) else zero(x.dtype)

    return [Result(x.shape, x.dtype, source)]


TRILU = Operator(
    "Trilu",
    _draw_trilu,
    _trilu,
    (
        (
            lambda node: bool(node.attribute("upper")),
            ("The upper triangular part consists of the elements on and above the given diagonal (k).",),
        ),
        (is_any_node, ("The lower triangular part consists of elements on and below the diagonal.",)),
    ),
    (
        Rule(
            "rank of input",
            ("Input tensor of rank 2 or higher.",),
            lambda node: node.array(0).ndim >= 2,
            lambda node, draw: node.with_input(0, node.array(0).reshape(-1)),
        ),
    ),
    (zero_of_strings(_trilu),),
)

OPERATORS = (EYE_LIKE, TRILU)
