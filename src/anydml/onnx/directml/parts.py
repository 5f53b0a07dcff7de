"""SPLIT, JOIN, SLICE1, TILE, PADDING and PADDING1."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.onnx.directml.described import Described, filled_up
from anydml.onnx.nodes.arguments import elements_of
from anydml.onnx.nodes.padding import pad_counts, pad_mode
from anydml.onnx.nodes.parts import joined_axis, window_of
from anydml.onnx.values import Tensor
from anydml.operators import (
    JoinOperatorDesc,
    OperatorDesc,
    Padding1OperatorDesc,
    Slice1OperatorDesc,
    SplitOperatorDesc,
    TileOperatorDesc,
)


def split(known: Described) -> OperatorDesc | None:
    """SPLIT."""
    x = known.input(0)
    axis = known.node.axis(len(x.shape))
    parts = _not_empty(known, known.outputs)
    if not parts:
        return None
    whole, *tensors = known.descs(x, *parts)
    return SplitOperatorDesc(whole, tensors, axis + len(whole.sizes) - len(x.shape))


def join(known: Described) -> OperatorDesc | None:
    """JOIN."""
    parts = [known.input(k) for k in range(len(known.inputs))]
    axis, _, _ = joined_axis(known.node, parts)
    rank = len(parts[0].shape)
    whole, *tensors = known.descs(known.output, *_not_empty(known, parts))
    return JoinOperatorDesc(tensors, whole, axis + len(whole.sizes) - rank)


def _not_empty(known: Described, tensors: Sequence[object]) -> list[Tensor]:
    every = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    return [tensor for tensor in every if tensor.size or not known.skips_empty]


def slice_(known: Described) -> OperatorDesc | None:
    """SLICE1."""
    x = known.input(0)
    window = window_of(known.node, known.ctx, x, *known.inputs[1:])
    source, output = known.descs(x, known.output)
    count = len(source.sizes)
    zeros = (0,) * (count - len(x.shape))
    offsets, sizes, strides = zeros + window.offsets, filled_up(window.sizes, count), filled_up(window.strides, count)
    return Slice1OperatorDesc(source, output, offsets, sizes, strides)


def tile(known: Described) -> OperatorDesc | None:
    """TILE."""
    x = known.input(0)
    source, output = known.descs(x, known.output)
    repeats = elements_of(known.node, known.ctx, known.input(1), "repeats")
    return TileOperatorDesc(source, output, filled_up(tuple(repeats), len(source.sizes)))


MODES = {"constant": "CONSTANT", "edge": "EDGE", "reflect": "REFLECTION", "wrap": "WRAP"}


def pad(known: Described) -> OperatorDesc | None:
    """PADDING1, or SLICE1 if all counts crop; None if both are needed, since a node has one desc."""
    x, node = known.input(0), known.node
    before, after = pad_counts(node, known.ctx, x, known.given(1), known.given(3))
    source, output = known.descs(x, known.output)
    zeros = (0,) * (len(source.sizes) - len(x.shape))
    if min((*before, *after, 0)) < 0:
        if max((*before, *after, 0)) > 0:
            return None
        offsets = zeros + tuple(-n for n in before)
        return Slice1OperatorDesc(source, output, offsets, output.sizes, (1,) * len(source.sizes))
    value, given = node.get("value") or 0, known.given(2)
    if given is not None and pad_mode(node) == "constant":
        value = known.ctx.known(node, given, "constant_value").reshape(()).item()
    kind = known.type_of(x)
    value = float(value) if kind.dtype.kind == "f" else int(value)
    begin, end = zeros + tuple(before), zeros + tuple(after)
    return Padding1OperatorDesc(source, output, MODES[pad_mode(node)], kind, value, begin, end)
