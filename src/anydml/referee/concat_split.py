"""Operators that join and split tensors: Concat, Split."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Coordinate, Node, Result, Source, wrap_index
from anydml.referee.operator_rules import (
    AXIS,
    Ambiguity,
    Operator,
    Reading,
    Rule,
    is_any_node,
)


def _draw_concat(draw: Draw) -> Node:
    shape = draw.sizes(draw.randint(1, 4))
    axis = draw.axis(len(shape))
    at = wrap_index(axis, len(shape))
    dtype = draw.dtype("inputs")
    sizes = [draw.choice([0, 1, 1, 2, 3]) for _ in range(draw.choice([1, 2, 2, 3, 4]))]
    inputs = tuple(draw.data(dtype, (*shape[:at], size, *shape[at + 1 :])) for size in sizes)
    return Node("Concat", draw.opset, inputs, {"axis": axis})


def _concat(node: Node) -> list[Result]:
    x = node.array(0)
    axis = wrap_index(node.attribute("axis"), x.ndim)
    sizes = [node.array(k).shape[axis] for k in range(len(node.inputs))]

    def source(at: Coordinate) -> Source:
        c, k = at[axis], 0
        while c >= sizes[k]:
            c -= sizes[k]
            k += 1
        return k, (*at[:axis], c, *at[axis + 1 :])

    return [Result((*x.shape[:axis], sum(sizes), *x.shape[axis + 1 :]), x.dtype, source)]


def _other_size(node: Node, draw: Draw) -> Node | None:
    x = node.array(0)
    axis = wrap_index(node.attribute("axis"), x.ndim)
    other_axes = [k for k in range(x.ndim) if k != axis]
    if not other_axes or len(node.inputs) < 2:
        return None
    k = draw.choice(other_axes)
    last = node.array(len(node.inputs) - 1)
    shape = (*last.shape[:k], last.shape[k] + 1, *last.shape[k + 1 :])
    return node.with_input(len(node.inputs) - 1, draw.data(last.dtype, shape))


def _are_joinable(node: Node) -> bool:
    axis = node.attribute("axis")
    shapes = {tuple(np.delete(node.array(k).shape, axis).tolist()) for k in range(len(node.inputs))}
    return len(shapes) == 1


CONCAT = Operator(
    "Concat",
    _draw_concat,
    _concat,
    ((is_any_node, ("Concatenate a list of tensors into a single tensor.",)),),
    (
        AXIS,
        Rule(
            "sizes",
            (
                "All input tensors must have the same shape, except for the dimension size of the "
                "axis to concatenate on.",
            ),
            _are_joinable,
            _other_size,
        ),
    ),
)


def _draw_split(draw: Draw) -> Node:
    x = draw.data(draw.dtype("input"), draw.sizes(draw.randint(1, 4)))
    axis = draw.axis(x.ndim)
    size = x.shape[axis]
    attributes: dict[str, Any] = {"axis": axis} if draw.is_likely(0.8) or axis else {}
    if draw.is_likely(0.5):
        parts = [size] if size == 0 else []
        while sum(parts) < size:
            parts.append(draw.randint(0, size - sum(parts)) if len(parts) < 4 else size - sum(parts))
        if draw.opset < 13:
            return Node("Split", draw.opset, (x,), {**attributes, "split": parts}, len(parts))
        return Node("Split", draw.opset, (x, draw.integers(parts)), attributes, len(parts))
    part_count = draw.choice([1, 2, 2, 3, 4])
    if draw.opset < 18 and size % part_count:
        part_count = 1
    if draw.opset >= 18:
        attributes["num_outputs"] = part_count
    return Node("Split", draw.opset, (x,), attributes, part_count)


def _lengths(node: Node) -> list[int]:
    size = node.array(0).shape[node.attribute("axis")]
    if node.opset < 13 and "split" in node.attributes:
        return list(node.attributes["split"])
    if node.optional(1) is not None:
        return node.integers(1)
    largest = -(-size // node.outputs)
    return [max(0, min(largest, size - k * largest)) for k in range(node.outputs)]


def _split(node: Node) -> list[Result]:
    x = node.array(0)
    axis = wrap_index(node.attribute("axis"), x.ndim)
    parts, first = [], 0
    for length in _lengths(node):

        def source(at: Coordinate, first: int = first) -> Source:
            return 0, (*at[:axis], at[axis] + first, *at[axis + 1 :])

        parts.append(Result((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype, source))
        first += length
    return parts


def _is_by_sizes(node: Node) -> bool:
    return "split" in node.attributes or node.optional(1) is not None


def _other_sum(node: Node, draw: Draw) -> Node | None:
    if not _is_by_sizes(node):
        return None
    parts = _lengths(node)
    wrong = [*parts[:-1], parts[-1] + draw.choice([1, 2])]
    if node.opset < 13:
        return node._replace(attributes={**node.attributes, "split": wrong})
    return node.with_input(1, draw.integers(wrong))


def _has_empty_parts(node: Node) -> bool:
    """Whether there are too few elements for all parts but the last to have the largest size."""
    size = node.array(0).shape[node.attribute("axis")]
    largest = -(-size // node.outputs)
    return not _is_by_sizes(node) and size % node.outputs > 0 and largest * (node.outputs - 1) > size


SPLIT = Operator(
    "Split",
    _draw_split,
    _split,
    (
        (
            _is_by_sizes,
            (
                "it indicates the sizes of each output in the split",
                "Lengths of the parts can be specified using input 'split'",
                "Lengths of the parts can be specified using argument 'split'",
            ),
        ),
        (
            lambda node: node.array(0).shape[node.attribute("axis")] % node.outputs > 0,
            ("If the tensor is not evenly splittable into `num_outputs`, the last chunk will be smaller.",),
        ),
        (
            is_any_node,
            (
                "the tensor is split into equal sized parts",
                "Otherwise, the tensor is split to equal sized parts",
            ),
        ),
    ),
    (
        AXIS,
        Rule(
            "sum of split",
            (
                "Sum of the values must be equal to the dim value at 'axis' specified",
                "Lengths of the parts can be specified using argument 'split'",
                "it indicates the sizes of each output in the split",
            ),
            lambda node: not _is_by_sizes(node) or sum(_lengths(node)) == node.array(0).shape[node.attribute("axis")],
            _other_sum,
        ),
    ),
    (
        Ambiguity(
            "the last chunk is smaller, but one smaller chunk is not enough",
            _has_empty_parts,
            (
                Reading("chunks of ceil(size / num_outputs), then what is left, then nothing", _split),
                Reading("only the last may be smaller, so there is no such split", None),
            ),
        ),
    ),
)


OPERATORS = (CONCAT, SPLIT)
