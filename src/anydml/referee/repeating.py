"""Operators that repeat elements or choose between tensors by broadcasting: Expand, Tile, Where."""

from __future__ import annotations

import numpy as np

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Coordinate, Node, Result, Sizes, Source
from anydml.referee.operator_rules import Operator, Rule, is_any_node
from anydml.referee.shaping import draw_elements


def _draw_expand(draw: Draw) -> Node:
    x = draw_elements(draw, parameter="input")
    shape = [draw.choice([1, size, draw.choice([0, 2, 5]) if size == 1 else size]) for size in x.shape]
    if draw.is_likely(0.4):
        shape = [draw.choice([1, 2, 3]) for _ in range(draw.randint(1, 2))] + shape
    elif shape and draw.is_likely(0.4):
        shape = shape[draw.randint(1, len(shape)) :]
    return Node("Expand", draw.opset, (x, draw.integers(shape)))


def broadcast(*shapes: Sizes) -> Sizes:
    """Return the shape that several shapes broadcast to."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*padded, strict=True))


def read_broadcast(at: Coordinate, shape: Sizes) -> Coordinate:
    """Return the coordinate of an input for a coordinate of the broadcast shape."""
    aligned = at[len(at) - len(shape) :]
    return tuple(0 if size == 1 else c for c, size in zip(aligned, shape, strict=True))


def _expand(node: Node) -> list[Result]:
    x = node.array(0)
    shape = broadcast(x.shape, tuple(node.integers(1)))
    return [Result(shape, x.dtype, lambda at: (0, read_broadcast(at, x.shape)))]


def _is_expandable(node: Node) -> bool:
    pairs = zip(reversed(node.array(0).shape), reversed(node.integers(1)), strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)


def _mismatch(node: Node, draw: Draw) -> Node | None:
    x = node.array(0)
    axes = [k for k, size in enumerate(x.shape) if size > 1]
    if not axes:
        return None
    shape = list(x.shape)
    shape[draw.choice(axes)] += 1
    return node.with_input(1, draw.integers(shape))


EXPAND = Operator(
    "Expand",
    _draw_expand,
    _expand,
    (
        (
            lambda node: _expand(node)[0].shape != tuple(node.integers(1)),
            ("It is possible that the output.shape is not equal to shape",),
        ),
        (is_any_node, ("Broadcast the input tensor following the given shape and the broadcast rule.",)),
    ),
    (
        Rule(
            "sizes",
            ("Two corresponding dimensions must have the same value, or one of them is equal to 1.",),
            _is_expandable,
            _mismatch,
        ),
    ),
)


def _draw_tile(draw: Draw) -> Node:
    x = draw_elements(draw, 4, parameter="input")
    repeats = [draw.choice([1, 1, 1, 2, 3, 0]) for _ in x.shape]
    return Node("Tile", draw.opset, (x, draw.integers(repeats)))


def _tile(node: Node) -> list[Result]:
    x = node.array(0)
    shape = tuple(size * times for size, times in zip(x.shape, node.integers(1), strict=True))
    return [Result(shape, x.dtype, lambda at: (0, tuple(c % size for c, size in zip(at, x.shape, strict=True))))]


TILE = Operator(
    "Tile",
    _draw_tile,
    _tile,
    ((is_any_node, ("output_dim[i] = input_dim[i] * repeats[i]",)),),
    (
        Rule(
            "length of repeats",
            ("1D int64 tensor of the same length as input's dimension number",),
            lambda node: len(node.integers(1)) == node.array(0).ndim,
            lambda node, draw: node.with_input(1, draw.integers([*node.integers(1), 1])),
        ),
    ),
)


def _draw_where(draw: Draw) -> Node:
    shape = draw.sizes()
    parts = [tuple(1 if draw.is_likely(0.25) else size for size in shape) for _ in range(3)]
    parts = [part[draw.randint(0, len(part)) :] if draw.is_likely(0.3) else part for part in parts]
    dtype = draw.dtype("X")
    chosen = draw.data(np.dtype(bool), parts[0])
    return Node("Where", draw.opset, (chosen, draw.data(dtype, parts[1]), draw.data(dtype, parts[2])))


def _where_result(node: Node) -> list[Result]:
    condition, x, y = (node.array(k) for k in range(3))

    def source(at: Coordinate) -> Source:
        chosen = 1 if condition[read_broadcast(at, condition.shape)] else 2
        return chosen, read_broadcast(at, node.array(chosen).shape)

    return [Result(broadcast(condition.shape, x.shape, y.shape), x.dtype, source)]


WHERE = Operator(
    "Where",
    _draw_where,
    _where_result,
    (
        (
            is_any_node,
            (
                "Return elements, either from X or Y, depending on condition.",
                "Return elements, either from X or Y, depending on condition",
            ),
        ),
    ),
)

OPERATORS = (EXPAND, TILE, WHERE)
