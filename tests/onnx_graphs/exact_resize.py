"""Resize by nearest neighbour as ONNX's document has it, coordinate by coordinate, in fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

HALF = Fraction(1, 2)
ROUNDINGS = {
    "round_prefer_floor": lambda x: math.ceil(x - HALF),
    "round_prefer_ceil": lambda x: math.floor(x + HALF),
    "floor": math.floor,
    "ceil": math.ceil,
}
MODES = (
    "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
)  # fmt: skip


def place(mode, y, length, scale, count, roi):
    """`x_original` of coordinate y; the length of the result is that before rounding, as in ONNX's test data."""
    width = scale * length
    first, last = map(Fraction, roi)
    if mode == "half_pixel":
        return (y + HALF) / scale - HALF
    if mode == "half_pixel_symmetric":
        adjustment = count / width
        center = Fraction(length, 2)
        return center * (1 - adjustment) + (y + HALF) / scale - HALF
    if mode == "pytorch_half_pixel":
        return (y + HALF) / scale - HALF if count > 1 else Fraction(0)
    if mode == "align_corners":
        return y * (length - 1) / (width - 1) if width != 1 else Fraction(0)
    if mode == "asymmetric":
        return y / scale
    if mode == "tf_half_pixel_for_nn":
        return (y + HALF) / scale
    if count == 1:
        return HALF * (first + last) * (length - 1)
    return first * (length - 1) + y * (last - first) * (length - 1) / (count - 1)


def neighbours(mode, rounding, length, scale, count, roi=(0, 1)):
    """The element that each coordinate reads; None where the extrapolation value stands."""
    found = []
    for y in range(count):
        x = place(mode, y, length, scale, count, roi)
        is_outside = mode == "tf_crop_and_resize" and not 0 <= x <= length - 1
        found.append(None if is_outside else min(max(ROUNDINGS[rounding](x), 0), length - 1))
    return found


def resized(arrays, attributes, version):
    """The result of a Resize, or of an Upsample up to opset 9, with the inputs that its opset has."""
    x, *others = arrays
    if version < 11:
        roi, scales, sizes = None, others[0] if others else attributes["scales"], None
        attributes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        roi, scales, sizes = [*others, None, None][:3]
    mode = attributes.get("coordinate_transformation_mode", "half_pixel")
    rounding = attributes.get("nearest_mode", "round_prefer_floor")
    axes = attributes.get("axes", range(x.ndim))
    old = [x.shape[axis] for axis in axes]
    if sizes is None:
        factors = [Fraction(float(scale)) for scale in scales]
        counts = [math.floor(scale * length) for scale, length in zip(factors, old, strict=True)]
    else:
        counts = [int(size) for size in sizes]
        factors = [Fraction(size, length) for size, length in zip(counts, old, strict=True)]
        policy = attributes.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            factors = [(min if policy == "not_larger" else max)(factors)] * len(factors)
            counts = [math.floor(scale * length + HALF) for scale, length in zip(factors, old, strict=True)]
    fill = np.array(attributes.get("extrapolation_value", 0)).astype(x.dtype)
    for k, axis in enumerate(axes):
        region = (0, 1) if roi is None else (float(roi[k]), float(roi[len(axes) + k]))
        places = neighbours(mode, rounding, old[k], factors[k], counts[k], region)
        x = x.take([place or 0 for place in places], axis)
        np.moveaxis(x, axis, 0)[[k for k, place in enumerate(places) if place is None]] = fill
    return x
