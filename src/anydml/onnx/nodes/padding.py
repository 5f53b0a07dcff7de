"""Pad and CenterCropPad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.moves.sizing import Integers
from anydml.moves.value import Value
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import Array, Tensor
from anydml.onnx.lowering import LoweringContext, check_bytes
from anydml.onnx.nodes.node_arguments import axes_of, elements_of, sizes_of
from anydml.operators.element import Element
from anydml.operators.padding import pad_rule
from anydml.text import count_noun
from anydml.tracing.array_verbs import apply_rule, window
from anydml.tracing.padding import pad_with_elements
from anydml.tracing.trace import TracedArray

MODES = ("constant", "reflect", "edge", "wrap")


def pad(
    node: Node,
    ctx: LoweringContext,
    x: Tensor,
    pads: Tensor | None = None,
    constant_value: Tensor | None = None,
    axes: Tensor | None = None,
) -> Tensor:
    """Pad: negative counts crop, which is done first."""
    mode = pad_mode(node)
    before, after = pad_counts(node, ctx, x, pads, axes)
    element = _padding(node, ctx, x, constant_value) if mode == "constant" else None
    sizes = tuple(map(sum, zip(x.shape, before, after, strict=True)))
    sizes_of(node, sizes, "pads")
    check_bytes(node, sizes, x.dtype.itemsize)
    array = ctx.array(x)
    if element is not None:
        return ctx.result(node, pad_array(ctx, array, before, after, element))
    if 0 in sizes:
        return ctx.empty_result(node, sizes, x.dtype)
    array = _crop(array, before, after)
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        if first > 0 or last > 0:
            if not array.shape[axis]:
                raise node.error(f"axis {axis} of data has size 0", "mode", f"mode {mode} must have elements to repeat")
            array = pad_with_elements(array, axis, max(0, first), max(0, last), mode)
    return ctx.result(node, array)


def pad_mode(node: Node) -> str:
    """Return the attribute `mode`; wrap requires version 19."""
    mode: str = node.word("mode", MODES if node.version >= 19 else MODES[:3])
    return mode


def pad_counts(
    node: Node, ctx: LoweringContext, x: Tensor, pads: Tensor | None, along: Tensor | None
) -> tuple[list[int], list[int]]:
    """Return the numbers of elements to add before and after each axis; negative ones crop.

    Raises:
        ModelError: there are not two counts per axis, or they crop more elements than the axis has. In mode constant,
            one end may crop more if the other end adds as many elements.
    """
    rank = len(x.shape)
    counts = elements_of(node, ctx, pads, "paddings" if node.version < 2 else "pads")
    axes = axes_of(node, elements_of(node, ctx, along, "axes"), rank)
    if len(counts) != 2 * len(axes):
        message = f"pads has {count_noun(len(counts), 'entry')} for {count_noun(len(axes), 'axis')}"
        raise node.error(message, "pads", "pads must have two entries per axis")
    before, after = [0] * rank, [0] * rank
    for k, axis in enumerate(axes):
        before[axis], after[axis] = counts[k], counts[k + len(axes)]
        size, cut = x.shape[axis], max(0, -before[axis]) + max(0, -after[axis])
        if cut > size:
            result = size + before[axis] + after[axis]
            if pad_mode(node) != "constant" or result < 0:
                message = f"pads cut {before[axis]} and {after[axis]} from axis {axis}, which has size {size}"
                raise node.error(message, "pads", "pads must not crop more elements than an axis has")
            # The whole axis is cropped; the result is all padding.
            before[axis], after[axis] = -size, result
    return before, after


def _padding(node: Node, ctx: LoweringContext, x: Tensor, value: Tensor | None) -> Array:
    """Return the padding element as a 0-d array."""
    if value is None:
        return zero_of(x.dtype) if node.version >= 11 else np.array(node.get("value")).astype(x.dtype)
    if value.size != 1:
        message = f"constant_value has shape {list(value.shape)}"
        raise node.error(message, "constant_value", "constant_value must be a scalar")
    element = ctx.elements(value)
    return zero_of(x.dtype) if element is None else element.reshape(())


def zero_of(dtype: np.dtype[Any]) -> Array:
    """Return a 0-d array of the zero of a dtype, for strings the empty one."""
    return np.array("" if dtype.hasobject else 0).astype(dtype)


def pad_array(
    ctx: LoweringContext, array: TracedArray, before: Sequence[int], after: Sequence[int], element: Array
) -> TracedArray:
    """Pad an array with an element at both ends of each axis, after cropping where counts are negative."""
    sizes = tuple(map(sum, zip(array.shape, before, after, strict=True)))
    if 0 in sizes:
        return array.new_array(Value(sizes, array.itemsize, ()))
    array = _crop(array, before, after)
    first, last = ([max(0, n) for n in sizes] for sizes in (before, after))
    return apply_rule(pad_rule, array, Integers(first), Integers(last), "constant", Element(ctx.pattern(element)))[0]


def _crop(array: TracedArray, before: Sequence[int], after: Sequence[int]) -> TracedArray:
    """Remove elements at the ends of axes whose counts are negative."""
    starts = [max(0, -n) for n in before]
    sizes = [size - n - max(0, -after_count) for size, n, after_count in zip(array.shape, starts, after, strict=True)]
    return window(array, starts, sizes, [1] * len(sizes))


def center_crop_pad(node: Node, ctx: LoweringContext, x: Tensor, shape: Tensor) -> Tensor:
    """CenterCropPad: crop axes that are too long to their middle, and pad those that are too short with zeros."""
    entries = elements_of(node, ctx, shape, "shape")
    axes = axes_of(node, node.get("axes"), len(x.shape))
    if len(entries) != len(axes):
        message = f"shape has {count_noun(len(entries), 'entry')} for {count_noun(len(axes), 'axis')}"
        raise node.error(message, "shape", "shape must have one entry per axis")
    sizes = [*x.shape]
    for axis, size in zip(axes, sizes_of(node, entries, "shape"), strict=True):
        sizes[axis] = size
    growth = [size - old for size, old in zip(sizes, x.shape, strict=True)]
    # An odd element is cropped or added at the end.
    before = [n // 2 if n > 0 else -(-n // 2) for n in growth]
    after = [n - first for n, first in zip(growth, before, strict=True)]
    array = ctx.array(x)
    return ctx.result(node, pad_array(ctx, array, before, after, zero_of(x.dtype)))
