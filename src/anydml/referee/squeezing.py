"""Operators that remove axes of size 1 and insert them: Squeeze, Unsqueeze."""

from __future__ import annotations

from typing import Any

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Array, Node, Result, wrap_index
from anydml.referee.operator_rules import Operator, Quote, Rule, axis_twice, is_any_node
from anydml.referee.shaping import draw_elements, reshape_result


def node_with_axes(draw: Draw, x: Array, axes: list[int], operator: str, rank: int) -> Node:
    """Return a node with axes as an attribute before opset 13, and as an input since."""
    signed = [draw.signed(axis, rank) for axis in axes]
    if draw.opset < 13:
        return Node(operator, draw.opset, (x,), {"axes": signed})
    return Node(operator, draw.opset, (x, draw.integers(signed)))


def axes_of(node: Node) -> list[int] | None:
    """Return axes from an attribute or input; None if there are none."""
    if node.opset < 13:
        axes: list[int] | None = node.attributes.get("axes")
        return axes
    return None if node.optional(1) is None else node.integers(1)


def _draw_squeeze(draw: Draw) -> Node:
    x = draw_elements(draw, 6)
    unit_axes = [k for k, size in enumerate(x.shape) if size == 1]
    if not unit_axes or draw.is_likely(0.25):
        return Node("Squeeze", draw.opset, (x,))
    return node_with_axes(draw, x, draw.subset(unit_axes, 1), "Squeeze", x.ndim)


def _squeeze(node: Node) -> list[Result]:
    x, axes = node.array(0), axes_of(node)
    if axes is None:
        removed = {k for k, size in enumerate(x.shape) if size == 1}
    else:
        removed = {wrap_index(axis, x.ndim) for axis in axes}
    return reshape_result(node, tuple(size for k, size in enumerate(x.shape) if k not in removed))


def _axes_in(low: Any, high: Any, quote: Quote) -> Rule:
    """Return the rule that axes, of an attribute or input, are in a range."""

    def holds(node: Node) -> bool:
        return all(low(node) <= axis <= high(node) for axis in axes_of(node) or [])

    def broken(node: Node, draw: Draw) -> Node | None:
        axes = axes_of(node)
        if not axes:
            return None
        wrong = [*axes[:-1], draw.choice([low(node) - 1, high(node) + 1])]
        if node.opset < 13:
            return node._replace(attributes={"axes": wrong})
        return node.with_input(1, draw.integers(wrong))

    def edges(node: Node) -> list[str]:
        axes = axes_of(node) or []
        return [f"axes {end}" for end, bound in (("first", low), ("last", high)) if bound(node) in axes]

    return Rule("axes", quote, holds, broken, edges)


def _squeeze_more(node: Node, draw: Draw) -> Node | None:
    x = node.array(0)
    longer = [k for k, size in enumerate(x.shape) if size > 1]
    return node_with_axes(draw, x, [draw.choice(longer)], "Squeeze", x.ndim) if longer else None


SQUEEZE = Operator(
    "Squeeze",
    _draw_squeeze,
    _squeeze,
    (
        (
            lambda node: axes_of(node) is None,
            (
                "If `axes` is not provided, all the single dimensions will be removed from the shape.",
                "If axes is not provided, all the single dimensions will be removed from the shape.",
            ),
        ),
        (is_any_node, ("Remove single-dimensional entries from the shape of a tensor.",)),
    ),
    (
        _axes_in(
            lambda node: -node.array(0).ndim,
            lambda node: node.array(0).ndim - 1,
            ("Accepted range is [-r, r-1] where r = rank(data).",),
        ),
        Rule(
            "sizes of axes",
            ("If an axis is selected with shape entry not equal to one, an error is raised.",),
            lambda node: all(node.array(0).shape[axis] == 1 for axis in axes_of(node) or []),
            _squeeze_more,
        ),
    ),
    left_out=(axis_twice(lambda node: axes_of(node) or ()),),
)


def _draw_unsqueeze(draw: Draw) -> Node:
    x = draw_elements(draw, 4)
    rank = x.ndim + draw.choice([1, 1, 2, 3])
    return node_with_axes(draw, x, draw.sample(range(rank), rank - x.ndim), "Unsqueeze", rank)


def _unsqueeze(node: Node) -> list[Result]:
    x, axes = node.array(0), axes_of(node) or []
    rank = x.ndim + len(axes)
    new, old = {wrap_index(axis, rank) for axis in axes}, iter(x.shape)
    return reshape_result(node, tuple(1 if k in new else next(old) for k in range(rank)))


def _unsqueezed_twice(node: Node, draw: Draw) -> Node | None:
    axes = axes_of(node) or []
    x = node.array(0)
    return node_with_axes(draw, x, [0, *[0 for _ in axes]], "Unsqueeze", x.ndim + len(axes) + 1)


def _are_distinct(node: Node) -> bool:
    axes = axes_of(node) or []
    rank = node.array(0).ndim + len(axes)
    return len({wrap_index(axis, rank) for axis in axes}) == len(axes)


UNSQUEEZE = Operator(
    "Unsqueeze",
    _draw_unsqueeze,
    _unsqueeze,
    (
        (
            lambda node: (axes := axes_of(node) or []) != sorted(axes),
            ("The order of values in `axes` does not matter and can come in any order.",),
        ),
        (
            is_any_node,
            (
                "this operator will insert a dimension of value `1` into the corresponding index of the output tensor "
                "(`expanded`)",
                "Insert single-dimensional entries to the shape of an input tensor",
            ),
        ),
    ),
    (
        _axes_in(
            lambda node: -node.array(0).ndim - len(axes_of(node) or []),
            lambda node: node.array(0).ndim + len(axes_of(node) or []) - 1,
            ("should be within the (inclusive) range [-output_rank , output_rank - 1]",),
        ),
        Rule("axes twice", ("It is an error if it contains duplicates.",), _are_distinct, _unsqueezed_twice),
    ),
)


OPERATORS = (SQUEEZE, UNSQUEEZE)
