"""Resize by nearest neighbour, in fractions, with what its text leaves open."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Array, Constant, Coordinate, Node, Result, Source
from anydml.referee.operator_rules import Ambiguity, LeftOut, Operator, Reading, Rule, always, axis_twice, has

HALF = Fraction(1, 2)
ROUNDINGS: dict[str, Callable[[Any], int]] = {
    "round_prefer_floor": lambda x: math.ceil(x - HALF),
    "round_prefer_ceil": lambda x: math.floor(x + HALF),
    "floor": math.floor,
    "ceil": math.ceil,
}
MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")
SCALES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 0.3, 1.7)


def modes(opset: int) -> list[str]:
    """The transformations that the text of an opset has."""
    more = ["tf_half_pixel_for_nn"] if opset < 13 else ["half_pixel_symmetric"] if opset >= 19 else []
    return [*MODES, *more]


def _draw_resize(draw: Draw) -> Node:
    # A long axis, now and then: roundings meet halves there.
    shape = (draw.randint(8, 29),) if draw.is_likely(0.2) else draw.sizes(draw.choice([1, 2, 2, 3, 4]), min_size=1)
    # No NaN, infinity or −0: the text has a weighted average, which is not the same for these.
    x = draw.data(draw.dtype("X"), shape, is_special=False)
    # The text does not define the elements outside of strings.
    mode = draw.choice([mode for mode in modes(draw.opset) if not x.dtype.hasobject or mode != "tf_crop_and_resize"])
    attributes: dict[str, Any] = {"mode": "nearest", "coordinate_transformation_mode": mode}
    attributes["nearest_mode"] = draw.choice([*ROUNDINGS])
    if draw.is_likely(0.2):
        del attributes["mode"]
    if mode == "half_pixel" and draw.is_likely(0.3):
        del attributes["coordinate_transformation_mode"]
    if attributes["nearest_mode"] == "round_prefer_floor" and draw.is_likely(0.3):
        del attributes["nearest_mode"]
    axes = [*range(x.ndim)]
    if draw.opset >= 18 and draw.is_likely(0.4):
        axes = draw.subset(axes, 1)
        attributes["axes"] = [draw.signed(axis, x.ndim) for axis in axes]
    roi: Array | None = None if draw.opset >= 13 else np.zeros(0, np.float32)
    if mode == "tf_crop_and_resize":
        ends = [[draw.choice([0, 0.25, 0.5, -0.25]) for _ in axes], [draw.choice([1, 0.75, 1.25]) for _ in axes]]
        roi = np.array([*ends[0], *ends[1]], draw.dtype("roi"))
        if x.dtype.kind == "f" and draw.is_likely(0.5):
            attributes["extrapolation_value"] = 2.5
    if draw.is_likely(0.5):
        scales = np.array([draw.choice(SCALES) for _ in axes], np.float32)
        inputs: list[Array | None] = [x, roi, scales]
    else:
        if draw.opset >= 18 and draw.is_likely(0.4):
            attributes["keep_aspect_ratio_policy"] = draw.choice(["stretch", "not_larger", "not_smaller"])
        none = None if draw.opset >= 13 else np.zeros(0, np.float32)
        inputs = [x, roi, none, draw.integers([draw.choice([x.shape[axis], draw.randint(1, 7), 1]) for axis in axes])]
    return Node("Resize", draw.opset, tuple(inputs), attributes)


class Axis:
    """One axis that is resized: its length, the scale and the length of the result, and the region of interest."""

    def __init__(
        self, length: int, scale: Fraction, target: Fraction, count: int, roi: tuple[Fraction, Fraction]
    ) -> None:
        self.length, self.scale, self.target, self.count, self.roi = length, scale, target, count, roi
        # `length_resized` of align_corners, and of the modes that ask whether it is more than 1.
        self.corners, self.resized = target, Fraction(count)

    def original(self, mode: str, y: int, kind: Callable[[Any], Any] = Fraction) -> Any:
        """`x_original` of a coordinate of the result.

        Args:
            mode: the transformation.
            y: the coordinate.
            kind: the numbers that are computed with.
        """
        half, at, scale, target = kind(0.5), kind(y), kind(self.scale), kind(self.target)
        if mode == "half_pixel":
            return (at + half) / scale - half
        if mode == "half_pixel_symmetric":
            adjustment = self.count / target
            center = kind(self.length) / 2
            return center * (1 - adjustment) + (at + half) / scale - half
        if mode == "pytorch_half_pixel":
            return (at + half) / scale - half if self.resized > 1 else 0
        if mode == "asymmetric":
            return at / scale
        if mode == "tf_half_pixel_for_nn":
            return (at + half) / scale
        last, start, end = self.length - 1, kind(self.roi[0]), kind(self.roi[1])
        if mode == "align_corners":
            corners = kind(self.corners)
            return at * last / (corners - 1) if corners != 1 else 0
        if self.resized > 1:
            return start * last + at * (end - start) * last / (kind(self.resized) - 1)
        return half * (start + end) * last


def axes_of(node: Node) -> dict[int, Axis]:
    """The axes that are resized."""
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


def resize_axes(node: Node, axes: dict[int, Axis], kind: Callable[[Any], Any] = Fraction) -> list[Result]:
    """The result of axes.

    Args:
        node: the node.
        axes: the axes that are resized.
        kind: the numbers that `x_original` is computed with.
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
        one = axes[axis]
        line: list[int | None] = []
        for y in range(one.count):
            at = (
                Fraction(float(original))
                if not isinstance(original := one.original(mode, y, kind), Fraction)
                else original
            )
            is_outside = mode == "tf_crop_and_resize" and not 0 <= at <= length - 1
            line.append(None if is_outside else min(max(rounding(at), 0), length - 1))
        lines.append(line)

    def source(at: Coordinate) -> Source:
        there = []
        for c, line in zip(at, lines, strict=True):
            original = line[c]
            if original is None:
                return fill
            there.append(original)
        return 0, tuple(there)

    return [Result(tuple(map(len, lines)), x.dtype, source)]


def _resize(node: Node) -> list[Result]:
    return resize_axes(node, axes_of(node))


def by_length(axis: Axis) -> None:
    """As the text says of `scale`: length_resized / length_original, where the length of the result is whole."""
    axis.scale = Fraction(axis.count, axis.length) if axis.count else axis.scale
    axis.target = axis.scale * axis.length


def is_whole(axis: Axis) -> None:
    """Where `length_resized` is whole in every mode."""
    axis.corners = Fraction(axis.count)


def is_fraction(axis: Axis) -> None:
    """Where `length_resized` is scale · length in every mode."""
    axis.resized = axis.target


def shortened(axis: Axis) -> None:
    """Where the length of the result is floor(length · (end − start) · scale)."""
    axis.count = max(0, math.floor(axis.length * (axis.roi[1] - axis.roi[0]) * axis.scale))


def read_as(*changes: Callable[[Axis], None], kind: Callable[[Any], Any] = Fraction) -> Callable[[Node], list[Result]]:
    """The result by other readings.

    Args:
        changes: what each does to an axis.
        kind: the numbers that are computed with.
    """

    def results(node: Node) -> list[Result]:
        axes = axes_of(node)
        for change in changes:
            for axis in axes.values():
                change(axis)
        return resize_axes(node, axes, kind)

    return results


def single(value: Any) -> Any:
    """A number as FLOAT."""
    return np.float32(float(value))


def double(value: Any) -> Any:
    """A number as DOUBLE."""
    return np.float64(float(value))


def _is_cropped(node: Node) -> bool:
    """Whether a region may shorten a result by scales."""
    return node.attribute("coordinate_transformation_mode") == "tf_crop_and_resize" and node.optional(3) is None


def _is_rounded(node: Node) -> bool:
    """Whether the length of a result is rounded."""
    return any(axis.target != axis.count for axis in axes_of(node).values())


_KINDS: Mapping[str, Callable[[Any], Any]] = {"": Fraction, "rounded to FLOAT": single, "rounded to DOUBLE": double}
_WIDTHS = {"": (), "length_resized is whole": (is_whole,), "length_resized is scale · length": (is_fraction,)}
_SCALES = {"": (), "scale is length_resized / length_original": (by_length,)}
_TOGETHER = tuple(
    Reading("; ".join(said), read_as(*by_scale, *by_width, kind=kind))
    for (a, by_scale), (b, by_width), (c, kind) in itertools.product(_SCALES.items(), _WIDTHS.items(), _KINDS.items())
    if len(said := [word for word in (a, b, c) if word]) > 1
)
"""Several readings at once."""


def _is_outside(node: Node) -> bool:
    """Whether some elements come from outside of the input."""
    (result,) = _resize(node)
    return any(isinstance(result.source(at), Constant) for at in np.ndindex(*result.shape))


def _has_policy(node: Node, policy: str) -> bool:
    return node.optional(3) is not None and node.attribute("keep_aspect_ratio_policy") == f"not_{policy}"


RESIZE = Operator(
    "Resize",
    _draw_resize,
    _resize,
    (
        (
            _is_outside,
            (
                'When coordinate_transformation_mode is "tf_crop_and_resize" and x_original is outside the range '
                "[0, length_original - 1], this value is used as the corresponding output value.",
            ),
        ),
        *(
            (
                lambda node, policy=policy: _has_policy(node, policy),
                (f"the sizes are adjusted so that no extent of the output is {policy} than the specified size",),
            )
            for policy in ("larger", "smaller")
        ),
        *(
            (
                has("coordinate_transformation_mode", mode),
                (text,),
            )
            for mode, text in {
                "half_pixel": "x_original = (x_resized + 0.5) / scale - 0.5",
                "half_pixel_symmetric": "x_ori = offset + (x + 0.5) / scale - 0.5",
                "pytorch_half_pixel": "x_original = length_resized > 1 ? (x_resized + 0.5) / scale - 0.5 : 0",
                "align_corners": "x_original = x_resized * (length_original - 1) / (length_resized - 1)",
                "asymmetric": "x_original = x_resized / scale",
                "tf_half_pixel_for_nn": "x_original = (x_resized + 0.5) / scale",
                "tf_crop_and_resize": "x_original = length_resized > 1 ? start_x * (length_original - 1)",
            }.items()
        ),
        (always, ("Resize the input tensor.",)),
    ),
    (
        Rule(
            "scales and sizes",
            ("One of 'scales' and 'sizes' MUST be specified and it is an error if both are specified.",),
            lambda node: (
                sum(value is not None and value.size > 0 for value in (node.optional(2), node.optional(3))) == 1
            ),
            lambda node, draw: node._replace(
                inputs=(*node.inputs[:2], np.ones(node.array(0).ndim, np.float32), draw.integers(node.array(0).shape)),
                attributes={k: v for k, v in node.attributes.items() if k != "axes"},
            ),
        ),
    ),
    (
        Ambiguity(
            "`scale` is length_resized / length_original, and length_resized may be rounded down",
            _is_rounded,
            (
                Reading("the scale that is given", _resize),
                Reading("the length of the result by that of the input", read_as(by_length)),
            ),
        ),
        Ambiguity(
            "whether length_resized is rounded down",
            _is_rounded,
            (
                Reading("not in align_corners, as in ONNX's own test data, but where it is compared with 1", _resize),
                Reading("always", read_as(is_whole)),
                Reading("never", read_as(is_fraction)),
            ),
        ),
        Ambiguity(
            "how far x_original is rounded before it is compared with halves",
            None,
            (
                Reading("not at all", _resize),
                Reading("to FLOAT after each operation", read_as(kind=single)),
                Reading("to DOUBLE after each operation", read_as(kind=double)),
            ),
        ),
        Ambiguity(
            "whether the region of tf_crop_and_resize shortens a result by scales",
            _is_cropped,
            (
                Reading("floor(length · scale), as onnx's shape inference", _resize),
                Reading("floor(length · (end − start) · scale), as the text", read_as(shortened)),
            ),
        ),
        Ambiguity(
            "several of these questions at once",
            _is_rounded,
            (Reading("the first reading of each", _resize), *_TOGETHER),
        ),
    ),
    typed_by="X",
    left_out=(
        LeftOut("linear and cubic, which compute", lambda node: node.attribute("mode") != "nearest"),
        LeftOut("inputs that are empty, and sizes of 0", lambda node: not node.array(0).size or 0 in node.integers(3)),
        axis_twice(lambda node: node.attributes.get("axes", ())),
    ),
)

OPERATORS = (RESIZE,)
