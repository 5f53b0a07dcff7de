"""Operators that give the same elements another shape or order: Transpose, Reshape, Flatten, Squeeze, Unsqueeze, Identity."""

from __future__ import annotations

from typing import Any

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Array, Coordinate, Node, Result, Sizes, Source, count, number, place, wrapped
from anydml.referee.rules import Operator, Quote, Rule, always, attribute_between, input_between, rank_of


def whole(draw: Draw, most_rank: int = 5, least_rank: int = 0, parameter: str = "data") -> Array:
    """Elements of any type and shape for an input."""
    while True:
        shape = draw.sizes(most_rank=most_rank)
        if len(shape) >= least_rank:
            return draw.data(draw.dtype(parameter), shape)


def reordered(node: Node, shape: Sizes) -> list[Result]:
    """The first input's elements in row-major order, in another shape."""
    x = node.array(0)

    def source(at: Coordinate) -> Source:
        return 0, place(number(at, shape), x.shape)

    return [Result(shape, x.dtype, source)]


def _draw_transpose(draw: Draw) -> Node:
    x = whole(draw, 6)
    order = draw.subset(range(x.ndim), x.ndim)
    return Node("Transpose", draw.opset, (x,), {"perm": order} if draw.is_likely(0.85) and x.ndim else {})


def _transpose(node: Node) -> list[Result]:
    x = node.array(0)
    perm = node.attribute("perm")
    if perm is None:
        perm = [*reversed(range(x.ndim))]

    def source(at: Coordinate) -> Source:
        there = [0] * x.ndim
        for i, axis in enumerate(perm):
            there[axis] = at[i]
        return 0, tuple(there)

    return [Result(tuple(x.shape[axis] for axis in perm), x.dtype, source)]


def _double(node: Node, draw: Draw) -> Node | None:
    perm = node.attributes.get("perm")
    return node._replace(attributes={"perm": [*perm[:-1], perm[0]]}) if perm and len(perm) > 1 else None


TRANSPOSE = Operator(
    "Transpose",
    _draw_transpose,
    _transpose,
    (
        (lambda node: "perm" not in node.attributes, ("By default, reverse the dimensions",)),
        (always, ("otherwise permute the axes according to the values given",)),
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
            _double,
        ),
    ),
    typed_by="data",
)


def _factored(draw: Draw, total: int) -> list[int]:
    """Sizes with that product."""
    found = []
    for prime in (2, 2, 2, 3, 3, 5, 7):
        if total % prime == 0 and draw.is_likely(0.6):
            found.append(prime)
            total //= prime
    found += [total, *[1] * draw.choice([0, 0, 1, 2])]
    draw.shuffle(found)
    return found


def _draw_reshape(draw: Draw) -> Node:
    x = whole(draw)
    attributes: dict[str, Any] = {}
    if draw.opset >= 14 and draw.is_likely(0.5):
        attributes["allowzero"] = draw.choice([0, 1])
    if 0 in x.shape:
        wanted = list(x.shape)
        if attributes.get("allowzero"):
            draw.shuffle(wanted)
    else:
        wanted = _factored(draw, x.size) if x.size > 1 or draw.is_likely(0.7) else []
        if not attributes.get("allowzero"):
            wanted = [0 if k < x.ndim and x.shape[k] == n and draw.is_likely(0.5) else n for k, n in enumerate(wanted)]
        if wanted and draw.is_likely(0.5):
            wanted[draw.randrange(len(wanted))] = -1
    return Node("Reshape", draw.opset, (x, draw.integers(wanted)), attributes)


def _reshape(node: Node) -> list[Result]:
    x, wanted = node.array(0), node.integers(1)
    if not node.attribute("allowzero"):
        wanted = [x.shape[k] if size == 0 else size for k, size in enumerate(wanted)]
    known = count(tuple(size for size in wanted if size != -1))
    return reordered(node, tuple(x.size // known if size == -1 else size for size in wanted))


def _other_count(node: Node, draw: Draw) -> Node | None:
    wanted = [n for n in node.integers(1)]
    if not node.array(0).size or 0 in wanted or not wanted:
        return None
    return node.with_input(1, draw.integers([n for n in wanted if n != -1] + [node.array(0).size + 1]))


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
        (always, ("Reshape the input tensor similar to numpy.reshape.",)),
    ),
    (
        Rule(
            "number of elements",
            (
                "The input tensor's shape and the output tensor's shape are required to have the same number of elements.",
                "Reshape the input tensor similar to numpy.reshape.",
            ),
            _is_reshaped_whole,
            _other_count,
        ),
    ),
    typed_by="data",
    left_out=("−1 where the input is empty: the text infers it from 0 and the remaining dimensions",),
)


def _draw_flatten(draw: Draw) -> Node:
    x = whole(draw, parameter="input")
    axis = draw.choice([-x.ndim, x.ndim, draw.randint(-x.ndim, x.ndim)])
    given = {"axis": axis} if draw.is_likely(0.85) or x.ndim == 0 else {}
    return Node("Flatten", draw.opset, (x,), given)


def _flatten(node: Node) -> list[Result]:
    x = node.array(0)
    axis = wrapped(node.attribute("axis"), x.ndim)
    return reordered(node, (count(x.shape[:axis]), count(x.shape[axis:])))


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
            always,
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
            rank_of(),
            ("The value for axis must be in the range [-r, r], where r is the rank of the input tensor",),
        ),
    ),
    typed_by="input",
)


def given_axes(draw: Draw, x: Array, axes: list[int], operator: str, rank: int) -> Node:
    """A node with axes as an attribute before opset 13, and as an input since."""
    signed = [draw.signed(axis, rank) for axis in axes]
    if draw.opset < 13:
        return Node(operator, draw.opset, (x,), {"axes": signed})
    return Node(operator, draw.opset, (x, draw.integers(signed)))


def axes_of(node: Node) -> list[int] | None:
    """Axes from an attribute or input; None if there are none."""
    if node.opset < 13:
        found: list[int] | None = node.attributes.get("axes")
        return found
    return None if node.optional(1) is None else node.integers(1)


def _draw_squeeze(draw: Draw) -> Node:
    x = whole(draw, 6)
    ones = [k for k, size in enumerate(x.shape) if size == 1]
    if not ones or draw.is_likely(0.25):
        return Node("Squeeze", draw.opset, (x,))
    return given_axes(draw, x, draw.subset(ones, 1), "Squeeze", x.ndim)


def _squeeze(node: Node) -> list[Result]:
    x, axes = node.array(0), axes_of(node)
    if axes is None:
        gone = {k for k, size in enumerate(x.shape) if size == 1}
    else:
        gone = {wrapped(axis, x.ndim) for axis in axes}
    return reordered(node, tuple(size for k, size in enumerate(x.shape) if k not in gone))


def _axes_in(low: Any, high: Any, quote: Quote) -> Rule:
    """The rule that axes, of an attribute or input, are in a range."""

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
    more = [k for k, size in enumerate(x.shape) if size > 1]
    return given_axes(draw, x, [draw.choice(more)], "Squeeze", x.ndim) if more else None


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
        (always, ("Remove single-dimensional entries from the shape of a tensor.",)),
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
    typed_by="data",
)


def _draw_unsqueeze(draw: Draw) -> Node:
    x = whole(draw, 4)
    rank = x.ndim + draw.choice([1, 1, 2, 3])
    return given_axes(draw, x, draw.sample(range(rank), rank - x.ndim), "Unsqueeze", rank)


def _unsqueeze(node: Node) -> list[Result]:
    x, axes = node.array(0), axes_of(node) or []
    rank = x.ndim + len(axes)
    new, old = {wrapped(axis, rank) for axis in axes}, iter(x.shape)
    return reordered(node, tuple(1 if k in new else next(old) for k in range(rank)))


def _unsqueezed_twice(node: Node, draw: Draw) -> Node | None:
    axes = axes_of(node) or []
    x = node.array(0)
    return given_axes(draw, x, [0, *[0 for _ in axes]], "Unsqueeze", x.ndim + len(axes) + 1)


def _are_distinct(node: Node) -> bool:
    axes = axes_of(node) or []
    rank = node.array(0).ndim + len(axes)
    return len({wrapped(axis, rank) for axis in axes}) == len(axes)


UNSQUEEZE = Operator(
    "Unsqueeze",
    _draw_unsqueeze,
    _unsqueeze,
    (
        (
            always,
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
    typed_by="data",
)


def _identity(node: Node) -> list[Result]:
    return reordered(node, node.array(0).shape)


IDENTITY = Operator(
    "Identity",
    lambda draw: Node("Identity", draw.opset, (whole(draw, 6, parameter="input"),)),
    _identity,
    ((always, ("Tensor to copy input into.",)),),
    typed_by="input",
    left_out=("sequences and optional values",),
)

OPERATORS = (TRANSPOSE, RESHAPE, FLATTEN, SQUEEZE, UNSQUEEZE, IDENTITY)
