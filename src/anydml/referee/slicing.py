"""Slice, whose starts and ends are clamped."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anydml.referee.drawing import BEYOND_SIZES, Draw
from anydml.referee.nodes import Array, Coordinate, Node, Result, Source
from anydml.referee.operator_rules import (
    AXIS_IN_RANGE,
    Ambiguity,
    Operator,
    Reading,
    Rule,
    axis_twice,
    input_between,
    is_any_node,
)
from anydml.referee.shaping import draw_elements


def _draw_slice(draw: Draw) -> Node:
    x = draw_elements(draw, min_rank=1)
    axes = draw.subset(range(x.ndim), 1)
    has_axes = draw.is_likely(0.75)
    if not has_axes:
        axes = axes[:0] or [*range(draw.randint(1, x.ndim))]
    dtype = draw.index_dtype("starts")
    limits = np.iinfo(dtype)
    far = [n for n in BEYOND_SIZES if limits.min <= n <= limits.max]

    def bound(size: int) -> int:
        return draw.choice([draw.randint(-size - 2, size + 2), draw.randint(-size, size), draw.choice(far)])

    starts, ends = ([bound(x.shape[axis]) for axis in axes] for _ in range(2))
    steps = [draw.choice([1, 1, 2, 3, -1, -1, -2, draw.choice(far)]) for _ in axes]
    inputs = [draw.integers(starts, dtype), draw.integers(ends, dtype)]
    if has_axes:
        inputs.append(draw.integers([draw.signed(axis, x.ndim) for axis in axes], dtype))
    if not has_axes and draw.is_likely(0.6):
        return Node("Slice", draw.opset, (x, *inputs, None, draw.integers(steps, dtype)))
    if has_axes and draw.is_likely(0.7):
        inputs.append(draw.integers(steps, dtype))
    return Node("Slice", draw.opset, (x, *inputs))


def effective_slice(node: Node) -> list[tuple[int, int, int]]:
    """Start, step and count of each axis, by the text since opset 13."""
    x = node.array(0)
    starts, ends = node.integers(1), node.integers(2)
    axes = node.integers(3) if node.optional(3) is not None else [*range(len(starts))]
    steps = node.integers(4) if node.optional(4) is not None else [1] * len(starts)
    slices = [(0, 1, size) for size in x.shape]
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
        slices[axis] = first, step, max(0, length)
    return slices


def _slice(node: Node) -> list[Result]:
    x, axes = node.array(0), effective_slice(node)

    def source(at: Coordinate) -> Source:
        return 0, tuple(first + step * c for c, (first, step, _) in zip(at, axes, strict=True))

    return [Result(tuple(length for _, _, length in axes), x.dtype, source)]


def with_start(node: Node, start: Callable[[int, int, int], int | None]) -> list[Result]:
    """Return the result of a Slice by another reading of its starts; since opset 13, by the formula.

    Args:
        node: the node.
        start: returns the first coordinate for a start, an axis size and a step; None if the slice is empty.
    """
    if node.opset >= 13:
        return _slice(node)
    starts, ends = node.integers(1), node.integers(2)
    axes = node.integers(3) if node.optional(3) is not None else [*range(len(starts))]
    steps = node.integers(4) if node.optional(4) is not None else [1] * len(starts)
    for k, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        places = start(starts[k], node.array(0).shape[axis], step)
        starts[k], ends[k] = (0, 0) if places is None else (places, ends[k])
    return _slice(node.with_input(1, np.array(starts, object)).with_input(2, np.array(ends, object)))


def as_numpy(start: int, size: int, step: int) -> int | None:
    """Wrap a start as Python's slices do: a start before the first element stays before it if the step is negative."""
    return None if step < 0 and start < -size else start


def from_last(start: int, size: int, step: int) -> int | None:
    """Read the document so that steps back are counted from the element after the last, which does not exist."""
    if step > 0 or start < size:
        return start
    return size + step if size + step >= 0 else None


def from_first(start: int, size: int, step: int) -> int | None:
    """Read the document so that steps are counted from the position before the first element."""
    return (start + size) % step if step > 0 and start < -size else start


def _steps_zero(node: Node, draw: Draw) -> Node | None:
    steps = node.optional(4)
    return None if steps is None else node.with_input(4, np.zeros_like(steps))


def _axis_bounds(node: Node) -> tuple[Array, Array]:
    rank = node.array(0).ndim
    return np.array(-rank), np.array(rank - 1)


def _is_reversed_and_empty(node: Node) -> bool:
    axes = node.integers(3) if node.optional(3) is not None else [*range(len(node.integers(1)))]
    steps = zip(axes, node.integers(4), strict=False)
    return node.opset >= 13 and any(step < 0 and node.array(0).shape[axis] == 0 for axis, step in steps)


def _goes_back_from_outside(node: Node) -> bool:
    starts = node.integers(1)
    axes = node.integers(3) if node.optional(3) is not None else [*range(len(starts))]
    sizes = [node.array(0).shape[axis] for axis in axes]
    backward = zip(starts, sizes, node.integers(4), strict=False)
    return any(step < 0 and not -size <= start < size for start, size, step in backward)


def _goes_back(node: Node) -> bool:
    return any(step < 0 for step in node.integers(4))


def _counts_from_the_end(node: Node) -> bool:
    return any(bound < 0 for bound in (*node.integers(1), *node.integers(2)))


def _goes_beyond_the_end(node: Node) -> bool:
    axes = node.integers(3) if node.optional(3) is not None else [*range(len(node.integers(1)))]
    bounds = (zip(axes, node.integers(input_number), strict=True) for input_number in (1, 2))
    return any(bound > node.array(0).shape[axis] for pairs in bounds for axis, bound in pairs)


SLICE = Operator(
    "Slice",
    _draw_slice,
    _slice,
    (
        (
            _goes_back_from_outside,
            (
                "or to range `[0, dims[axes[i]]-1]` for negative stepping",
                "If a negative value is passed for step, it represents slicing backward.",
            ),
        ),
        (
            _goes_back,
            (
                "while for negative stepping it is clamped to `[-1, dims[axes[i]]-1]`",
                "If a negative value is passed for step, it represents slicing backward.",
            ),
        ),
        (
            _counts_from_the_end,
            (
                "All negative values in `starts[i]` and `ends[i]` have `dims[axes[i]]` added to them",
                "it represents number of elements before the end of that dimension",
            ),
        ),
        (
            _goes_beyond_the_end,
            (
                "so for positive stepping `ends[axes[i]]` is clamped to `[0, dims[axes[i]]]`",
                "If the value passed to start or end is larger than the `n` (the number of elements in this "
                "dimension), it represents `n`.",
            ),
        ),
        (
            is_any_node,
            (
                "inputs to select a sub-tensor of its input `data` tensor.",
                "it uses this information to slice the input `data` tensor.",
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
                Reading("nothing, as NumPy's slices", lambda node: with_start(node, as_numpy)),
            ),
        ),
        Ambiguity(
            "before opset 13 a start beyond the last element is n, the number of elements, where a backward slice has "
            "no element",
            None,
            (
                Reading("clamped to the last element, as since opset 13", _slice),
                Reading("steps are counted from n", lambda node: with_start(node, from_last)),
            ),
        ),
        Ambiguity(
            "before opset 13 the text does not say where a forward slice that starts before the first element begins",
            None,
            (
                Reading("clamped to the first element, as since opset 13", _slice),
                Reading("steps are counted from where the start is", lambda node: with_start(node, from_first)),
            ),
        ),
        Ambiguity(
            "a backward slice of an axis without elements is clamped to the range from 0 to −1",
            _is_reversed_and_empty,
            (
                Reading("nothing", _slice),
                Reading("there is no such range, so it is refused", None),
            ),
        ),
    ),
    left_out=(axis_twice(lambda node: node.integers(3)),),
)

OPERATORS = (SLICE,)
