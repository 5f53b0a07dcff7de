"""ELEMENT_WISE_IDENTITY of strides, SPACE_TO_DEPTH1, DEPTH_TO_SPACE1, UPSAMPLE_2D."""

from __future__ import annotations

from anydml.onnx.directml.described import Described, not_ours
from anydml.onnx.moving import packed
from anydml.onnx.nodes.blocks import block_order, resized_axes, whole_scales
from anydml.onnx.nodes.shaping import permutation
from anydml.operators import (
    DepthToSpace1OperatorDesc,
    ElementWiseIdentityOperatorDesc,
    OperatorDesc,
    SpaceToDepth1OperatorDesc,
    Upsample2dOperatorDesc,
)
from anydml.tensor import TensorDesc


def transpose(known: Described) -> OperatorDesc | None:
    """ELEMENT_WISE_IDENTITY that reads through permuted strides."""
    x = known.input(0)
    output = known.descs(known.output)[0]
    perm = permutation(known.node, len(x.shape))
    count = len(output.sizes) - len(perm)
    strides = packed(x.shape, 1)
    own = (x.size,) * count + tuple(strides[axis] for axis in perm)
    return ElementWiseIdentityOperatorDesc(TensorDesc(known.type_of(x), output.sizes, own), output)


def expand(known: Described) -> OperatorDesc | None:
    """ELEMENT_WISE_IDENTITY that reads through strides of 0."""
    x = known.input(0)
    output = known.descs(known.output)[0]
    strides = tuple(0 if size == 1 else step for size, step in zip(x.shape, packed(x.shape, 1), strict=True))
    own = (0,) * (len(output.sizes) - len(strides)) + strides
    return ElementWiseIdentityOperatorDesc(TensorDesc(known.type_of(x), output.sizes, own), output)


ORDERS = {"DCR": "DEPTH_COLUMN_ROW", "CRD": "COLUMN_ROW_DEPTH"}


def depth_to_space(known: Described) -> OperatorDesc | None:
    """DEPTH_TO_SPACE1."""
    (source, output), size = known.descs(known.input(0), known.output), known.node.integer("blocksize")
    assert size is not None, "the node was looked at before"
    return DepthToSpace1OperatorDesc(source, output, size, ORDERS[block_order(known.node)])


def space_to_depth(known: Described) -> OperatorDesc | None:
    """SPACE_TO_DEPTH1."""
    (source, output), size = known.descs(known.input(0), known.output), known.node.integer("blocksize")
    assert size is not None, "the node was looked at before"
    return SpaceToDepth1OperatorDesc(source, output, size, ORDERS[block_order(known.node)])


def upsample(known: Described) -> OperatorDesc | None:
    """UPSAMPLE_2D where whole rows and columns of images are repeated; other Resize nodes are RESAMPLE2."""
    x = known.input(0)
    axes = resized_axes(known.node, known.at, x, known.inputs)
    times = whole_scales(known.node, x.shape, axes)
    if times is None or len(times) < 2 or any(n != 1 for n in times[:-2]):
        return not_ours("DML_OPERATOR_RESAMPLE2")
    source, output = known.descs(x, known.output)
    return Upsample2dOperatorDesc(source, output, (times[-1], times[-2]), "NEAREST_NEIGHBOR")
