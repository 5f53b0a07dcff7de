"""Operators that write over elements: ScatterElements, ScatterND, TensorScatter, OneHot."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.referee.drawing import Draw
from anydml.referee.index_operators import OUT_OF_BOUNDS, along_axis, tuple_bounds
from anydml.referee.nodes import Coordinate, Node, Result, Source, coordinate_of, count, wrap_index
from anydml.referee.operator_rules import (
    AXIS,
    REDUCTIONS,
    LeftOut,
    Operator,
    Rule,
    attribute_between,
    has,
    input_between,
    is_any_node,
    one_of,
)

Origins = dict[Coordinate, Coordinate]
"""Origins of the elements that are written over, by their coordinates in the result."""


def _draw_scatter_elements(draw: Draw) -> Node:
    x = draw.data(draw.dtype("data"), draw.sizes(draw.randint(1, 4)))
    axis = draw.axis(x.ndim)
    shape = [draw.choice([size, draw.randint(0, size)]) for size in x.shape]
    indices = np.zeros(shape, draw.index_dtype("indices"))
    at = wrap_index(axis, x.ndim)
    lines = np.moveaxis(indices, at, 0)
    for line in np.ndindex(*lines.shape[1:]):
        # No index twice: the text forbids it.
        chosen = draw.sample(range(x.shape[at]), shape[at])
        lines[(slice(None), *line)] = [draw.signed(k, x.shape[at]) for k in chosen]
    attributes: dict[str, Any] = {"axis": axis} if draw.is_likely(0.8) or at else {}
    if draw.opset >= 16 and draw.is_likely(0.3):
        attributes["reduction"] = "none"
    return Node("ScatterElements", draw.opset, (x, indices, draw.data(x.dtype, tuple(shape))), attributes)


def _scatter_elements(node: Node) -> list[Result]:
    x, indices = node.array(0), node.array(1)
    axis = wrap_index(node.attribute("axis"), x.ndim)
    origins: Origins = {}
    for at in np.ndindex(*indices.shape):
        origins[(*at[:axis], wrap_index(int(indices[at]), x.shape[axis]), *at[axis + 1 :])] = at
    return [Result(x.shape, x.dtype, lambda at: (2, origins[at]) if at in origins else (0, at))]


def _is_written_twice(node: Node) -> bool:
    """Whether an element of an update is written over by another."""
    (result,) = _scatter_elements(node) if node.operator == "ScatterElements" else _scatter_nd(node)
    written = sum(result.source(at)[0] == 2 for at in np.ndindex(*result.shape))
    return bool(written < node.array(2).size)


SCATTER_ELEMENTS = Operator(
    "ScatterElements",
    _draw_scatter_elements,
    _scatter_elements,
    (
        (
            is_any_node,
            (
                "the index-value for dimension = axis is obtained from the value of the "
                "corresponding entry in `indices` and "
                "the index-value for dimension != axis is obtained from the index of the entry itself",
            ),
        ),
    ),
    (
        AXIS,
        input_between("indices", 1, along_axis, OUT_OF_BOUNDS),
        one_of(
            "reduction",
            lambda node: ["none", "add", "mul", "max", "min"],
            "mean",
            ("Type of reduction to apply: none (default), add, mul",),
        ),
    ),
    left_out=(LeftOut("an index twice, whose result the text leaves open", _is_written_twice), REDUCTIONS),
)


def _draw_scatter_nd(draw: Draw) -> Node:
    x = draw.data(draw.dtype("data"), draw.sizes(draw.randint(1, 4), min_size=1))
    length = draw.randint(1, x.ndim)
    cells = count(x.shape[:length])
    leading = draw.sizes(draw.choice([0, 1, 1, 2]))
    if count(leading) > cells:
        leading = (cells,)
    chosen = draw.sample(range(cells), count(leading))
    coordinates = [coordinate_of(k, x.shape[:length]) for k in chosen]
    tuples = [[draw.signed(i, n) for i, n in zip(at, x.shape, strict=False)] for at in coordinates]
    indices = np.array(tuples, np.int64).reshape(*leading, length)
    attributes: dict[str, Any] = {"reduction": "none"} if draw.opset >= 16 and draw.is_likely(0.3) else {}
    return Node("ScatterND", draw.opset, (x, indices, draw.data(x.dtype, (*leading, *x.shape[length:]))), attributes)


def _scatter_nd(node: Node) -> list[Result]:
    x, indices = node.array(0), node.array(1)
    length = indices.shape[-1]
    origins: Origins = {}
    for at in np.ndindex(*indices.shape[:-1]):
        origins[tuple(wrap_index(int(i), n) for i, n in zip(indices[at], x.shape, strict=False))] = at

    def source(at: Coordinate) -> Source:
        origin = origins.get(at[:length])
        return (0, at) if origin is None else (2, (*origin, *at[length:]))

    return [Result(x.shape, x.dtype, source)]


SCATTER_ND = Operator(
    "ScatterND",
    _draw_scatter_nd,
    _scatter_nd,
    (
        (
            is_any_node,
            (
                "and then updating its value to values specified by `updates` at specific index positions specified by "
                "`indices`",
            ),
        ),
    ),
    (input_between("indices", 1, tuple_bounds, OUT_OF_BOUNDS),),
    left_out=(LeftOut("an index twice, whose result the text leaves open", _is_written_twice), REDUCTIONS),
)


def _draw_tensor_scatter(draw: Draw) -> Node:
    shape = draw.sizes(draw.choice([2, 3, 3, 4]), min_size=1)
    x = draw.data(draw.dtype("past_cache"), shape)
    axis = draw.choice([axis for axis in range(-x.ndim, x.ndim) if axis % x.ndim])
    at, mode = axis % x.ndim, draw.choice(["linear", "circular"])
    length = draw.randint(1, shape[at])
    limit = shape[at] - length if mode == "linear" else shape[at] - 1
    update = draw.data(x.dtype, (*shape[:at], length, *shape[at + 1 :]))
    starts = [draw.integers([draw.choice([limit, draw.randint(0, limit)]) for _ in range(shape[0])])]
    attributes: dict[str, Any] = {"axis": axis, "mode": mode}
    if mode == "linear" and draw.is_likely(0.3):
        del attributes["mode"]
    if at == x.ndim - 2 and draw.is_likely(0.3):
        del attributes["axis"]
    return Node("TensorScatter", draw.opset, (x, update, *(starts if draw.is_likely(0.8) else [])), attributes)


def _tensor_scatter(node: Node) -> list[Result]:
    x, update, starts = node.array(0), node.array(1), node.integers(2) or [0] * node.array(0).shape[0]
    axis = wrap_index(node.attribute("axis"), x.ndim)
    size, length = x.shape[axis], update.shape[axis]

    def source(at: Coordinate) -> Source:
        c = at[axis] - starts[at[0]]
        if node.attribute("mode") == "circular":
            c %= size
        return (1, (*at[:axis], c, *at[axis + 1 :])) if 0 <= c < length else (0, at)

    return [Result(x.shape, x.dtype, source)]


def _past_the_end(node: Node, draw: Draw) -> Node | None:
    starts = node.optional(2)
    if starts is None or node.attribute("mode") != "linear":
        return None
    wrong = starts.copy()
    wrong[-1] = node.array(0).shape[node.attribute("axis")]
    return node.with_input(2, wrong)


TENSOR_SCATTER = Operator(
    "TensorScatter",
    _draw_tensor_scatter,
    _tensor_scatter,
    (
        (has("mode", "circular"), ("the write index is modulo max_sequence_length",)),
        (is_any_node, ("present_cache[cache_idx] = update[update_idx]",)),
    ),
    (
        Rule(
            "write_indices",
            ("`linear` mode requires write_indices+sequence_length<=max_sequence_length",),
            lambda node: (
                node.attribute("mode") != "linear"
                or max(node.integers(2), default=0) + node.array(1).shape[node.attribute("axis")]
                <= node.array(0).shape[node.attribute("axis")]
            ),
            _past_the_end,
        ),
    ),
)


def _draw_one_hot(draw: Draw) -> Node:
    shape = draw.sizes(max_rank=3)
    depth = draw.choice([1, 2, 3, 5])
    indices_dtype, of_depth = draw.dtype("indices"), draw.dtype("depth")
    low = 0 if indices_dtype.kind == "u" else -depth - 2
    numbers = [
        draw.choice([draw.randint(low, depth + 2), depth - 1, 0 if low == 0 else -depth]) for _ in range(count(shape))
    ]
    indices = np.array(numbers, np.float64)
    if indices_dtype.kind == "f" and draw.is_likely(0.4):
        indices += 0.25 * np.sign(indices)
    values = draw.data(draw.dtype("values"), (2,))
    attributes = {"axis": draw.axis(len(shape) + 1)} if draw.is_likely(0.75) else {}
    depths = np.array(depth).astype(of_depth).reshape([1] if draw.is_likely(0.4) else [])
    return Node("OneHot", draw.opset, (indices.reshape(shape).astype(indices_dtype), depths, values), attributes)


def _one_hot(node: Node) -> list[Result]:
    indices, depth, values = node.array(0), node.integers(1)[0], node.array(2)
    axis = wrap_index(node.attribute("axis"), indices.ndim + 1)

    def source(at: Coordinate) -> Source:
        k = int(indices[at[:axis] + at[axis + 1 :]])
        return 2, (1 if wrap_index(k, depth) == at[axis] else 0,)

    return [Result((*indices.shape[:axis], depth, *indices.shape[axis:]), values.dtype, source)]


ONE_HOT = Operator(
    "OneHot",
    _draw_one_hot,
    _one_hot,
    (
        (
            lambda node: node.array(0).dtype.kind == "f",
            ("In case 'indices' is of non-integer type, the values will be casted to int64 before use.",),
        ),
        (
            lambda node: bool((np.abs(node.array(0).astype(np.float64) + 0.5) > node.integers(1)[0]).any()),
            (
                "with values outside the range [-depth, depth-1] will result in one-hot "
                "representation with all 'off_value' "
                "values in the output tensor",
            ),
        ),
        (
            is_any_node,
            ("The locations represented by the index values in the 'indices' input tensor will have 'on_value'",),
        ),
    ),
    (
        attribute_between(
            "axis",
            lambda node: -node.array(0).ndim - 1,
            lambda node: node.array(0).ndim,
            ("Accepted range is [-r-1, r] where r = rank(indices).",),
        ),
        Rule(
            "number of values",
            ("Rank 1 tensor containing exactly two elements",),
            lambda node: node.array(2).shape == (2,),
            lambda node, draw: node.with_input(2, np.concatenate([node.array(2), node.array(2)[:1]])),
        ),
    ),
)


OPERATORS = (SCATTER_ELEMENTS, SCATTER_ND, TENSOR_SCATTER, ONE_HOT)
