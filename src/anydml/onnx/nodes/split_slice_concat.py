"""Split, Slice, Concat, SplitTraining and ConcatTraining.

The rules are those of ONNX's operator documents (Operators.md, Changelog.md) for each version, and for the training
operators those of com.microsoft (training_op_defs.cc).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from anydml.functions.argument_conversion import host_integers
from anydml.infer import part_sizes
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import Sizes, Tensor, integers
from anydml.onnx.lowering import LoweringContext
from anydml.onnx.nodes.node_arguments import axes_of, elements_of
from anydml.operators.join import joined_axis as operators_axis
from anydml.operators.split_training import sizes_of_split
from anydml.text import count_noun
from anydml.tracing import array_verbs
from anydml.tracing.array_verbs import split_axis


def split(node: Node, ctx: LoweringContext, x: Tensor, split_sizes: Tensor | None = None) -> list[Tensor]:
    """Split and SplitTraining."""
    axis, sizes = _split_parts(node, x.shape, elements_of(node, ctx, split_sizes, "split"))
    array = ctx.array(x, times=len(sizes))
    return [ctx.result(node, part) for part in split_axis(array, axis, sizes)]


def _split_parts(node: Node, shape: Sizes, split: Sequence[int] | None) -> tuple[int, Sizes]:
    """Return axis and part sizes of Split and SplitTraining.

    Args:
        node: the node, with one output per part.
        shape: sizes of the input.
        split: values of the input `split`, or None.

    Raises:
        ModelError, DescError: the sizes do not add up, are negative, or do not match the number of outputs.
    """
    axis, count = node.axis(len(shape)), len(node.outputs)
    axis_size, equal = shape[axis], node.get("num_outputs")
    rule = "either split or num_outputs must be given"
    if node.operator == "SplitTraining":
        return axis, sizes_of_split(node.operator, host_integers(node.operator, "split", split), count, axis_size, axis)
    if split is not None and equal is not None:
        raise node.error("has both split and num_outputs", "num_outputs", rule)
    if split is not None and len(split) != count:
        message = f"split has {count_noun(len(split), 'entry')} for {count_noun(count, 'output')}"
        raise node.error(message, "split", "split must have one entry per output")
    if split is not None or node.version < 18:
        named = (count, "outputs") if split is None else (split, "split")
        return axis, part_sizes(node.operator, named[0], axis_size, axis, named[1])
    if equal is None:
        raise node.error("has neither split nor num_outputs", "num_outputs", rule)
    if equal != count:
        message = f"num_outputs is {equal}, but the node has {count_noun(count, 'output')}"
        raise node.error(message, "num_outputs", "num_outputs must be the number of outputs")
    size = -(-axis_size // count)
    last = axis_size - size * (count - 1)
    if last < 0:
        message = (
            f"axis {axis} has size {axis_size}, too few for {count_noun(count, 'part')} of {size}, the last one smaller"
        )
        raise node.error(message, "num_outputs", "the last part may be smaller, but not negative")
    return axis, (*(size,) * (count - 1), last)


class Window(NamedTuple):
    """A slice in terms of SLICE1: offsets, sizes and strides of the window per dimension, and sizes of the result."""

    offsets: Sizes
    sizes: Sizes
    strides: Sizes
    result_sizes: Sizes


def slice_(node: Node, ctx: LoweringContext, x: Tensor, *inputs: Tensor | None) -> Tensor:
    """Slice."""
    window = window_of(node, ctx, x, *inputs)
    starts = [
        offset + (size - 1 if stride < 0 and size else 0)
        for offset, size, stride in zip(window.offsets, window.sizes, window.strides, strict=True)
    ]
    return ctx.result(node, array_verbs.window(ctx.array(x), starts, window.result_sizes, window.strides))


def window_of(node: Node, ctx: LoweringContext, x: Tensor, *inputs: Tensor | None) -> Window:
    """Return the window of a Slice node; starts and ends may be negative and are clamped.

    Args:
        node: the node; in version 1, the inputs but `steps` are attributes instead.
        ctx: reads the inputs.
        x: the data.
        inputs: starts, ends (exclusive), axes (default: the first axes) and steps (default: 1).

    Raises:
        ModelError: an input has the wrong length, an axis repeats or is out of range, or a step is 0.
    """
    names = ("starts", "ends", "axes", "steps")
    tensors = inputs or (None,) * 4
    starts, ends, axes, steps = (
        elements_of(node, ctx, tensor, name) for name, tensor in zip(names, tensors, strict=True)
    )
    shape = x.shape
    rank = len(shape)
    along = range(len(starts)) if axes is None else axes
    walk = [1] * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(along) == len(walk):
        counts = f"starts, ends, axes and steps have {len(starts)}, {len(ends)}, {len(along)} and {len(walk)} entries"
        raise node.error(counts, "starts", "starts, ends, axes and steps must have one length")
    offsets, sizes, strides, window_sizes = [0] * rank, [*shape], [1] * rank, [*shape]
    for start, end, dimension, step in zip(starts, ends, axes_of(node, along, rank), walk, strict=True):
        if step == 0:
            raise node.error(f"the step of axis {dimension} is 0", "steps", "a step must never be 0")
        first, window_sizes[dimension] = _walk(start, end, step, shape[dimension])
        strides[dimension] = step if step == 1 or window_sizes[dimension] > 1 else 1
        if not window_sizes[dimension]:
            offsets[dimension] = sizes[dimension] = 0
            continue
        distance = (window_sizes[dimension] - 1) * step
        offsets[dimension], sizes[dimension] = (first + distance, 1 - distance) if step < 0 else (first, 1 + distance)
    return Window(tuple(offsets), tuple(sizes), tuple(strides), tuple(window_sizes))


def _walk(start: int, end: int, step: int, size: int) -> tuple[int, int]:
    """Return the first index and the number of elements of a slice (ONNX, Slice version 13).

    Clamping is that of Python with one exception: with a negative step and a start before the first element, ONNX takes
    the first element and Python none.
    """
    low, high = (0, size) if step > 0 else (-1, size - 1)
    first = min(max(start + size if start < 0 else start, 0), high)
    last = min(max(end + size if end < 0 else end, low), high)
    return first, max(0, -((first - last) // step))


def concat(node: Node, ctx: LoweringContext, *parts: Tensor) -> list[Tensor]:
    """Concat and ConcatTraining."""
    axis, lengths, _ = joined_axis(node, parts)
    joined = ctx.result(node, array_verbs.join(ctx.arrays(*parts), axis))
    if node.operator == "Concat":
        return [joined]
    return [joined, ctx.known_result(node, integers(lengths))]


def joined_axis(node: Node, parts: Sequence[Tensor]) -> tuple[int, Sizes, Sizes]:
    """Return the axis, the lengths along it and the sizes of the result; only version 1 of Concat has a default.

    Raises:
        ModelError, DescError: the axis is missing or outside, or types or sizes do not fit together.
    """
    axis = node.axis(len(parts[0].shape), 1 if node.operator == "Concat" and node.version < 4 else None)
    shapes = [part.shape for part in parts]
    axis = operators_axis(node.operator, shapes, [part.dtype for part in parts], axis)
    lengths = tuple([shape[axis] for shape in shapes])
    return axis, lengths, (*shapes[0][:axis], sum(lengths), *shapes[0][axis + 1 :])
