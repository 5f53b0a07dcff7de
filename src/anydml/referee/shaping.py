"""Operators that give the same elements another shape or order: Transpose, Reshape, Flatten."""

from __future__ import annotations

from typing import Any

from anydml.referee.drawing import Draw
from anydml.referee.nodes import (
    Array,
    Coordinate,
    Node,
    Result,
    Sizes,
    Source,
    coordinate_of,
    count,
    row_major_index,
    wrap_index,
)
from anydml.referee.operator_rules import LeftOut, Operator, Rule, attribute_between, is_any_node


def draw_elements(draw: Draw, max_rank: int = 5, min_rank: int = 0, parameter: str = "data") -> Array:
    """Return elements of any type and shape for an input."""
    while True:
        shape = draw.sizes(max_rank=max_rank)
        if len(shape) >= min_rank:
            return draw.data(draw.dtype(parameter), shape)


def reshape_result(node: Node, shape: Sizes) -> list[Result]:
    """Return the first input's elements in row-major order, in another shape."""
    x = node.array(0)

    def source(at: Coordinate) -> Source:
        return 0, coordinate_of(row_major_index(at, shape), x.shape)

    return [Result(shape, x.dtype, source)]


def _draw_transpose(draw: Draw) -> Node:
    x = draw_elements(draw, 6)
    order = draw.subset(range(x.ndim), x.ndim)
    return Node("Transpose", draw.opset, (x,), {"perm": order} if draw.is_likely(0.85) and x.ndim else {})


def _transpose(node: Node) -> list[Result]:
    x = node.array(0)
    perm = node.attribute("perm")
    if perm is None:
        perm = [*reversed(range(x.ndim))]

    def source(at: Coordinate) -> Source:
        coordinates = [0] * x.ndim
        for i, axis in enumerate(perm):
            coordinates[axis] = at[i]
        return 0, tuple(coordinates)

    return [Result(tuple(x.shape[axis] for axis in perm), x.dtype, source)]


def _repeat_axis(node: Node, draw: Draw) -> Node | None:
    perm = node.attributes.get("perm")
    return node._replace(attributes={"perm": [*perm[:-1], perm[0]]}) if perm and len(perm) > 1 else None


TRANSPOSE = Operator(
    "Transpose",
    _draw_transpose,
    _transpose,
    (
        (lambda node: "perm" not in node.attributes, ("By default, reverse the dimensions",)),
        (is_any_node, ("otherwise permute the axes according to the values given",)),
    ),
    (
        Rule(
            "perm",
            (
                "`perm` must contain each axis index in `[0, n-1]` exactly once",
                "Its length must be equal to the rank of the input",
                "permute the axes according to the values given",
            ),
            lambda node: sorted(node.attributes.get("perm", range(node.array(0).ndim))) == [*range(node.array(0).ndim)],
            _repeat_axis,
        ),
    ),
)


def _draw_factors(draw: Draw, total: int) -> list[int]:
    """Return sizes with that product."""
    factors = []
    for prime in (2, 2, 2, 3, 3, 5, 7):
        if total % prime == 0 and draw.is_likely(0.6):
            factors.append(prime)
            total //= prime
    factors += [total, *[1] * draw.choice([0, 0, 1, 2])]
    draw.shuffle(factors)
    return factors


def _draw_reshape(draw: Draw) -> Node:
    x = draw_elements(draw)
    attributes: dict[str, Any] = {}
    if draw.opset >= 14 and draw.is_likely(0.5):
        attributes["allowzero"] = draw.choice([0, 1])
    if 0 in x.shape:
        shape = list(x.shape)
        if attributes.get("allowzero"):
            draw.shuffle(shape)
    else:
        shape = _draw_factors(draw, x.size) if x.size > 1 or draw.is_likely(0.7) else []
        if not attributes.get("allowzero"):
            shape = [0 if k < x.ndim and x.shape[k] == n and draw.is_likely(0.5) else n for k, n in enumerate(shape)]
        if shape and draw.is_likely(0.5):
            shape[draw.randrange(len(shape))] = -1
    return Node("Reshape", draw.opset, (x, draw.integers(shape)), attributes)


def _reshape(node: Node) -> list[Result]:
    x, shape = node.array(0), node.integers(1)
    if not node.attribute("allowzero"):
        shape = [x.shape[k] if size == 0 else size for k, size in enumerate(shape)]
    product = count(tuple(size for size in shape if size != -1))
    return reshape_result(node, tuple(x.size // product if size == -1 else size for size in shape))


def _other_count(node: Node, draw: Draw) -> Node | None:
    shape = node.integers(1)
    if not node.array(0).size or 0 in shape or not shape:
        return None
    return node.with_input(1, draw.integers([n for n in shape if n != -1] + [node.array(0).size + 1]))


def _is_reshaped_whole(node: Node) -> bool:
    return bool(_reshape(node)[0].shape is not None and count(_reshape(node)[0].shape) == node.array(0).size)


RESHAPE = Operator(
    "Reshape",
    _draw_reshape,
    _reshape,
    (
        (
            lambda node: bool(node.attributes.get("allowzero")) and 0 in node.integers(1),
            ("If 'allowzero' is set, and the new shape includes 0, the dimension will be set explicitly to zero",),
        ),
        (
            lambda node: 0 in node.integers(1),
            ("A dimension could also be 0, in which case the actual dimension value is unchanged",),
        ),
        (
            lambda node: -1 in node.integers(1),
            ("the value is inferred from the size of the tensor and the remaining dimensions",),
        ),
        (lambda node: node.integers(1) == [], ("which means converting to a scalar",)),
        (is_any_node, ("Reshape the input tensor similar to numpy.reshape.",)),
    ),
    (
        Rule(
            "number of elements",
            (
                "The input tensor's shape and the output tensor's shape are required to have the "
                "same number of elements.",
                "Reshape the input tensor similar to numpy.reshape.",
            ),
            _is_reshaped_whole,
            _other_count,
        ),
    ),
    left_out=(
        LeftOut(
            "−1 where the input is empty: the text infers it from 0 and the remaining dimensions",
            lambda node: -1 in node.integers(1) and not node.array(0).size,
        ),
    ),
)


def _draw_flatten(draw: Draw) -> Node:
    x = draw_elements(draw, parameter="input")
    axis = draw.choice([-x.ndim, x.ndim, draw.randint(-x.ndim, x.ndim)])
    attributes = {"axis": axis} if draw.is_likely(0.85) or x.ndim == 0 else {}
    return Node("Flatten", draw.opset, (x,), attributes)


def _flatten(node: Node) -> list[Result]:
    x = node.array(0)
    axis = wrap_index(node.attribute("axis"), x.ndim)
    return reshape_result(node, (count(x.shape[:axis]), count(x.shape[axis:])))


FLATTEN = Operator(
    "Flatten",
    _draw_flatten,
    _flatten,
    (
        (
            lambda node: node.attribute("axis") == 0,
            ("When axis = 0, the shape of the output tensor is (1, (d_0 X d_1 ... d_n)",),
        ),
        (
            is_any_node,
            (
                "with input dimensions up to axis flattened to the outer dimension of the output and remaining input "
                "dimensions flattened into the inner dimension of the output",
            ),
        ),
    ),
    (
        attribute_between(
            "axis",
            lambda node: -node.array(0).ndim,
            lambda node: node.array(0).ndim,
            ("The value for axis must be in the range [-r, r], where r is the rank of the input tensor",),
        ),
    ),
)


OPERATORS = (TRANSPOSE, RESHAPE, FLATTEN)
