"""GATHER, GATHER_ELEMENTS, GATHER_ND1, SCATTER, SCATTER_ND, ONE_HOT, REVERSE_SUBSEQUENCES."""

from __future__ import annotations

from anydml.onnx.directml.described import Described, filled_up
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


def pick(known: Described) -> OperatorDesc | None:
    """GATHER, which clamps an index that ONNX refuses."""
    x, indices = known.input(0), known.input(1)
    axis = known.node.axis(len(x.shape))
    # The three have one DimensionCount; leading 1s of the input are cropped where the index has more dimensions.
    source, index, output = known.descs(x, indices, known.output)
    return GatherOperatorDesc(source, index, output, axis + len(source.sizes) - len(x.shape), len(indices.shape))


def pick_along(known: Described) -> OperatorDesc | None:
    """GATHER_ELEMENTS."""
    x = known.input(0)
    source, index, output = known.descs(x, known.input(1), known.output)
    axis = known.node.axis(len(x.shape)) + len(source.sizes) - len(x.shape)
    return GatherElementsOperatorDesc(source, index, output, axis)


def pick_points(known: Described) -> OperatorDesc | None:
    """GATHER_ND1."""
    x, indices = known.input(0), known.input(1)
    source, index, output = known.descs(x, indices, known.output)
    batch = known.node.get("batch_dims") or 0
    return GatherNd1OperatorDesc(source, index, output, len(x.shape), len(indices.shape), batch)


def scatter_elements(known: Described) -> OperatorDesc | None:
    """SCATTER."""
    x = known.input(0)
    source, index, updates, output = known.descs(x, known.input(1), known.input(2), known.output)
    axis = known.node.axis(len(x.shape)) + len(source.sizes) - len(x.shape)
    return ScatterOperatorDesc(source, index, updates, output, axis)


def scatter_nd(known: Described) -> OperatorDesc | None:
    """SCATTER_ND, whose indices have one coordinate or more."""
    x, indices = known.input(0), known.input(1)
    if not indices.shape[-1]:
        return None
    source, index, updates, output = known.descs(x, indices, known.input(2), known.output)
    return ScatterNdOperatorDesc(source, index, updates, output, len(x.shape), len(indices.shape))


def one_hot(known: Described) -> OperatorDesc | None:
    """ONE_HOT."""
    indices, values, output = known.input(0), known.input(2), known.output
    axis, count = known.node.axis(len(output.shape)), known.count(output)
    sizes = (*indices.shape[:axis], 1, *indices.shape[axis:])
    index = TensorDesc(known.type_of(indices), filled_up(sizes, count))
    return OneHotOperatorDesc(
        index, known.desc(values, count), known.desc(output, count), axis + count - len(output.shape)
    )


def reverse_sequence(known: Described) -> OperatorDesc | None:
    """REVERSE_SUBSEQUENCES; INT64 lengths are reinterpreted as UINT64, and broadcast to all rows by strides of 0."""
    x = known.input(0)
    source, output = known.descs(x, known.output)
    time = known.node.get("time_axis")
    more = len(source.sizes) - len(x.shape)
    sizes, strides = [*source.sizes], [0] * len(source.sizes)
    sizes[more + time], strides[more + 1 - time] = 1, 1
    lengths = TensorDesc(DataType.UINT64, sizes, strides)
    return ReverseSubsequencesOperatorDesc(source, lengths, output, more + time)
