"""GATHER, GATHER_ELEMENTS, GATHER_ND1, SCATTER, SCATTER_ND, ONE_HOT, REVERSE_SUBSEQUENCES."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from anydml.errors import ModelError
from anydml.onnx.directml.described import Described
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import GraphValue, Tensor
from anydml.operators import (
    GatherElementsOperatorDesc,
    GatherNd1OperatorDesc,
    GatherOperatorDesc,
    OneHotOperatorDesc,
    OperatorDesc,
    ReverseSubsequencesOperatorDesc,
    ScatterNdOperatorDesc,
    ScatterOperatorDesc,
)
from anydml.tensor import DataType, TensorDesc
from anydml.text import count_noun

INDEXED = ("Gather", "GatherElements", "GatherND", "Scatter", "ScatterElements", "ScatterND")
"""Operators whose second input has indices, which must lie inside the first."""

MAX_INDICES = 1 << 22
"""Maximum number of a tensor's constant indices that are read."""


def indices_of(nodes: Iterable[Node]) -> set[str]:
    """Return the names of the indices of nodes."""
    return {name for node in nodes if node.operator in INDEXED for name in node.inputs[1:2]}


def outside_index_error(node: Node, inputs: Sequence[GraphValue | None]) -> ModelError | None:
    """Return an error if a constant index lies outside its axis, which DirectML clamps or skips, and ONNX refuses."""
    if node.operator not in INDEXED:
        return None
    x, indices = inputs[:2]
    if not isinstance(x, Tensor) or not isinstance(indices, Tensor) or indices.array is None or not indices.size:
        return None
    if node.operator.endswith("ND"):
        first = node.get("batch_dims") or 0
        sizes = np.array(x.shape[first : first + indices.shape[-1]])
    else:
        sizes = np.array(x.shape[node.axis(len(x.shape), 0)])
    wrong = np.argwhere((indices.array < -sizes) | (indices.array >= sizes))
    if not wrong.size:
        return None
    at = tuple(wrong[0].tolist())
    size = sizes if sizes.ndim == 0 else sizes[at[-1]]
    message = f"indices has {indices.array[at]}, but the axis has {count_noun(int(size), 'element')}"
    return node.error(message, "indices", "indices must lie inside the axis; DirectML does not refuse others")


def pick(described: Described, x: Tensor, indices: Tensor) -> OperatorDesc | None:
    """GATHER, which clamps an index that ONNX refuses."""
    # The three tensors share a DimensionCount; leading 1s of the input are cropped if the index has more dimensions.
    source, index, output = described.descs(x, indices, described.output)
    return GatherOperatorDesc(source, index, output, described.axis(x, source), len(indices.shape))


def pick_along(described: Described, x: Tensor, indices: Tensor) -> OperatorDesc | None:
    """GATHER_ELEMENTS."""
    source, index, output = described.descs(x, indices, described.output)
    return GatherElementsOperatorDesc(source, index, output, described.axis(x, source))


def pick_points(described: Described, x: Tensor, indices: Tensor) -> OperatorDesc | None:
    """GATHER_ND1."""
    source, index, output = described.descs(x, indices, described.output)
    batch = described.node.get("batch_dims") or 0
    return GatherNd1OperatorDesc(source, index, output, len(x.shape), len(indices.shape), batch)


def scatter_elements(described: Described, x: Tensor, indices: Tensor, updates: Tensor) -> OperatorDesc | None:
    """SCATTER."""
    source, index, new, output = described.descs(x, indices, updates, described.output)
    return ScatterOperatorDesc(source, index, new, output, described.axis(x, source))


def scatter_nd(described: Described, x: Tensor, indices: Tensor, updates: Tensor) -> OperatorDesc | None:
    """SCATTER_ND, whose indices have one coordinate or more."""
    if not indices.shape[-1]:
        return None
    source, index, new, output = described.descs(x, indices, updates, described.output)
    return ScatterNdOperatorDesc(source, index, new, output, len(x.shape), len(indices.shape))


def one_hot(described: Described, indices: Tensor, depth: Tensor, values: Tensor) -> OperatorDesc | None:
    """ONE_HOT."""
    count = described.count(described.output)
    output = described.desc(described.output, count)
    axis = described.axis(described.output, output)
    sizes = (*output.sizes[:axis], 1, *output.sizes[axis + 1 :])
    return OneHotOperatorDesc(
        TensorDesc(described.type_of(indices), sizes), described.desc(values, count), output, axis
    )


def reverse_sequence(described: Described, x: Tensor, sequence_lens: Tensor) -> OperatorDesc | None:
    """REVERSE_SUBSEQUENCES; INT64 lengths are reinterpreted as UINT64, and broadcast to all rows by strides of 0."""
    source, output = described.descs(x, described.output)
    time = described.node.get("time_axis")
    leading = len(source.sizes) - len(x.shape)
    sizes, strides = [*source.sizes], [0] * len(source.sizes)
    sizes[leading + time], strides[leading + 1 - time] = 1, 1
    lengths = TensorDesc(DataType.UINT64, sizes, strides)
    return ReverseSubsequencesOperatorDesc(source, lengths, output, leading + time)
