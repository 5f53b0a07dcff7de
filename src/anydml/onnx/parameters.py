"""Resolve attributes and inputs of Split, Slice and Gather for known sizes, both to run and to describe a graph.

The rules are those of ONNX's operator documents (Operators.md, Changelog.md) for each version, and for SplitTraining
those of com.microsoft (training_op_defs.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anydml.functions.arguments import split_sizes
from anydml.infer import part_sizes
from anydml.onnx.graph import Node
from anydml.onnx.tensors import check_rank
from anydml.text import counted

Sizes = tuple[int, ...]


class Window(NamedTuple):
    """A slice in terms of SLICE1: offsets, sizes and strides of the window per dimension, and sizes of the result."""

    offsets: Sizes
    sizes: Sizes
    strides: Sizes
    taken: Sizes


def split_parts(node: Node, shape: Sizes, split: Sequence[int] | None) -> tuple[int, Sizes]:
    """Return axis and part sizes of Split and SplitTraining.

    Args:
        node: the node, with one output per part.
        shape: sizes of the input.
        split: values of the input `split`, or None.

    Raises:
        ModelError, DescError: the sizes do not add up, are negative, or do not match the number of outputs.
    """
    axis, count = node.axis(len(shape)), len(node.outputs)
    whole = shape[axis]
    given = split
    if node.operator == "SplitTraining":
        return axis, split_sizes(node.operator, given, count, whole, axis)
    if node.version < 13:
        given = node.integers("split")
    equal = node.integer("num_outputs") if node.version >= 18 else count
    if given is None:
        return axis, _equal_parts(node, equal, count, whole, axis)
    if node.version >= 18 and equal is not None:
        raise node.error("has both split and num_outputs", "num_outputs", "either split or num_outputs must be given")
    if len(given) != count:
        message = f"split has {counted(len(given), 'entry')} for {counted(count, 'output')}"
        raise node.error(message, "split", "split must have one entry an output")
    return axis, part_sizes(node.operator, given, whole, axis, "split")


def _equal_parts(node: Node, parts: int | None, count: int, whole: int, axis: int) -> Sizes:
    if node.version < 18:
        return part_sizes(node.operator, count, whole, axis, "outputs")
    if parts is None:
        raise node.error(
            "has neither split nor num_outputs", "num_outputs", "either split or num_outputs must be given"
        )
    if parts != count:
        message = f"num_outputs is {parts}, but the node has {counted(count, 'output')}"
        raise node.error(message, "num_outputs", "num_outputs must count the outputs")
    size = -(-whole // parts)
    last = whole - size * (parts - 1)
    if last < 0:
        message = (
            f"axis {axis} has size {whole}, too few for {counted(parts, 'part')} of {size}, the last of them smaller"
        )
        raise node.error(message, "num_outputs", "the last part may be smaller, but not negative")
    return (*(size,) * (parts - 1), last)


def slice_window(
    node: Node,
    shape: Sizes,
    starts: Sequence[int] | None,
    ends: Sequence[int] | None,
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> Window:
    """Return the window of Slice; starts and ends may be negative and are clamped.

    Args:
        node: the node; in version 1, all values but `steps` are attributes instead.
        shape: sizes of the input.
        starts: values of the input `starts`; None if omitted, as for the following.
        ends: values of `ends`, exclusive.
        axes: values of `axes`; default: the first axes.
        steps: values of `steps`; default: 1.

    Raises:
        ModelError: an input is missing or has the wrong length, an axis repeats or is out of range, or a step is 0.
    """
    rank = len(shape)
    if node.version < 10:
        starts, ends, axes, steps = node.integers("starts"), node.integers("ends"), node.integers("axes"), None
    if starts is None or ends is None:
        raise node.error("starts and ends are not both given", "starts", "starts and ends are required")
    along = range(len(starts)) if axes is None else axes
    walk = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(along) == len(walk):
        counts = f"starts, ends, axes and steps have {len(starts)}, {len(ends)}, {len(along)} and {len(walk)} entries"
        raise node.error(counts, "starts", "starts, ends, axes and steps must have one length")
    offsets, sizes, strides, taken = [0] * rank, [*shape], [1] * rank, [*shape]
    seen: set[int] = set()
    for start, end, axis, step in zip(starts, ends, along, walk, strict=True):
        if not -rank <= axis < rank:
            raise node.error(f"axes has {axis}, but the rank is {rank}", "axes", f"axes must be {-rank} to {rank - 1}")
        d = axis % rank
        if d in seen:
            raise node.error(f"axes {[*along]} has axis {d} twice", "axes", "axes must not repeat")
        seen.add(d)
        if step == 0:
            raise node.error(f"the step of axis {d} is 0", "steps", "a step must never be 0")
        first, taken[d] = _walk(start, end, step, shape[d])
        strides[d] = step if step == 1 or taken[d] > 1 else 1
        if not taken[d]:
            offsets[d] = sizes[d] = 0
            continue
        way = (taken[d] - 1) * step
        offsets[d], sizes[d] = (first + way, 1 - way) if step < 0 else (first, 1 + way)
    return Window(tuple(offsets), tuple(sizes), tuple(strides), tuple(taken))


def picked_sizes(node: Node, shape: Sizes, indices: Sizes, axis: int) -> Sizes:
    """Return the sizes of Gather's result.

    Args:
        node: the node.
        shape: sizes of the data.
        indices: sizes of the indices.
        axis: 0 to rank − 1.

    Raises:
        ModelError: the result has more than 64 dimensions.
    """
    check_rank(f"{node.label}: the result", len(shape) - 1 + len(indices))
    return (*shape[:axis], *indices, *shape[axis + 1 :])


def _walk(start: int, end: int, step: int, size: int) -> tuple[int, int]:
    """Return the first index and the number of elements of a slice (ONNX, Slice version 13).

    Clamping is that of Python with one exception: with a negative step and a start before the first element, ONNX takes
    the first element and Python none.
    """
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first = min(max(start + size if start < 0 else start, 0), high)
    last = min(max(end + size if end < 0 else end, low), high)
    return first, max(0, -((first - last) // step))
