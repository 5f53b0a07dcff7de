"""Split, Slice, Concat, SplitTraining, ConcatTraining, Pad, CenterCropPad and Compress."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from anydml.moves.value import Value
from anydml.onnx.graph import Node
from anydml.onnx.lowering import LoweringContext, check_bytes
from anydml.onnx.nodes.arguments import Inputs, axes_of, optional, required, sizes_of, vector
from anydml.onnx.nodes.picking import extended, picked
from anydml.onnx.parameters import Window, slice_window, split_parts
from anydml.onnx.values import Array, GraphValue, Sizes, Tensor, integers
from anydml.operators.join import joined_shape
from anydml.text import counted


def split(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Split and SplitTraining."""
    x = required(node, inputs, 0, "input")
    axis, sizes = split_parts(node, x.shape, vector(node, ctx, inputs, 1, "split"))
    (value,) = ctx.values(x, times=len(sizes))
    return [ctx.result(node, part, x.dtype) for part in cut(ctx, value, axis, sizes)]


def cut(ctx: LoweringContext, value: Value, axis: int, sizes: Sequence[int]) -> Iterable[Value]:
    """Yield consecutive parts of a value along an axis."""
    start, rank = 0, len(value.sizes)
    for size in sizes:
        starts, shape = [0] * rank, [*value.sizes]
        starts[axis], shape[axis] = start, size
        yield ctx.composer.slice(value, starts, shape, [1] * rank)
        start += size


def slice_(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Slice."""
    x = required(node, inputs, 0, "data")
    window = window_of(node, ctx, x, inputs)
    starts = [
        offset + (size - 1 if stride < 0 and size else 0)
        for offset, size, stride in zip(window.offsets, window.sizes, window.strides, strict=True)
    ]
    (value,) = ctx.values(x)
    return (ctx.result(node, ctx.composer.slice(value, starts, window.taken, window.strides), x.dtype),)


def window_of(node: Node, ctx: LoweringContext, x: Tensor, inputs: Inputs) -> Window:
    """Return the window of a Slice node."""
    names = enumerate(("starts", "ends", "axes", "steps"), 1)
    return slice_window(node, x.shape, *(vector(node, ctx, inputs, i, name) for i, name in names))


def concat(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Concat and ConcatTraining."""
    parts = [required(node, inputs, i, f"inputs[{i}]") for i in range(max(len(inputs), 1))]
    axis, lengths, _ = joined_axis(node, parts)
    joined = ctx.result(node, ctx.composer.join(ctx.values(*parts), axis), parts[0].dtype)
    if node.operator == "Concat":
        return (joined,)
    return joined, ctx.known_result(node, integers(lengths))


def joined_axis(node: Node, parts: Sequence[Tensor]) -> tuple[int, Sizes, Sizes]:
    """The axis, the lengths along it and the sizes of the result; only version 1 of Concat has a default.

    Raises:
        ModelError, DescError: the axis is missing or outside, or types or sizes do not fit together.
    """
    axis = node.axis(len(parts[0].shape), 1 if node.operator == "Concat" and node.version < 4 else None)
    return joined_shape(node.operator, [part.shape for part in parts], [part.dtype for part in parts], axis)


MODES = ("constant", "reflect", "edge", "wrap")


def pad(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Pad: negative counts crop, which is done first."""
    x = required(node, inputs, 0, "data")
    mode = pad_mode(node)
    before, after = pad_counts(node, ctx, x, inputs, mode)
    element = _padding(node, ctx, x, inputs) if mode == "constant" else None
    sizes = tuple(map(sum, zip(x.shape, before, after, strict=True)))
    check_bytes(node, sizes_of(node, sizes, "pads"), x.dtype.itemsize)
    (value,) = ctx.values(x)
    value = cropped(ctx, value, [max(0, -n) for n in before], [max(0, -n) for n in after])
    before, after = [max(0, n) for n in before], [max(0, n) for n in after]
    if 0 in sizes:
        value = Value(sizes, value.element_size, ())
    elif element is not None:
        value = ctx.composer.pad(value, before, after, ctx.pattern(element))
    else:
        for axis, (first, last) in enumerate(zip(before, after, strict=True)):
            if (first or last) and not value.sizes[axis]:
                raise node.error(f"axis {axis} is empty", "mode", f"mode {mode} repeats elements that are there")
            value = extended(node, ctx, value, axis, (first, last), mode)
    return (ctx.result(node, value, x.dtype),)


def pad_mode(node: Node) -> str:
    """Return the attribute `mode`; wrap requires version 19."""
    return node.text("mode", "constant", MODES if node.version >= 19 else MODES[:3])


def pad_counts(node: Node, ctx: LoweringContext, x: Tensor, inputs: Inputs, mode: str) -> tuple[list[int], list[int]]:
    """Return the numbers of elements to add before and after each axis; negative ones crop.

    Raises:
        ModelError: there are not two counts per axis, or they crop more elements than the axis has. In mode constant,
            one end may crop more if the other end adds as many elements.
    """
    rank = len(x.shape)
    if node.version < 11:
        pads = node.integers("paddings" if node.version < 2 else "pads")
    else:
        pads = vector(node, ctx, inputs, 1, "pads")
    given = vector(node, ctx, inputs, 3, "axes") if node.version >= 18 else None
    axes = [*range(rank)] if given is None else axes_of(node, given, rank)
    if pads is None or len(pads) != 2 * len(axes):
        count = 0 if pads is None else len(pads)
        raise node.error(
            f"pads has {counted(count, 'entry')} for {counted(len(axes), 'axis')}", "pads", "two entries for each axis"
        )
    before, after = [0] * rank, [0] * rank
    for k, axis in enumerate(axes):
        before[axis], after[axis] = pads[k], pads[k + len(axes)]
        size, cut = x.shape[axis], max(0, -before[axis]) + max(0, -after[axis])
        if cut > size:
            result = size + before[axis] + after[axis]
            if mode != "constant" or result < 0:
                message = f"pads cut {before[axis]} and {after[axis]} from axis {axis}, which has size {size}"
                raise node.error(message, "pads", "no more may be cut off than there is")
            # The whole axis is cropped; the result is all padding.
            before[axis], after[axis] = -size, result
    return before, after


def _padding(node: Node, ctx: LoweringContext, x: Tensor, inputs: Inputs) -> Array:
    """Return the padding element as a 0-d array."""
    if node.version < 11:
        return np.array(node.number("value", 0.0)).astype(x.dtype)
    given = optional(node, inputs, 2, "constant_value")
    if given is None:
        return np.array("" if x.dtype.hasobject else 0).astype(x.dtype)
    if given.dtype != x.dtype or given.size != 1:
        what = f"constant_value is {given.dtype} of shape {list(given.shape)}, but data is {x.dtype}"
        raise node.error(what, "constant_value", "constant_value must be a scalar of the data's type")
    return given.array.reshape(()) if ctx.stored(given) and given.array is not None else np.zeros((), x.dtype)


def cropped(ctx: LoweringContext, value: Value, before: Sequence[int], after: Sequence[int]) -> Value:
    """Remove elements at both ends of each axis."""
    sizes = [size - first - last for size, first, last in zip(value.sizes, before, after, strict=True)]
    return ctx.composer.slice(value, before, sizes, [1] * len(sizes))


def center_crop_pad(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """CenterCropPad: crop axes that are too long to their middle, and pad those that are too short with zeros."""
    x = required(node, inputs, 0, "input_data")
    wanted = vector(node, ctx, inputs, 1, "shape")
    given = node.integers("axes")
    axes = [*range(len(x.shape))] if given is None else axes_of(node, given, len(x.shape))
    if wanted is None or len(wanted) != len(axes):
        raise node.error(
            f"shape has {counted(len(wanted or ()), 'entry')} for {counted(len(axes), 'axis')}",
            "shape",
            "one entry an axis",
        )
    sizes = [*x.shape]
    for axis, size in zip(axes, sizes_of(node, wanted, "shape"), strict=True):
        sizes[axis] = size
    check_bytes(node, tuple(sizes), x.dtype.itemsize)
    more = [size - old for size, old in zip(sizes, x.shape, strict=True)]
    (value,) = ctx.values(x)
    value = cropped(ctx, value, [max(0, -n) // 2 for n in more], [-(min(0, n) // 2) for n in more])
    zero = np.array("" if x.dtype.hasobject else 0).astype(x.dtype)
    before, after = [max(0, n) // 2 for n in more], [(max(0, n) + 1) // 2 for n in more]
    if 0 in sizes:
        value = Value(tuple(sizes), value.element_size, ())
    else:
        value = ctx.composer.pad(value, before, after, ctx.pattern(zero))
    return (ctx.result(node, value, x.dtype),)


def compress(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Compress: select the elements, or the slices along an axis, where a condition holds."""
    x = required(node, inputs, 0, "input")
    condition = required(node, inputs, 1, "condition")
    if condition.dtype != bool or len(condition.shape) != 1:
        what = f"condition is {condition.dtype} of shape {list(condition.shape)}"
        raise node.error(what, "condition", "condition must be BOOL and one-dimensional")
    given = node.integer("axis")
    axis = 0 if given is None else node.axis(len(x.shape))
    size = x.size if given is None else x.shape[axis]
    indices = np.flatnonzero(ctx.known(node, condition, "condition"))
    if indices.size and indices[-1] >= size:
        message = f"condition holds at {indices[-1]}, but axis {axis} has size {size}"
        raise node.error(message, "condition", "condition must be no longer than the axis")
    if given is not None:
        ctx.resolve_lookups(x)
    (value,) = ctx.values(x)
    if given is None:
        value = ctx.composer.reshape(value, (size,))
    return (ctx.result(node, picked(ctx, value, axis, indices), x.dtype),)
