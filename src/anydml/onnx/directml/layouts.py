"""ELEMENT_WISE_IDENTITY and ELEMENT_WISE_IF of strides, SPACE_TO_DEPTH1, DEPTH_TO_SPACE1, UPSAMPLE_2D, RESAMPLE2."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anydml.onnx.directml.described import Described, filled_up
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import Sizes, Tensor
from anydml.onnx.lowering import UnknownElementsError
from anydml.onnx.nodes.pixel_blocks import block_order
from anydml.onnx.nodes.resizing import (
    WHOLE,
    Scaled,
    axis_map,
    coordinates,
    nearest_indices,
    resized_axes,
    rounding,
    whole_scales,
)
from anydml.onnx.nodes.shaping import permutation
from anydml.operators import (
    DepthToSpace1OperatorDesc,
    ElementWiseIdentityOperatorDesc,
    ElementWiseIfOperatorDesc,
    OperatorDesc,
    Resample2OperatorDesc,
    SpaceToDepth1OperatorDesc,
    Upsample2dOperatorDesc,
)
from anydml.tensor import Layout, TensorDesc, packed_strides


def transpose(described: Described, x: Tensor) -> OperatorDesc | None:
    """ELEMENT_WISE_IDENTITY that reads through permuted strides."""
    output = described.descs(described.output)[0]
    perm, strides = permutation(described.node, len(x.shape)), packed_strides(x.shape)
    output_strides = filled_up([strides[axis] for axis in perm], len(output.sizes), x.size)
    return ElementWiseIdentityOperatorDesc(TensorDesc(described.type_of(x), output.sizes, output_strides), output)


def expand(described: Described, x: Tensor, shape: Tensor) -> OperatorDesc | None:
    """ELEMENT_WISE_IDENTITY that reads through strides of 0."""
    output = described.descs(described.output)[0]
    return ElementWiseIdentityOperatorDesc(_broadcast(described, x, output), output)


def element_wise_if(described: Described, *inputs: Tensor) -> OperatorDesc | None:
    """ELEMENT_WISE_IF that reads through strides of 0."""
    output = described.descs(described.output)[0]
    condition, a, b = (_broadcast(described, operand, output) for operand in inputs)
    return ElementWiseIfOperatorDesc(condition, a, b, output)


def _broadcast(described: Described, tensor: Tensor, output: TensorDesc) -> TensorDesc:
    """Return the desc of a tensor broadcast to the output's sizes by strides of 0."""
    strides = Layout.packed(tensor.shape, 1).broadcast(output.sizes).strides
    return TensorDesc(described.type_of(tensor), output.sizes, strides)


def depth_to_space(described: Described, x: Tensor) -> OperatorDesc | None:
    """DEPTH_TO_SPACE1."""
    (source, output), node = described.descs(x, described.output), described.node
    return DepthToSpace1OperatorDesc(source, output, node.get("blocksize"), block_order(node).upper())


def space_to_depth(described: Described, x: Tensor) -> OperatorDesc | None:
    """SPACE_TO_DEPTH1."""
    (source, output), node = described.descs(x, described.output), described.node
    return SpaceToDepth1OperatorDesc(source, output, node.get("blocksize"), block_order(node).upper())


def upsample(described: Described, x: Tensor, *inputs: Tensor | None) -> OperatorDesc | None:
    """UPSAMPLE_2D if rows and columns of images are repeated by integer factors, otherwise RESAMPLE2."""
    node = described.node
    axes = resized_axes(node, described.ctx, x, *inputs)
    times = whole_scales(node, x.shape, axes)
    source, output = described.descs(x, described.output)
    if times is not None and len(times) >= 2 and all(n == 1 for n in times[:-2]):
        return Upsample2dOperatorDesc(source, output, (times[-1], times[-2]), "NEAREST_NEIGHBOR")
    direction, shift = ROUNDED[rounding(node)]
    places = [_place(coordinates(node), axis, size) for axis, size in zip(axes, x.shape, strict=True)]
    before = [(1.0, 0.0, 0.0)] * (len(output.sizes) - len(places))
    scales, input_offsets, outputs = zip(*before, *places, strict=True)
    offsets = [offset + shift for offset in input_offsets]
    desc = Resample2OperatorDesc(source, output, "NEAREST_NEIGHBOR", direction, scales, offsets, outputs)
    _check_pixels(node, desc, axes, x.shape)
    return desc


MAX_PIXELS = 1 << 20
"""Longest axis of which it is checked that a desc reads the same pixels as a node."""


def _check_pixels(node: Node, desc: Resample2OperatorDesc, axes: Sequence[Scaled], shape: Sizes) -> None:
    """Check that a desc, which computes in FLOAT, reads the pixels that exact fractions give.

    Raises:
        ModelError: DirectML reads another pixel than ONNX.
        UnknownElementsError: an axis is too long to check.
    """
    for d, (axis, size, grid) in enumerate(zip(axes, shape, desc.grids()[len(desc.scales) - len(axes) :], strict=True)):
        if axis.is_copied:
            continue
        if axis.size > MAX_PIXELS:
            raise UnknownElementsError(f"axis {d} has more than {MAX_PIXELS} pixels, which are too many to compare")
        expected, actual = nearest_indices(node, axis, size)[0], grid.positions(axis.size, size)
        if (differing := np.flatnonzero(expected != actual)).size:
            at = int(differing[0])
            message = (
                f"pixel {at} of axis {d} is the one at {expected[at]}, but RESAMPLE2 would read the one at {actual[at]}"
            )
            rule = "RESAMPLE2 computes in FLOAT and must read the same pixels as the node"
            raise node.error(message, "scales", rule)


ROUNDED = {
    "round_prefer_floor": ("INCREASING", 0.5),
    "round_prefer_ceil": ("DECREASING", -0.5),
    "floor": ("DECREASING", 0.0),
    "ceil": ("INCREASING", 0.0),
}
"""Rounding direction of RESAMPLE2, and shift of its InputPixelOffsets, as in ONNX Runtime's provider."""


def _place(mode: str, axis: Scaled, size: int) -> tuple[float, float, float]:
    """Return scale, InputPixelOffset and OutputPixelOffset of an axis.

    Raises:
        UnknownElementsError: the region may lie outside the input, which RESAMPLE2 does not support.
    """
    if axis.is_copied:
        return 1.0, 0.0, 0.0
    if axis.region != WHOLE:
        raise UnknownElementsError("DirectML has no operator that crops and resizes, which tf_crop_and_resize does")
    step, inner, outer = axis_map(mode, axis, size)
    return float(1 / step if step else 1), float(inner), float(outer)
