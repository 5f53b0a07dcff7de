"""Resize and Upsample by nearest neighbour, in exact arithmetic on the numbers that the model has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from anydml.onnx.graph import Node
from anydml.onnx.graph_values import Array, Sizes, Tensor
from anydml.onnx.lowering import LoweringContext, check_bytes
from anydml.onnx.nodes.node_arguments import INDEX_BYTES, axes_of, elements_of, sizes_of
from anydml.onnx.nodes.padding import pad_array
from anydml.text import count_noun
from anydml.tracing.join_split import repeat_elements
from anydml.tracing.picking import pick

WHOLE = (Fraction(0), Fraction(1))
"""The region that is a whole axis."""

HALF = Fraction(1, 2)

MAX_EXACT = 1 << 62
"""Largest numerator that is computed in 64-bit integers; larger ones are Python's."""


class Scaled(NamedTuple):
    """A resized axis.

    Attributes:
        size: size of the result.
        scale: ratio of the result's size to the input's, before rounding.
        region: region of interest, in the range 0 to 1.
        is_copied: whether every coordinate of the result is that of the input.
    """

    size: int
    scale: Fraction
    region: tuple[Fraction, Fraction] = WHOLE
    is_copied: bool = False


def resize(node: Node, ctx: LoweringContext, x: Tensor, *inputs: Tensor | None) -> Tensor:
    """Resize and Upsample in mode nearest; other modes compute and are refused."""
    axes = resized_axes(node, ctx, x, *inputs)
    result = tuple(axis.size for axis in axes)
    ctx.resolve_lookups(x)
    fill = _fill_element(node, x)
    array = ctx.array(x)
    if 0 in result or not ctx.runs:
        return ctx.empty_result(node, result, x.dtype)
    check_bytes(node, result, x.dtype.itemsize)
    times = whole_scales(node, x.shape, axes)
    if times is None:
        ctx.require_memory(node, 3 * INDEX_BYTES * sum(result))
    for k, axis in enumerate(axes):
        size = array.shape[k]
        if axis.is_copied:
            continue
        if times is not None:
            array = repeat_elements(array, times[k], k)
            continue
        indices, first, last = nearest_indices(node, axis, size)
        array = pick(array, indices, k)
        if first or last:
            before, after = ([n * (dimension == k) for dimension in range(len(axes))] for n in (first, last))
            array = pad_array(ctx, array, before, after, fill)
    return ctx.result(node, array)


def whole_scales(node: Node, shape: Sizes, axes: Sequence[Scaled]) -> list[int] | None:
    """Return the number of repetitions per axis, if resizing only repeats elements; otherwise None."""
    if coordinates(node) != "asymmetric" or rounding(node) != "floor":
        return None
    if any(axis.scale.denominator > 1 or axis.size != old * axis.scale for old, axis in zip(shape, axes, strict=True)):
        return None
    return [int(axis.scale) for axis in axes]


COORDINATES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def _is_old(node: Node) -> bool:
    return node.operator == "Upsample" or node.version < 11


def coordinates(node: Node) -> str:
    """Return the mode that maps coordinates of the result to the input."""
    if _is_old(node):
        return "asymmetric"
    mode: str = node.word("coordinate_transformation_mode", COORDINATES)
    return mode


def rounding(node: Node) -> str:
    """Return the mode that rounds coordinates to the nearest neighbour."""
    return "floor" if _is_old(node) else str(node.word("nearest_mode", ROUNDINGS))


def _check_nearest(node: Node) -> None:
    """Check that the attribute `mode` is nearest.

    Raises:
        ModelError: the mode is another one, which computes.
    """
    mode = node.word("mode", ("nearest", "linear", "bilinear", "cubic"))
    if mode != "nearest":
        message = f"mode is {mode}, but anydml moves data and computes nothing"
        raise node.computes(message, "mode", "mode must be nearest")


def resized_axes(node: Node, ctx: LoweringContext, x: Tensor, *inputs: Tensor | None) -> list[Scaled]:
    """Return the scaling of every axis, including those that are not resized.

    Raises:
        ModelError: a scale or size is invalid, both or neither are given, or the mode is not nearest.
    """
    _check_nearest(node)
    rank = len(x.shape)
    axes = axes_of(node, node.get("axes"), rank)
    old = [x.shape[axis] for axis in axes]
    roi, scale_input, size_input = (None, *inputs, None, None)[:3] if _is_old(node) else inputs
    scales, sizes = _scales_and_sizes(node, ctx, scale_input, size_input)
    if (scales is None) == (sizes is None):
        raise node.error(
            "has both or none of scales and sizes", "scales", "exactly one of scales and sizes must be given"
        )
    count = len(scales if sizes is None else sizes)  # type: ignore[arg-type]  # one of them is given
    if count != len(axes):
        message = f"has {count_noun(count, 'scale')} or sizes for {count_noun(len(axes), 'axis')}"
        raise node.error(message, "scales", "there must be one scale or size per axis")
    if sizes is not None:
        sizes_of(node, sizes, "sizes")
        scales = [Fraction(new, size) if size else Fraction(1) for new, size in zip(sizes, old, strict=True)]
        sizes, scales = _kept_ratio(node, old, sizes, scales)
    assert scales is not None, "one of them is given"
    if sizes is None:
        sizes = [math.floor(size * scale) for size, scale in zip(old, scales, strict=True)]
    if any(new and not size for new, size in zip(sizes, old, strict=True)):
        raise node.error(f"X has shape {list(x.shape)}", "X", "X must have an element to read")
    regions = _regions(node, ctx, roi, len(axes))
    scaled = [Scaled(size, Fraction(1), is_copied=True) for size in x.shape]
    for k, axis in enumerate(axes):
        # This mode does not map the centre of a pixel to itself, even if the scale is 1.
        keeps = coordinates(node) != "tf_half_pixel_for_nn" and scales[k] == 1 and regions[k] == WHOLE
        scaled[axis] = Scaled(sizes[k], scales[k], regions[k], keeps and sizes[k] == old[k])
    return scaled


def _scales_and_sizes(
    node: Node, ctx: LoweringContext, scales: Tensor | None, sizes: Tensor | None
) -> tuple[list[Fraction] | None, list[int] | None]:
    """Return scales and sizes, None for those that are not given."""
    if node.operator == "Upsample" and node.version < 9:
        if node.version < 7:
            return _as_fractions(node, [1.0, 1.0, node.get("height_scale"), node.get("width_scale")]), None
        return _as_fractions(node, node.get("scales")), None
    wanted_sizes = elements_of(node, ctx, sizes, "sizes")
    if scales is None or (not scales.size and wanted_sizes is not None):
        return None, wanted_sizes
    return _as_fractions(node, elements_of(node, ctx, scales, "scales")), wanted_sizes


def _as_fractions(node: Node, scales: Sequence[float] | None) -> list[Fraction] | None:
    """Return scales as fractions.

    Raises:
        ModelError: a number is not a finite number above 0.
    """
    wrong = next((scale for scale in scales or () if not (math.isfinite(scale) and scale > 0)), None)
    if wrong is not None:
        raise node.error(f"scales has {wrong}", "scales", "scales must be more than 0")
    return None if scales is None else [Fraction(scale) for scale in scales]


POLICIES = ("stretch", "not_larger", "not_smaller")


def _kept_ratio(
    node: Node, old: Sequence[int], sizes: Sequence[int], scales: Sequence[Fraction]
) -> tuple[list[int], list[Fraction]]:
    policy = node.word("keep_aspect_ratio_policy", POLICIES)
    if policy in (None, "stretch") or not scales:
        return [*sizes], [*scales]
    scale = min(scales) if policy == "not_larger" else max(scales)
    return [math.floor(scale * size + HALF) for size in old], [scale] * len(old)


def _regions(node: Node, ctx: LoweringContext, roi: Tensor | None, count: int) -> list[tuple[Fraction, Fraction]]:
    if coordinates(node) != "tf_crop_and_resize":
        return [WHOLE] * count
    if roi is None or roi.shape != (2 * count,):
        message = "has no roi" if roi is None else f"roi has shape {list(roi.shape)}"
        raise node.error(message, "roi", "roi must have a start and an end for each axis")
    bounds = [float(bound) for bound in ctx.known_elements(node, roi, "roi").tolist()]
    if not all(map(math.isfinite, bounds)):
        raise node.error(f"roi is {bounds}", "roi", "starts and ends of roi must be finite")
    pinned_number = [*map(Fraction, bounds)]
    return [*zip(pinned_number[:count], pinned_number[count:], strict=True)]


def _fill_element(node: Node, x: Tensor) -> Array:
    """Return the element for coordinates outside the input, as a 0-d array."""
    fill_value: Any = "" if x.dtype.hasobject else node.get("extrapolation_value") or 0
    with np.errstate(all="ignore"):
        return np.array(fill_value).astype(x.dtype)


class Map(NamedTuple):
    """Coordinate y of an axis of the result is ``x = (y − outer) · step − inner`` in the input."""

    step: Fraction
    inner: Fraction = Fraction(0)
    outer: Fraction = Fraction(0)


def axis_map(mode: str, axis: Scaled, size: int) -> Map:
    """Return the map of a resized axis, whose input has `size` elements, in a coordinate transformation mode."""
    scale, new = axis.scale, axis.size
    if not new:
        return Map(Fraction(0))
    if mode == "align_corners":
        last_position = scale * size - 1
        return Map((size - 1) / last_position if last_position else Fraction(0))
    if mode == "tf_crop_and_resize":
        first, last = axis.region
        if new == 1:
            return Map(Fraction(0), -(first + last) * (size - 1) / 2)
        return Map((last - first) * (size - 1) / (new - 1), -first * (size - 1))
    if mode == "asymmetric" or (mode == "pytorch_half_pixel" and new == 1):
        return Map(1 / scale)
    if mode == "tf_half_pixel_for_nn":
        return Map(1 / scale, outer=-HALF)
    if mode == "half_pixel_symmetric":
        return Map(1 / scale, HALF - (size - new / scale) / 2, -HALF)
    return Map(1 / scale, HALF, -HALF)


def nearest_indices(node: Node, axis: Scaled, size: int) -> tuple[Array, int, int]:
    """Return the indices of the nearest neighbours, and the numbers of elements outside at the start and the end.

    Only tf_crop_and_resize has elements outside.
    """
    mode = coordinates(node)
    step, inner, outer = axis_map(mode, axis, size)
    first = -outer * step - inner
    # x = numerators / below, in integers.
    below = math.lcm(step.denominator, first.denominator)
    by, start = int(step * below), int(first * below)
    is_short = 2 * (abs(by) * axis.size + abs(start) + size * below) < MAX_EXACT
    numerators = np.arange(axis.size, dtype=np.int64 if is_short else object) * by + start
    rounded = {
        "round_prefer_floor": lambda: -((below - 2 * numerators) // (2 * below)),
        "round_prefer_ceil": lambda: (2 * numerators + below) // (2 * below),
        "floor": lambda: numerators // below,
        "ceil": lambda: -(-numerators // below),
    }[rounding(node)]()
    indices = np.clip(rounded, 0, size - 1).astype(np.int64)
    is_inside = (numerators >= 0) & (numerators <= (size - 1) * below)
    inside_indices = np.flatnonzero(is_inside) if mode == "tf_crop_and_resize" else np.arange(axis.size)
    if not inside_indices.size:
        return indices[:0], axis.size, 0
    # Coordinates are monotonic, so the ones outside the image are at the ends.
    return (
        indices[inside_indices[0] : inside_indices[-1] + 1],
        int(inside_indices[0]),
        axis.size - 1 - int(inside_indices[-1]),
    )
