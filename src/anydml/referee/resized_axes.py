"""Axes that Resize resizes by nearest neighbour, computed in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from anydml.referee.nodes import Array, Constant, Coordinate, Node, Result, Source

HALF = Fraction(1, 2)
ROUNDINGS: dict[str, Callable[[Any], int]] = {
    "round_prefer_floor": lambda x: math.ceil(x - HALF),
    "round_prefer_ceil": lambda x: math.floor(x + HALF),
    "floor": math.floor,
    "ceil": math.ceil,
}


class Axis:
    """A resized axis: its length, the scale and the length of the result, and the region of interest."""

    def __init__(
        self, length: int, scale: Fraction, target: Fraction, count: int, roi: tuple[Fraction, Fraction]
    ) -> None:
        self.length, self.scale, self.target, self.count, self.roi = length, scale, target, count, roi
        # `length_resized` is what align_corners, and modes that compare with 1, use.
        self.corners, self.resized = target, Fraction(count)

    def original(self, mode: str, y: int, number_class: Callable[[Any], Any] = Fraction) -> Any:
        """`x_original` of a coordinate of the result.

        Args:
            mode: the transformation.
            y: the coordinate.
            number_class: the type of numbers for the computation.
        """
        half, at, scale, target = (
            number_class(0.5),
            number_class(y),
            number_class(self.scale),
            number_class(self.target),
        )
        if mode == "half_pixel":
            return (at + half) / scale - half
        if mode == "half_pixel_symmetric":
            adjustment = self.count / target
            center = number_class(self.length) / 2
            return center * (1 - adjustment) + (at + half) / scale - half
        if mode == "pytorch_half_pixel":
            return (at + half) / scale - half if self.resized > 1 else 0
        if mode == "asymmetric":
            return at / scale
        if mode == "tf_half_pixel_for_nn":
            return (at + half) / scale
        last, start, end = self.length - 1, number_class(self.roi[0]), number_class(self.roi[1])
        if mode == "align_corners":
            corners = number_class(self.corners)
            return at * last / (corners - 1) if corners != 1 else 0
        if self.resized > 1:
            return start * last + at * (end - start) * last / (number_class(self.resized) - 1)
        return half * (start + end) * last


def axes_of(node: Node) -> dict[int, Axis]:
    """Return the axes that are resized."""
    x, scales, sizes = node.array(0), node.optional(2), node.optional(3)
    axes = [axis % x.ndim for axis in node.attributes.get("axes", range(x.ndim))]
    roi = node.optional(1)
    scaled = {}
    is_by_scale = scales is not None and scales.size > 0
    factors = (
        [Fraction(float(s)) for s in scales] if is_by_scale and scales is not None else _factors(node, axes, sizes)
    )
    policy = node.attribute("keep_aspect_ratio_policy") or "stretch"
    for k, axis in enumerate(axes):
        length, scale = x.shape[axis], factors[k]
        target = scale * length
        size = math.floor(target) if is_by_scale else math.floor(target + HALF) if policy != "stretch" else int(target)
        region = (Fraction(0), Fraction(1))
        if roi is not None and roi.size:
            region = Fraction(float(roi[k])), Fraction(float(roi[len(axes) + k]))
        scaled[axis] = Axis(length, scale, target, size, region)
    return scaled


def _factors(node: Node, axes: list[int], sizes: Array | None) -> list[Fraction]:
    assert sizes is not None
    factors = [Fraction(int(size), node.array(0).shape[axis]) for size, axis in zip(sizes, axes, strict=True)]
    policy = node.attribute("keep_aspect_ratio_policy") or "stretch"
    if policy == "stretch":
        return factors
    return [(min if policy == "not_larger" else max)(factors)] * len(factors)


def resize_axes(node: Node, axes: dict[int, Axis], number_class: Callable[[Any], Any] = Fraction) -> list[Result]:
    """Return the result of resizing axes.

    Args:
        node: the node.
        axes: the axes that are resized.
        number_class: the type of numbers for the computation of `x_original`.
    """
    x, mode = node.array(0), node.attribute("coordinate_transformation_mode")
    rounding = ROUNDINGS[node.attribute("nearest_mode")]
    value = np.array(node.attribute("extrapolation_value"))
    fill = Constant("" if x.dtype.hasobject else value.astype(x.dtype)[()])
    lines: list[list[int | None]] = []
    for axis, length in enumerate(x.shape):
        if axis not in axes:
            lines.append([*range(length)])
            continue
        resized = axes[axis]
        line: list[int | None] = []
        for y in range(resized.count):
            at = (
                Fraction(float(original))
                if not isinstance(original := resized.original(mode, y, number_class), Fraction)
                else original
            )
            is_outside = mode == "tf_crop_and_resize" and not 0 <= at <= length - 1
            line.append(None if is_outside else min(max(rounding(at), 0), length - 1))
        lines.append(line)

    def source(at: Coordinate) -> Source:
        coordinates = []
        for c, line in zip(at, lines, strict=True):
            original = line[c]
            if original is None:
                return fill
            coordinates.append(original)
        return 0, tuple(coordinates)

    return [Result(tuple(map(len, lines)), x.dtype, source)]
