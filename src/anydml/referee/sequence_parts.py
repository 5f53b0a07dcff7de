"""Operators that split a tensor into a sequence, and join the tensors of one."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Coordinate, Node, Result, ResultList, Source, TensorList, wrap_index
from anydml.referee.operator_rules import (
    AXIS,
    Ambiguity,
    LeftOut,
    Operator,
    Reading,
    Rule,
    attribute_between,
    is_any_node,
)
from anydml.referee.sequence_operators import FIRST


def _draw_split(draw: Draw) -> Node:
    x = draw.data(draw.dtype("input"), draw.sizes(draw.randint(1, 4)))
    axis = draw.axis(x.ndim)
    size = x.shape[axis]
    attributes: dict[str, Any] = {"axis": axis} if draw.is_likely(0.8) or wrap_index(axis, x.ndim) else {}
    if draw.is_likely(0.5):
        attributes["keepdims"] = draw.choice([0, 1])
    if draw.is_likely(0.3):
        return Node("SplitToSequence", draw.opset, (x,), attributes)
    dtype = draw.index_dtype("split")
    if draw.is_likely(0.5):
        return Node("SplitToSequence", draw.opset, (x, np.array(draw.choice([1, 2, 3, size + 2]), dtype)), attributes)
    parts = [size] if size == 0 else []
    while sum(parts) < size:
        min_size = 0 if draw.is_likely(0.1) else 1
        parts.append(draw.randint(min_size, size - sum(parts)) if len(parts) < 4 else size - sum(parts))
    return Node("SplitToSequence", draw.opset, (x, draw.integers(parts, dtype)), attributes)


def _chunks(node: Node) -> list[int]:
    """Return the sizes of the parts."""
    size, split = node.array(0).shape[node.attribute("axis")], node.optional(1)
    if split is not None and split.ndim:
        return node.integers(1)
    (length,) = node.integers(1) or [1]
    return [min(length, size - first) for first in range(0, size, length)]


def _split(node: Node) -> list[ResultList]:
    x = node.array(0)
    axis = wrap_index(node.attribute("axis"), x.ndim)
    is_kept = bool(node.attribute("keepdims")) or node.optional(1) is not None
    parts, first = [], 0
    for length in _chunks(node):

        def source(at: Coordinate, first: int = first) -> Source:
            return 0, (*at[:axis], (at[axis] if is_kept else 0) + first, *at[axis + is_kept :])

        parts.append(Result((*x.shape[:axis], *[length] * is_kept, *x.shape[axis + 1 :]), x.dtype, source))
        first += length
    return [ResultList(x.dtype, tuple(parts))]


def _one_of_nothing(node: Node) -> list[ResultList]:
    """Return a sequence that contains one tensor without elements."""
    empty = Result(node.array(0).shape, node.array(0).dtype, lambda at: (0, at))
    return [ResultList(empty.dtype, (empty,))]


def _is_by_sizes(node: Node) -> bool:
    split = node.optional(1)
    return split is not None and split.ndim == 1


def _other_sum(node: Node, draw: Draw) -> Node | None:
    if not _is_by_sizes(node):
        return None
    parts = node.integers(1)
    return node.with_input(1, draw.integers([*parts[:-1], parts[-1] + 1], node.array(1).dtype))


SPLIT_TO_SEQUENCE = Operator(
    "SplitToSequence",
    _draw_split,
    _split,
    (
        (
            lambda node: node.optional(1) is not None and not node.attribute("keepdims"),
            ("If input 'split' is specified, this attribute is ignored.",),
        ),
        (_is_by_sizes, ("with lengths of the parts on 'axis' specified in 'split'",)),
        (
            lambda node: node.optional(1) is not None,
            ("If 'split' is a scalar, then 'input' will be split into chunks all of size 'split' if possible.",),
        ),
        (
            lambda node: node.attribute("keepdims") == 0,
            ("Default 1, which means we keep split dimension.",),
        ),
        (is_any_node, ("is not specified, a default scalar value of 1 is used as the value of",)),
    ),
    (
        AXIS._replace(quote=("Accepted range is [-rank, rank-1].",)),
        Rule(
            "sum of split",
            ("the sum of entries in 'split' must be equal to the dimension size of input tensor on 'axis'",),
            lambda node: not _is_by_sizes(node) or sum(node.integers(1)) == node.array(0).shape[node.attribute("axis")],
            _other_sum,
        ),
    ),
    (
        Ambiguity(
            "whether a part may be empty: split must be positive, and must be 0 or more",
            lambda node: 0 in node.integers(1),
            (
                Reading("it may: all values must be >= 0", _split),
                Reading("it may not: split must contain only positive numbers", None),
            ),
        ),
        Ambiguity(
            "an axis without elements that is split into parts of one size",
            lambda node: not _is_by_sizes(node) and node.array(0).shape[node.attribute("axis")] == 0,
            (
                Reading("a sequence without tensors", _split),
                Reading("one part, which has no elements", _one_of_nothing),
                Reading("one or more outputs, so there is no such split", None),
            ),
        ),
    ),
    left_out=(
        LeftOut(
            "parts of size 0, or less, of a scalar split",
            lambda node: not _is_by_sizes(node) and min(node.integers(1), default=1) < 1,
        ),
    ),
)


def _draw_concat(draw: Draw) -> Node:
    dtype, is_new = draw.dtype(FIRST), draw.is_likely(0.4)
    shape = draw.sizes(draw.randint(0 if is_new else 1, 3))
    axis = draw.axis(len(shape) + is_new)
    at = wrap_index(axis, len(shape) + is_new)
    part_count = draw.choice([1, 2, 2, 3, 4])
    sizes = [draw.choice([0, 1, 1, 2, 3]) for _ in range(part_count)]
    shapes = [shape if is_new else (*shape[:at], size, *shape[at + 1 :]) for size in sizes]
    attributes = {"axis": axis, **({"new_axis": int(is_new)} if is_new or draw.is_likely(0.5) else {})}
    tensors = TensorList(dtype, tuple(draw.data(dtype, shape) for shape in shapes))
    return Node("ConcatFromSequence", draw.opset, (tensors,), attributes)


def _concat(node: Node) -> list[Result]:
    tensors, is_new = node.tensors(0), bool(node.attribute("new_axis"))
    first = tensors[0]
    axis = wrap_index(node.attribute("axis"), first.ndim + is_new)
    sizes = [1 if is_new else tensor.shape[axis] for tensor in tensors]

    def source(at: Coordinate) -> Source:
        c, k = at[axis], 0
        while c >= sizes[k]:
            c -= sizes[k]
            k += 1
        return 0, (*at[:axis], *([] if is_new else [c]), *at[axis + 1 :]), k

    after = first.shape[axis:] if is_new else first.shape[axis + 1 :]
    return [Result((*first.shape[:axis], sum(sizes), *after), first.dtype, source)]


def _are_joinable(node: Node) -> bool:
    shapes = [tensor.shape for tensor in node.tensors(0)]
    if not node.attribute("new_axis"):
        shapes = [tuple(np.delete(shape, node.attribute("axis")).tolist()) for shape in shapes]
    return len({*shapes}) <= 1


def _other_size(node: Node, draw: Draw) -> Node | None:
    tensors = node.tensors(0)
    rank = tensors[0].ndim
    other_axes = [k for k in range(rank) if node.attribute("new_axis") or k != wrap_index(node.attribute("axis"), rank)]
    if not other_axes or len(tensors) < 2:
        return None
    k, last = draw.choice(other_axes), tensors[-1]
    shape = (*last.shape[:k], last.shape[k] + 1, *last.shape[k + 1 :])
    return node.with_input(0, TensorList(last.dtype, (*tensors[:-1], draw.data(last.dtype, shape))))


def _rank(node: Node) -> int:
    return max((tensor.ndim for tensor in node.tensors(0)), default=0) + bool(node.attribute("new_axis"))


CONCAT_FROM_SEQUENCE = Operator(
    "ConcatFromSequence",
    _draw_concat,
    _concat,
    (
        (
            lambda node: bool(node.attribute("new_axis")),
            ("When 'new_axis' is 1, the behavior is similar to numpy.stack.",),
        ),
        (is_any_node, ("Concatenate a sequence of tensors into a single tensor.",)),
    ),
    (
        attribute_between(
            "axis",
            lambda node: -_rank(node),
            lambda node: _rank(node) - 1,
            ("Accepted range in `[-r, r - 1]`, where `r` is the rank of input tensors.",),
        ),
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
    left_out=(LeftOut("a sequence without tensors, which has no sizes to join", lambda node: not node.tensors(0)),),
)

OPERATORS = (SPLIT_TO_SEQUENCE, CONCAT_FROM_SEQUENCE)
