"""Operators that cut tensors and join them: Concat, Split, Slice."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.referee.drawing import FAR, Draw
from anydml.referee.nodes import Array, Coordinate, Node, Result, Source, wrapped
from anydml.referee.rules import (
    AXIS,
    AXIS_IN_RANGE,
    Ambiguity,
    Operator,
    Quote,
    Reading,
    Rule,
    always,
    input_between,
)
from anydml.referee.shaping import whole


def _draw_concat(draw: Draw) -> Node:
    shape = draw.sizes(draw.randint(1, 4))
    axis = draw.axis(len(shape))
    at = wrapped(axis, len(shape))
    dtype = draw.dtype("inputs")
    sizes = [draw.choice([0, 1, 1, 2, 3]) for _ in range(draw.choice([1, 2, 2, 3, 4]))]
    inputs = tuple(draw.data(dtype, (*shape[:at], size, *shape[at + 1 :])) for size in sizes)
    return Node("Concat", draw.opset, inputs, {"axis": axis})


def _concat(node: Node) -> list[Result]:
    x = node.array(0)
    axis = wrapped(node.attribute("axis"), x.ndim)
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
    axis = wrapped(node.attribute("axis"), x.ndim)
    others = [k for k in range(x.ndim) if k != axis]
    if not others or len(node.inputs) < 2:
        return None
    k = draw.choice(others)
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
    ((always, ("Concatenate a list of tensors into a single tensor.",)),),
    (
        AXIS,
        Rule(
            "sizes",
            ("All input tensors must have the same shape, except for the dimension size of the axis to concatenate on.",),
            _are_joinable,
            _other_size,
        ),
    ),
    typed_by="inputs",
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
    number = draw.choice([1, 2, 2, 3, 4])
    if draw.opset < 18 and size % number:
        number = 1
    if draw.opset >= 18:
        attributes["num_outputs"] = number
    return Node("Split", draw.opset, (x,), attributes, number)


def _lengths(node: Node) -> list[int]:
    size = node.array(0).shape[node.attribute("axis")]
    if node.opset < 13 and "split" in node.attributes:
        return list(node.attributes["split"])
    if node.optional(1) is not None:
        return node.integers(1)
    most = -(-size // node.outputs)
    return [max(0, min(most, size - k * most)) for k in range(node.outputs)]


def _split(node: Node) -> list[Result]:
    x = node.array(0)
    axis = wrapped(node.attribute("axis"), x.ndim)
    found, first = [], 0
    for length in _lengths(node):

        def source(at: Coordinate, first: int = first) -> Source:
            return 0, (*at[:axis], at[axis] + first, *at[axis + 1 :])

        found.append(Result((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype, source))
        first += length
    return found


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
    """Whether more than the last of equal parts would be smaller."""
    size = node.array(0).shape[node.attribute("axis")]
    most = -(-size // node.outputs)
    return not _is_by_sizes(node) and size % node.outputs > 0 and most * (node.outputs - 1) > size


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
            always,
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
    typed_by="input",
)


def _draw_slice(draw: Draw) -> Node:
    x = whole(draw, least_rank=1)
    axes = draw.subset(range(x.ndim), 1)
    has_axes = draw.is_likely(0.75)
    if not has_axes:
        axes = axes[:0] or [*range(draw.randint(1, x.ndim))]
    kind = draw.index_dtype("starts")
    most = np.iinfo(kind)
    far = [n for n in FAR if most.min <= n <= most.max]

    def bound(size: int) -> int:
        return draw.choice([draw.randint(-size - 2, size + 2), draw.randint(-size, size), draw.choice(far)])

    starts, ends = ([bound(x.shape[axis]) for axis in axes] for _ in range(2))
    steps = [draw.choice([1, 1, 2, 3, -1, -1, -2, draw.choice(far)]) for _ in axes]
    inputs = [draw.integers(starts, kind), draw.integers(ends, kind)]
    if has_axes:
        inputs.append(draw.integers([draw.signed(axis, x.ndim) for axis in axes], kind))
    if not has_axes and draw.is_likely(0.6):
        return Node("Slice", draw.opset, (x, *inputs, None, draw.integers(steps, kind)))
    if has_axes and draw.is_likely(0.7):
        inputs.append(draw.integers(steps, kind))
    return Node("Slice", draw.opset, (x, *inputs))


def effective(node: Node) -> list[tuple[int, int, int]]:
    """Start, step and count of each axis, by the text since opset 13."""
    x = node.array(0)
    starts, ends = node.integers(1), node.integers(2)
    axes = node.integers(3) if node.optional(3) is not None else [*range(len(starts))]
    steps = node.integers(4) if node.optional(4) is not None else [1] * len(starts)
    found = [(0, 1, size) for size in x.shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = x.shape[axis]
        first = start + size if start < 0 else start
        last = end + size if end < 0 else end
        if step > 0:
            first, last = min(max(first, 0), size), min(max(last, 0), size)
            length = -(-(last - first) // step)
        else:
            first, last = min(max(first, 0), size - 1), min(max(last, -1), size - 1)
            length = -(-(first - last) // -step)
        found[axis] = first, step, max(0, length)
    return found


def _slice(node: Node) -> list[Result]:
    x, axes = node.array(0), effective(node)

    def source(at: Coordinate) -> Source:
        return 0, tuple(first + step * c for c, (first, step, _) in zip(at, axes, strict=True))

    return [Result(tuple(length for _, _, length in axes), x.dtype, source)]


def as_numpy(node: Node) -> Node:
    """A Slice whose starts are those of Python's slices: before the first element stays there when stepping back."""
    x, starts = node.array(0), node.integers(1)
    axes = node.integers(3) if node.optional(3) is not None else [*range(len(starts))]
    steps = node.integers(4) if node.optional(4) is not None else [1] * len(starts)
    ends = node.integers(2)
    for k, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        if step < 0 and starts[k] < -x.shape[axis]:
            starts[k], ends[k] = 0, 0
    kind = node.array(1).dtype
    return node.with_input(1, np.array(starts, kind)).with_input(2, np.array(ends, kind))



def _steps_zero(node: Node, draw: Draw) -> Node | None:
    steps = node.optional(4)
    return None if steps is None else node.with_input(4, np.zeros_like(steps))


def _axis_bounds(node: Node) -> tuple[Array, Array]:
    rank = node.array(0).ndim
    return np.array(-rank), np.array(rank - 1)


def _goes_back(node: Node) -> bool:
    return any(step < 0 for step in node.integers(4))



SLICE = Operator(
    "Slice",
    _draw_slice,
    _slice,
    (
        (
            _goes_back,
            (
                "or to range `[0, dims[axes[i]]-1]` for negative stepping",
                "If a negative value is passed for step, it represents slicing backward.",
            ),
        ),
        (
            always,
            (
                "All negative values in `starts[i]` and `ends[i]` have `dims[axes[i]]` added to them",
                "it represents number of elements before the end of that dimension",
            ),
        ),
    ),
    (
        input_between("axes", 3, _axis_bounds, AXIS_IN_RANGE),
        Rule(
            "steps",
            ("'steps' cannot be 0.",),
            lambda node: 0 not in node.integers(4),
            _steps_zero,
        ),
    ),
    (
        Ambiguity(
            "before opset 13 the text does not say where a backward slice that starts before the first element begins",
            None,
            (
                Reading("clamped to the first element, as since opset 13", _slice),
                Reading("nothing, as NumPy's slices", lambda node: _slice(as_numpy(node) if node.opset < 13 else node)),
            ),
        ),
    ),
    typed_by="data",
    left_out=("an axis twice: the text leaves it undefined",),
)

OPERATORS = (CONCAT, SPLIT, SLICE)
