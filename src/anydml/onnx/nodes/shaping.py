"""Axes, shapes and repetition: Transpose, Reshape, Flatten, Squeeze, Unsqueeze, Expand, Tile, Identity, Dropout.

The rules are those of ONNX's operator documents (Operators.md, Changelog.md) for each version.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from anydml.moves.value import Value
from anydml.onnx.graph import Node
from anydml.onnx.lowering import LoweringContext, check_bytes, checked
from anydml.onnx.nodes.arguments import Inputs, axes_of, optional, required, scalar, sizes_of, vector
from anydml.onnx.tensors import bits_of, check_rank, numpy_type, type_name
from anydml.onnx.values import GraphValue, Sizes, Tensor
from anydml.text import counted


def transpose(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Transpose: axis k of the result is axis ``perm[k]``; by default, the axes are reversed."""
    x = required(node, inputs, 0, "data")
    return (ctx.result(node, ctx.values(x)[0].permute(permutation(node, len(x.shape))), x.dtype),)


def permutation(node: Node, rank: int) -> list[int]:
    """Return the attribute `perm`.

    Raises:
        ModelError: it is not a permutation of the axes.
    """
    perm = node.integers("perm")
    if perm is None:
        return [*reversed(range(rank))]
    if sorted(perm) != [*range(rank)]:
        raise node.error(f"perm is {perm}, but the rank is {rank}", "perm", "perm must have every axis once")
    return perm


def reshape(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Reshape: 0 keeps the size of an axis, and one −1 is inferred."""
    x = required(node, inputs, 0, "data")
    wanted = node.integers("shape") if node.version < 5 else vector(node, ctx, inputs, 1, "shape")
    if wanted is None:
        raise node.error("has no shape", "shape", "shape is required")
    return (_reshaped(node, ctx, x, _filled_in(node, x, wanted)),)


def _filled_in(node: Node, x: Tensor, wanted: Sequence[int]) -> Sizes:
    check_rank(f"{node.label}: shape", len(wanted))
    keeps = not (node.version >= 14 and node.integer("allowzero", 0))
    sizes: list[int] = []
    for k, size in enumerate(wanted):
        if size < -1:
            raise node.error(f"shape has {size}", "shape", "sizes must be −1 or more")
        if size == 0 and keeps:
            if k >= len(x.shape):
                message = f"shape is {list(wanted)}, whose entry {k} is 0, but the rank is {len(x.shape)}"
                raise node.error(message, "shape", "0 keeps the size of that axis")
            size = x.shape[k]  # noqa: PLW2901
        sizes.append(size)
    if sizes.count(-1) > 1:
        raise node.error(f"shape is {list(wanted)}", "shape", "at most one entry is −1")
    if -1 in sizes:
        others = math.prod(size for size in sizes if size != -1)
        if not others or x.size % others:
            message = f"shape is {list(wanted)}, but data has {counted(x.size, 'element')}"
            raise node.error(message, "shape", "the other sizes must divide the number of elements")
        sizes[sizes.index(-1)] = x.size // others
    if math.prod(sizes) != x.size:
        message = f"shape is {list(wanted)}, of {counted(math.prod(sizes), 'element')}, but data has {x.size}"
        raise node.error(message, "shape", "the number of elements must stay")
    return tuple(sizes)


def _reshaped(node: Node, ctx: LoweringContext, x: Tensor, sizes: Sizes) -> Tensor:
    (value,) = ctx.values(x)
    return ctx.result(node, ctx.composer.reshape(value, sizes), x.dtype)


def flatten(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Flatten: merge the axes before `axis`, and the others."""
    x = required(node, inputs, 0, "input")
    rank = len(x.shape)
    axis = node.integer("axis", 1)
    assert axis is not None, "it has a default"
    if not -rank <= axis <= rank:
        raise node.error(f"axis is {axis}, but the rank is {rank}", "axis", f"axis must be {-rank} to {rank}")
    axis += rank * (axis < 0)
    return (_reshaped(node, ctx, x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))),)


def squeeze(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Squeeze: remove the given axes of size 1, or all of them."""
    x = required(node, inputs, 0, "data")
    given = node.integers("axes") if node.version < 13 else vector(node, ctx, inputs, 1, "axes")
    if given is None:
        axes = [axis for axis, size in enumerate(x.shape) if size == 1]
    else:
        axes = axes_of(node, given, len(x.shape), may_repeat=True)
    for axis in axes:
        if x.shape[axis] != 1:
            message = f"axis {axis} has size {x.shape[axis]}"
            raise node.error(message, "axes", "axes that go must have size 1")
    return (_reshaped(node, ctx, x, tuple(size for axis, size in enumerate(x.shape) if axis not in axes)),)


def unsqueeze(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Unsqueeze: insert axes of size 1, numbered as in the result."""
    x = required(node, inputs, 0, "data")
    given = node.integers("axes") if node.version < 13 else vector(node, ctx, inputs, 1, "axes")
    if given is None:
        raise node.error("has no axes", "axes", "axes is required")
    rank = len(x.shape) + len(given)
    check_rank(f"{node.label}: the result", rank)
    axes = axes_of(node, given, rank)
    old = iter(x.shape)
    return (_reshaped(node, ctx, x, tuple(1 if axis in axes else next(old) for axis in range(rank))),)


def expand(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Expand: broadcast the data and a shape to each other."""
    x = required(node, inputs, 0, "input")
    wanted = vector(node, ctx, inputs, 1, "shape")
    if wanted is None:
        raise node.error("has no shape", "shape", "shape is required")
    sizes = broadcast_sizes(node, x.shape, sizes_of(node, wanted, "shape"))
    check_bytes(node, sizes, x.dtype.itemsize)
    (value,) = ctx.values(x)
    return (ctx.result(node, ctx.composer.broadcast(value, sizes), x.dtype),)


def broadcast_sizes(node: Node, *shapes: Sizes) -> Sizes:
    """Return the common shape of shapes that are broadcast (ONNX, Broadcasting.md).

    Raises:
        ModelError: the shapes are not compatible.
    """
    rank = max(map(len, shapes))
    check_rank(f"{node.label}: the result", rank)
    result = []
    for sizes in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        others = [size for size in sizes if size != 1]
        if any(size != others[0] for size in others[1:]):
            texts = " and ".join(str([*shape]) for shape in shapes)
            raise node.error(f"shapes {texts} do not fit together", "shape", "sizes must be equal, or 1")
        result.append(others[0] if others else 1)
    return tuple(result)


def tile(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Tile: repeat every axis."""
    x = required(node, inputs, 0, "input")
    repeats = vector(node, ctx, inputs, 1, "repeats")
    if repeats is None or len(repeats) != len(x.shape):
        count = "none" if repeats is None else len(repeats)
        raise node.error(f"repeats has {count} entries, but the rank is {len(x.shape)}", "repeats", "one entry an axis")
    times = sizes_of(node, repeats, "repeats")
    result = tuple(size * n for size, n in zip(x.shape, times, strict=True))
    check_bytes(node, result, x.dtype.itemsize)
    (value,) = ctx.values(x)
    return (ctx.result(node, repeated(node, ctx, value, times, is_inner=False), x.dtype),)


def repeated(node: Node, ctx: LoweringContext, value: Value, times: Sequence[int], *, is_inner: bool) -> Value:
    """Repeat every axis: as a whole, or each of its elements if `is_inner`."""
    result = tuple(size * n for size, n in zip(value.sizes, times, strict=True))
    if 0 in result:
        return Value(result, value.element_size, ())
    apart: list[int] = []
    wide: list[int] = []
    for size, n in zip(value.sizes, times, strict=True):
        if n == 1:
            apart.append(size)
            wide.append(size)
        else:
            apart += [size, 1] if is_inner else [1, size]
            wide += [size, n] if is_inner else [n, size]
    if apart == wide:
        return value
    value = ctx.composer.broadcast(ctx.composer.reshape(value, tuple(apart)), tuple(wide))
    return ctx.composer.reshape(value, result)


def identity(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Identity: the input, a tensor or a sequence."""
    value = inputs[0] if inputs else None
    return (required(node, inputs, 0, "input") if value is None else value,)


def bit_cast(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """BitCast: reinterpret elements as another type with the same number of bits."""
    x, kind = required(node, inputs, 0, "input"), node.integer("to")
    dtype = None if kind is None else numpy_type(kind)
    if dtype is None or dtype.hasobject or x.dtype.hasobject or bits_of(dtype) != bits_of(x.dtype):
        rule = f"to must be a type of numbers of {x.dtype}'s bits"
        raise node.error(f"to is {'nothing' if kind is None else type_name(kind)}", "to", rule)
    (value,) = ctx.values(x)
    return (ctx.result(node, value, dtype),)


def dropout(node: Node, ctx: LoweringContext, inputs: Inputs) -> Iterable[GraphValue]:
    """Dropout at inference: the input, and a mask of ones."""
    x = required(node, inputs, 0, "data")
    if node.version < 7:
        trains = not node.integer("is_test", 0)
    else:
        mode, ratio = (optional(node, inputs, k, name) for k, name in ((2, "training_mode"), (1, "ratio")))
        trains = mode is not None and bool(scalar(node, ctx, mode, "training_mode"))
        # A ratio of 0 drops nothing.
        trains = trains and (ratio is None or scalar(node, ctx, ratio, "ratio") != 0)
    if trains:
        raise node.computes(
            "is in training mode, but anydml moves data and draws nothing", "training_mode", "inference"
        )
    if len(node.outputs) < 2 or not node.outputs[1]:
        return (x,)
    kind = np.dtype(bool) if node.version >= 10 else x.dtype
    one = np.ones((), kind)
    return x, ctx.result(node, checked(node, Value.filled(x.shape, one.tobytes())), kind)
