"""Operators that move blocks of pixels: DepthToSpace, SpaceToDepth."""

from __future__ import annotations

from typing import Any

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Coordinate, Node, Result, Source, coordinate_of
from anydml.referee.operator_rules import Operator, has, is_any_node


def _draw_depth_to_space(draw: Draw) -> Node:
    n, c, h, w = (draw.choice([1, 2, 3]) for _ in range(4))
    block = draw.choice([1, 2, 2, 3])
    x = draw.data(draw.dtype("input"), (n if draw.is_likely(0.95) else 0, c * block * block, h, w))
    attributes: dict[str, Any] = {"blocksize": block}
    if draw.is_likely(0.75):
        attributes["mode"] = draw.choice(["DCR", "CRD"])
    return Node("DepthToSpace", draw.opset, (x,), attributes)


def _depth_to_space(node: Node) -> list[Result]:
    x, b = node.array(0), node.attribute("blocksize")
    n, c, h, w = x.shape
    depth = c // (b * b)

    def source(at: Coordinate) -> Source:
        batch, d, y, z = at
        row, column = y % b, z % b
        channel = (row * b + column) * depth + d if node.attribute("mode") == "DCR" else (d * b + row) * b + column
        return 0, (batch, channel, y // b, z // b)

    return [Result((n, depth, h * b, w * b), x.dtype, source)]


DEPTH_TO_SPACE = Operator(
    "DepthToSpace",
    _draw_depth_to_space,
    _depth_to_space,
    (
        (
            has("mode", "CRD"),
            (
                "In the CRD mode, elements along the depth dimension from the input tensor are "
                "rearranged in the following "
                "order: column, row, and the depth.",
            ),
        ),
        (
            is_any_node,
            (
                "In the DCR mode, elements along the depth dimension from the input tensor are "
                "rearranged in the following "
                "order: depth, column, and then row.",
            ),
        ),
    ),
)


def _draw_space_to_depth(draw: Draw) -> Node:
    n, c, h, w = (draw.choice([1, 2, 3]) for _ in range(4))
    block = draw.choice([1, 2, 2, 3])
    x = draw.data(draw.dtype("input"), (n if draw.is_likely(0.95) else 0, c, h * block, w * block))
    return Node("SpaceToDepth", draw.opset, (x,), {"blocksize": block})


def _space_to_depth(node: Node) -> list[Result]:
    x, b = node.array(0), node.attribute("blocksize")
    n, c, h, w = x.shape

    def source(at: Coordinate) -> Source:
        batch, channel, y, z = at
        row, column = coordinate_of(channel // c, (b, b))
        return 0, (batch, channel % c, y * b + row, z * b + column)

    return [Result((n, c * b * b, h // b, w // b), x.dtype, source)]


SPACE_TO_DEPTH = Operator(
    "SpaceToDepth",
    _draw_space_to_depth,
    _space_to_depth,
    (
        (
            is_any_node,
            (
                "values from the height and width dimensions are moved to the depth dimension",
                "this op outputs a copy of the input tensor where values from the height and width "
                "dimensions are moved to the "
                "depth dimension",
            ),
        ),
    ),
)

OPERATORS = (DEPTH_TO_SPACE, SPACE_TO_DEPTH)
