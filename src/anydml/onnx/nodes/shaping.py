"""Axes, shapes and repetition: Transpose, Reshape, Flatten, Squeeze, Unsqueeze, Expand, Tile, Identity, Dropout.

The rules are those of ONNX's operator documents (Operators.md, Changelog.md) for each version.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np

from anydml.onnx.graph import Node
from anydml.onnx.graph_values import GraphValue, Sizes, Tensor
from anydml.onnx.lowering import LoweringContext, check_bytes
from anydml.onnx.nodes.node_arguments import axes_of, elements_of, scalar, sizes_of
from anydml.onnx.tensor_protos import bits_of, check_rank, numpy_type, type_name
from anydml.text import count_noun
from anydml.tracing import array_verbs, join_split
from anydml.tracing.array_verbs import broadcast, permute


def transpose(node: Node, ctx: LoweringContext, x: Tensor) -> Tensor:
    """Transpose: axis k of the result is axis ``perm[k]``; by default, the axes are reversed."""
    return ctx.result(node, permute(ctx.array(x), permutation(node, len(x.shape))))


def permutation(node: Node, rank: int) -> Sequence[int]:
    """Return the attribute `perm`.

    Raises:
        ModelError: `perm` is not a permutation of the axes.
    """
    perm: Sequence[int] | None = node.get("perm")
    if perm is not None and sorted(perm) != [*range(rank)]:
        raise node.error(f"perm is {perm}, but the rank is {rank}", "perm", "perm must have every axis once")
    return range(rank)[::-1] if perm is None else perm


def reshape(node: Node, ctx: LoweringContext, x: Tensor, shape: Tensor | None = None) -> Tensor:
    """Reshape: 0 keeps the size of an axis, and one −1 is inferred."""
    return _reshape(node, ctx, x, _filled_in(node, x, elements_of(node, ctx, shape, "shape") or ()))


def _filled_in(node: Node, x: Tensor, requested: Sequence[int]) -> Sizes:
    check_rank(f"{node.label}: shape", len(requested))
    keeps = not node.get("allowzero")
    sizes: list[int] = []
    for k, size in enumerate(requested):
        if size < -1:
            raise node.error(f"shape has {size}", "shape", "entries of shape must be −1 or more")
        if size == 0 and keeps:
            if k >= len(x.shape):
                message = f"shape is {list(requested)}, whose entry {k} is 0, but the rank is {len(x.shape)}"
                raise node.error(message, "shape", "an entry of 0 keeps the size of that axis, which must exist")
            size = x.shape[k]  # noqa: PLW2901
        sizes.append(size)
    if sizes.count(-1) > 1:
        raise node.error(f"shape is {list(requested)}", "shape", "at most one entry of shape may be −1")
    if -1 in sizes:
        other_count = math.prod(size for size in sizes if size != -1)
        if not other_count or x.size % other_count:
            message = f"shape is {list(requested)}, but data has {count_noun(x.size, 'element')}"
            raise node.error(message, "shape", "the other sizes must divide the number of elements")
        sizes[sizes.index(-1)] = x.size // other_count
    if math.prod(sizes) != x.size:
        message = f"shape is {list(requested)}, of {count_noun(math.prod(sizes), 'element')}, but data has {x.size}"
        raise node.error(message, "shape", "the number of elements must not change")
    return tuple(sizes)


def _reshape(node: Node, ctx: LoweringContext, x: Tensor, sizes: Sizes) -> Tensor:
    return ctx.result(node, array_verbs.reshape(ctx.array(x), sizes))


def flatten(node: Node, ctx: LoweringContext, x: Tensor) -> Tensor:
    """Flatten: merge the axes before `axis`, and the others."""
    rank, axis = len(x.shape), node.get("axis")
    if not -rank <= axis <= rank:
        raise node.error(f"axis is {axis}, but the rank is {rank}", "axis", f"axis must be {-rank} to {rank}")
    axis += rank * (axis < 0)
    return _reshape(node, ctx, x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


def squeeze(node: Node, ctx: LoweringContext, x: Tensor, axes_input: Tensor | None = None) -> Tensor:
    """Squeeze: remove the given axes of size 1, or all of them."""
    axis_list = elements_of(node, ctx, axes_input, "axes")
    if axis_list is None:
        axes = [axis for axis, size in enumerate(x.shape) if size == 1]
    else:
        axes = axes_of(node, axis_list, len(x.shape), may_repeat=True)
    for axis in axes:
        if x.shape[axis] != 1:
            message = f"axis {axis} has size {x.shape[axis]}"
            raise node.error(message, "axes", "only axes of size 1 can be squeezed")
    return _reshape(node, ctx, x, tuple(size for axis, size in enumerate(x.shape) if axis not in axes))


def unsqueeze(node: Node, ctx: LoweringContext, x: Tensor, axes_input: Tensor | None = None) -> Tensor:
    """Unsqueeze: insert axes of size 1, numbered as in the result."""
    axis_list = elements_of(node, ctx, axes_input, "axes")
    rank = len(x.shape) + len(axis_list)
    check_rank(f"{node.label}: the result", rank)
    axes = axes_of(node, axis_list, rank)
    old = iter(x.shape)
    return _reshape(node, ctx, x, tuple(1 if axis in axes else next(old) for axis in range(rank)))


def expand(node: Node, ctx: LoweringContext, x: Tensor, shape: Tensor) -> Tensor:
    """Expand: broadcast the data and a shape to each other."""
    requested = elements_of(node, ctx, shape, "shape")
    sizes = broadcast_sizes(node, x.shape, sizes_of(node, requested, "shape"))
    check_bytes(node, sizes, x.dtype.itemsize)
    return ctx.result(node, broadcast(ctx.array(x), sizes))


def broadcast_sizes(node: Node, *shapes: Sizes) -> Sizes:
    """Return the common shape of shapes that are broadcast (ONNX, Broadcasting.md).

    Raises:
        ModelError: the shapes are not compatible.
    """
    rank = max(map(len, shapes))
    check_rank(f"{node.label}: the result", rank)
    result = []
    for sizes in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        large_sizes = [size for size in sizes if size != 1]
        if any(size != large_sizes[0] for size in large_sizes[1:]):
            texts = " and ".join(str([*shape]) for shape in shapes)
            raise node.error(f"shapes {texts} do not broadcast", "shape", "sizes along an axis must be equal, or 1")
        result.append(large_sizes[0] if large_sizes else 1)
    return tuple(result)


def tile(node: Node, ctx: LoweringContext, x: Tensor, repeats: Tensor) -> Tensor:
    """Tile: repeat every axis."""
    times = sizes_of(node, elements_of(node, ctx, repeats, "repeats"), "repeats")
    if len(times) != len(x.shape):
        message = f"repeats has {count_noun(len(times), 'entry')}, but the rank is {len(x.shape)}"
        raise node.error(message, "repeats", "repeats must have one entry per axis")
    check_bytes(node, tuple(map(operator.mul, x.shape, times)), x.dtype.itemsize)
    return ctx.result(node, join_split.tile(ctx.array(x), times))


def identity(node: Node, ctx: LoweringContext, value: GraphValue) -> GraphValue:
    """Identity: the input, a tensor or a sequence."""
    return value


def bit_cast(node: Node, ctx: LoweringContext, x: Tensor) -> Tensor:
    """BitCast: reinterpret elements as another type with the same number of bits."""
    to_type = node.get("to")
    dtype = numpy_type(to_type)
    if dtype is None or dtype.hasobject or x.dtype.hasobject or bits_of(dtype) != bits_of(x.dtype):
        rule = f"to must be a type of numbers of {x.dtype}'s bits"
        raise node.error(f"to is {type_name(to_type)}", "to", rule)
    array = ctx.array(x)
    return ctx.result(node, array.trace.new_array(array.value, dtype))


def dropout(
    node: Node, ctx: LoweringContext, x: Tensor, ratio: Tensor | None = None, training_mode: Tensor | None = None
) -> list[Tensor]:
    """Dropout at inference: the input, and a mask of ones."""
    if node.version < 7:
        trains = not node.get("is_test")
    else:
        trains = training_mode is not None and bool(scalar(node, ctx, training_mode, "training_mode"))
        # A ratio of 0 drops nothing.
        trains = trains and (ratio is None or scalar(node, ctx, ratio, "ratio") != 0)
    if trains:
        message = "is in training mode, but anydml moves data and draws nothing"
        raise node.computes(message, "training_mode", "inference")
    if len(node.outputs) < 2 or not node.outputs[1]:
        return [x]
    mask_dtype = np.dtype(bool) if node.version >= 10 else x.dtype
    return [x, ctx.result(node, ctx.filled(x.shape, np.ones((), mask_dtype)))]
