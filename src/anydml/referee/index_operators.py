"""Operators that read by indices: Gather, GatherElements, GatherND, Compress, ReverseSequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Array, Coordinate, Node, Result, Sizes, Source, coordinate_of, wrap_index
from anydml.referee.operator_rules import AXIS, Operator, Quote, Rule, input_between, is_any_node, one_of

OUT_OF_BOUNDS: Quote = (
    "It is an error if any of the index values are out of bounds.",
    "All index values are expected to be within bounds [-s, s-1] along axis of size s.",
    "but are expected in the valid range",
    "Index values are allowed to be negative, as per the usual convention for counting backwards from the end",
    "`indices` is treated as a (q-1)-dimensional tensor of k-tuples, where each k-tuple is a partial-index into `data`",
)


def drawn_indices(draw: Draw, shape: Sizes, size: int, dtype: Any) -> Array:
    """Return indices of an axis from either end; the first and last are likely."""
    numbers = [
        draw.choice([draw.randrange(-size, size), draw.choice([-size, size - 1, 0, -1])])
        for _ in range(int(np.prod(shape)))
    ]
    return np.array(numbers, dtype).reshape(shape)


def along_axis(node: Node) -> tuple[Array, Array]:
    """Return the first and last valid index of the axis."""
    size = node.array(0).shape[node.attribute("axis")]
    return np.array(-size), np.array(size - 1)


def _draw_gather(draw: Draw) -> Node | None:
    x = draw.data(draw.dtype("data"), draw.sizes(draw.randint(1, 4)))
    axis = draw.axis(x.ndim)
    shape = draw.sizes(draw.choice([0, 1, 1, 2, 3]))
    if x.shape[axis] == 0:
        shape = (*shape, 0)
    indices = drawn_indices(draw, shape, x.shape[axis], draw.index_dtype("indices"))
    attributes = {"axis": axis} if draw.is_likely(0.8) or axis % x.ndim else {}
    return Node("Gather", draw.opset, (x, indices), attributes)


def _gather(node: Node) -> list[Result]:
    x, indices = node.array(0), node.array(1)
    axis = wrap_index(node.attribute("axis"), x.ndim)

    def source(at: Coordinate) -> Source:
        k = int(indices[at[axis : axis + indices.ndim]])
        return 0, (*at[:axis], wrap_index(k, x.shape[axis]), *at[axis + indices.ndim :])

    return [Result((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype, source)]


GATHER = Operator(
    "Gather",
    _draw_gather,
    _gather,
    (
        (
            lambda node: bool((node.array(1) < 0).any()),
            ("All index values are expected to be within bounds [-s, s-1] along axis of size s.",),
        ),
        (
            is_any_node,
            (
                "Each entry in `indices` produces a `r-1` dimensional slice of the input tensor.",
                "and concatenates them in an output tensor of rank q + (r - 1)",
            ),
        ),
    ),
    (AXIS, input_between("indices", 1, along_axis, OUT_OF_BOUNDS)),
)


def _draw_gather_elements(draw: Draw) -> Node:
    x = draw.data(draw.dtype("data"), draw.sizes(draw.randint(1, 4)))
    axis = draw.axis(x.ndim)
    shape = [draw.choice([size, draw.randint(0, size)]) for size in x.shape]
    shape[axis] = draw.randint(0, 5) if x.shape[axis] else 0
    indices = drawn_indices(draw, tuple(shape), x.shape[axis], draw.index_dtype("indices"))
    attributes = {"axis": axis} if draw.is_likely(0.8) or axis % x.ndim else {}
    return Node("GatherElements", draw.opset, (x, indices), attributes)


def _gather_elements(node: Node) -> list[Result]:
    x, indices = node.array(0), node.array(1)
    axis = wrap_index(node.attribute("axis"), x.ndim)

    def source(at: Coordinate) -> Source:
        return 0, (*at[:axis], wrap_index(int(indices[at]), x.shape[axis]), *at[axis + 1 :])

    return [Result(indices.shape, x.dtype, source)]


GATHER_ELEMENTS = Operator(
    "GatherElements",
    _draw_gather_elements,
    _gather_elements,
    ((is_any_node, ("Its output shape is the same as the shape of `indices` and consists of one value",)),),
    (
        AXIS,
        input_between("indices", 1, along_axis, OUT_OF_BOUNDS),
        Rule(
            "rank of indices",
            ("with the same rank r as the input",),
            lambda node: node.array(1).ndim == node.array(0).ndim,
            lambda node, draw: node.with_input(1, node.array(1)[None]),
        ),
    ),
)


def drawn_tuples(draw: Draw, leading: Sizes, sizes: Sizes) -> Array:
    """Index tuples of some axes."""
    columns = [drawn_indices(draw, leading, size, np.int64) for size in sizes]
    return np.stack(columns, -1) if columns else np.zeros((*leading, 0), np.int64)


def _draw_gather_nd(draw: Draw) -> Node:
    shape = draw.sizes(draw.randint(1, 4), min_size=1)
    x = draw.data(draw.dtype("data"), shape)
    batch = draw.choice([0, draw.randrange(x.ndim)]) if draw.opset >= 12 else 0
    length = draw.randint(1, x.ndim - batch)
    leading = (*shape[:batch], *draw.sizes(draw.choice([0, 1, 2])))
    indices = drawn_tuples(draw, leading, shape[batch : batch + length])
    attributes = {"batch_dims": batch} if batch or (draw.opset >= 12 and draw.is_likely(0.3)) else {}
    return Node("GatherND", draw.opset, (x, indices), attributes)


def _gather_nd(node: Node) -> list[Result]:
    x, indices = node.array(0), node.array(1)
    b = node.attribute("batch_dims") or 0
    q, length = indices.ndim, indices.shape[-1]

    def source(at: Coordinate) -> Source:
        tuple_ = [wrap_index(int(i), size) for i, size in zip(indices[at[: q - 1]], x.shape[b:], strict=False)]
        return 0, (*at[:b], *tuple_, *at[q - 1 :])

    return [Result((*indices.shape[:-1], *x.shape[b + length :]), x.dtype, source)]


def tuple_bounds(node: Node) -> tuple[Array, Array]:
    """Return the first and last valid index of each axis that tuples index."""
    b = node.attribute("batch_dims") or 0
    sizes = np.array(node.array(0).shape[b : b + node.array(1).shape[-1]], np.int64)
    return -sizes, sizes - 1


GATHER_ND = Operator(
    "GatherND",
    _draw_gather_nd,
    _gather_nd,
    (
        (
            lambda node: (node.attribute("batch_dims") or 0) > 0,
            ("starts from the `b+1` dimension",),
        ),
        (
            is_any_node,
            (
                "The output tensor is obtained by mapping each index-tuple in the `indices` tensor "
                "to the corresponding slice "
                "of the input `data`",
            ),
        ),
    ),
    (input_between("indices", 1, tuple_bounds, OUT_OF_BOUNDS),),
)


def _draw_compress(draw: Draw) -> Node:
    x = draw.data(draw.dtype("input"), draw.sizes(draw.randint(1, 4)))
    axis = draw.axis(x.ndim)
    is_flat = draw.is_likely(0.4)
    limit = x.size if is_flat else x.shape[axis]
    share = draw.choice([0.5, 0.5, 0.0, 1.0])
    length = draw.choice([limit, draw.randint(0, limit)])
    condition = np.array([draw.is_likely(share) for _ in range(length)], bool)
    return Node("Compress", draw.opset, (x, condition), {} if is_flat else {"axis": axis})


def _compress(node: Node) -> list[Result]:
    x, condition = node.array(0), node.array(1)
    chosen = [k for k, is_chosen in enumerate(condition) if is_chosen]
    if node.attribute("axis") is None:
        return [Result((len(chosen),), x.dtype, lambda at: (0, coordinate_of(chosen[at[0]], x.shape)))]
    axis = wrap_index(node.attribute("axis"), x.ndim)

    def source(at: Coordinate) -> Source:
        return 0, (*at[:axis], chosen[at[axis]], *at[axis + 1 :])

    return [Result((*x.shape[:axis], len(chosen), *x.shape[axis + 1 :]), x.dtype, source)]


COMPRESS = Operator(
    "Compress",
    _draw_compress,
    _compress,
    (
        (
            lambda node: node.attribute("axis") is None,
            ("In case axis is not provided, input is flattened before elements are selected.",),
        ),
        (
            is_any_node,
            (
                "Selects slices from an input tensor along a given axis where condition evaluates to "
                "True for each axis index.",
            ),
        ),
    ),
    (AXIS,),
)


def _draw_reverse(draw: Draw) -> Node:
    shape = draw.sizes(draw.choice([2, 2, 3, 4]))
    x = draw.data(draw.dtype("input"), shape)
    time = draw.randrange(2)
    lengths = [draw.choice([shape[time], draw.randint(0, shape[time])]) for _ in range(shape[1 - time])]
    attributes = {"time_axis": time, "batch_axis": 1 - time} if time or draw.is_likely(0.6) else {}
    return Node("ReverseSequence", draw.opset, (x, draw.integers(lengths)), attributes)


def _reverse(node: Node) -> list[Result]:
    x, lengths = node.array(0), node.array(1)
    time, batch = node.attribute("time_axis"), node.attribute("batch_axis")

    def source(at: Coordinate) -> Source:
        length, c = int(lengths[at[batch]]), at[time]
        return 0, (*at[:time], length - 1 - c if c < length else c, *at[time + 1 :])

    return [Result(x.shape, x.dtype, source)]


REVERSE_SEQUENCE = Operator(
    "ReverseSequence",
    _draw_reverse,
    _reverse,
    ((is_any_node, ("the operator reverses the first sequence_lens[i] elements on time axis",)),),
    (
        one_of("time_axis", lambda node: [0, 1], 2, ("Must be one of 0 (default), or 1.",)),
        Rule(
            "sizes of sequence_lens",
            ("It has shape `[batch_size]`.",),
            lambda node: node.array(1).shape == (node.array(0).shape[node.attribute("batch_axis")],),
            lambda node, draw: node.with_input(1, draw.integers([*node.integers(1), 0])),
        ),
    ),
)

OPERATORS = (GATHER, GATHER_ELEMENTS, GATHER_ND, COMPRESS, REVERSE_SEQUENCE)
