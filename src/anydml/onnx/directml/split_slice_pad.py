"""SPLIT, JOIN, SLICE1, TILE, PADDING and PADDING1."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.onnx.directml.described import Described, filled_up
from anydml.onnx.graph_values import Tensor
from anydml.onnx.nodes.node_arguments import elements_of, scalar
from anydml.onnx.nodes.padding import pad_counts, pad_mode
from anydml.onnx.nodes.split_slice_concat import joined_axis, window_of
from anydml.operators import (
    JoinOperatorDesc,
    OperatorDesc,
    Padding1OperatorDesc,
    Slice1OperatorDesc,
    SplitOperatorDesc,
    TileOperatorDesc,
)


def split(described: Described, x: Tensor, *_: Tensor | None) -> OperatorDesc | None:
    """SPLIT."""
    parts = _not_empty(described, described.outputs)
    if not parts:
        return None
    full_desc, *tensors = described.descs(x, *parts)
    return SplitOperatorDesc(full_desc, tensors, described.axis(x, full_desc))


def join(described: Described, *parts: Tensor) -> OperatorDesc | None:
    """JOIN."""
    axis, _, _ = joined_axis(described.node, parts)
    full_desc, *tensors = described.descs(described.output, *_not_empty(described, parts))
    return JoinOperatorDesc(tensors, full_desc, axis + len(full_desc.sizes) - len(parts[0].shape))


def _not_empty(described: Described, tensors: Sequence[object]) -> list[Tensor]:
    given_tensors = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    return [tensor for tensor in given_tensors if tensor.size or not described.skips_empty]


def slice_(described: Described, x: Tensor, *inputs: Tensor | None) -> OperatorDesc | None:
    """SLICE1."""
    window = window_of(described.node, described.ctx, x, *inputs)
    source, output = described.descs(x, described.output)
    count = len(source.sizes)
    sizes, strides = filled_up(window.sizes, count), filled_up(window.strides, count)
    return Slice1OperatorDesc(source, output, filled_up(window.offsets, count, 0), sizes, strides)


def tile(described: Described, x: Tensor, repeats: Tensor) -> OperatorDesc | None:
    """TILE."""
    source, output = described.descs(x, described.output)
    times = elements_of(described.node, described.ctx, repeats, "repeats")
    return TileOperatorDesc(source, output, filled_up(times, len(source.sizes)))


MODES = {"constant": "CONSTANT", "edge": "EDGE", "reflect": "REFLECTION", "wrap": "WRAP"}


def pad(
    described: Described,
    x: Tensor,
    pads: Tensor | None = None,
    constant_value: Tensor | None = None,
    axes: Tensor | None = None,
) -> OperatorDesc | None:
    """PADDING1, or SLICE1 if all counts crop; None if both are needed, since a node has one desc."""
    node, mode = described.node, pad_mode(described.node)
    before, after = pad_counts(node, described.ctx, x, pads, axes)
    source, output = described.descs(x, described.output)
    count = len(source.sizes)
    begin, end = filled_up(before, count, 0), filled_up(after, count, 0)
    if min((*before, *after, 0)) < 0:
        if max((*before, *after, 0)) > 0:
            return None
        return Slice1OperatorDesc(source, output, [-n for n in begin], output.sizes, (1,) * count)
    value = node.get("value") or 0
    if constant_value is not None and mode == "constant":
        value = scalar(node, described.ctx, constant_value, "constant_value")
    data_type = described.type_of(x)
    value = float(value) if data_type.dtype.kind == "f" else int(value)
    return Padding1OperatorDesc(source, output, MODES[mode], data_type, value, begin, end)
