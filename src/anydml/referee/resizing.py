"""Resize by nearest neighbour: its cases, and the questions that its text leaves open."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Array, Constant, Node, Result
from anydml.referee.operator_rules import Ambiguity, LeftOut, Operator, Reading, Rule, axis_twice, has, is_any_node
from anydml.referee.resized_axes import ROUNDINGS, Axis, axes_of, resize_axes

MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")
SCALES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 0.3, 1.7)


def modes(opset: int) -> list[str]:
    """Return the transformations that the text of an opset has."""
    extra = ["tf_half_pixel_for_nn"] if opset < 13 else ["half_pixel_symmetric"] if opset >= 19 else []
    return [*MODES, *extra]


def _draw_resize(draw: Draw) -> Node:
    # Sometimes a long axis, where roundings meet halves.
    shape = (draw.randint(8, 29),) if draw.is_likely(0.2) else draw.sizes(draw.choice([1, 2, 2, 3, 4]), min_size=1)
    # No NaN, infinity or −0: by the text, elements are weighted averages, which are not copies of such values.
    x = draw.data(draw.dtype("X"), shape, is_special=False)
    # The text does not define strings outside the input.
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


def _resize(node: Node) -> list[Result]:
    return resize_axes(node, axes_of(node))


def set_scale_from_length(axis: Axis) -> None:
    """Set the scale to length_resized / length_original, by the text of `scale`, in integers."""
    axis.scale = Fraction(axis.count, axis.length) if axis.count else axis.scale
    axis.target = axis.scale * axis.length


def read_length_as_integer(axis: Axis) -> None:
    """Read `length_resized` as an integer in every mode."""
    axis.corners = Fraction(axis.count)


def read_length_as_fraction(axis: Axis) -> None:
    """Read `length_resized` as scale · length in every mode."""
    axis.resized = axis.target


def set_count_from_scale(axis: Axis) -> None:
    """Read the length of the result as floor(length · (end − start) · scale)."""
    axis.count = max(0, math.floor(axis.length * (axis.roi[1] - axis.roi[0]) * axis.scale))


def read_as(
    *changes: Callable[[Axis], None], number_class: Callable[[Any], Any] = Fraction
) -> Callable[[Node], list[Result]]:
    """Return the function that computes results by other readings of the text.

    Args:
        changes: the change of an axis by each reading.
        number_class: the type of numbers for the computation.
    """

    def results(node: Node) -> list[Result]:
        axes = axes_of(node)
        for change in changes:
            for axis in axes.values():
                change(axis)
        return resize_axes(node, axes, number_class)

    return results


def as_float32(value: Any) -> Any:
    """Return a number as FLOAT."""
    return np.float32(float(value))


def as_float64(value: Any) -> Any:
    """Return a number as DOUBLE."""
    return np.float64(float(value))


def _is_cropped(node: Node) -> bool:
    """Whether a region may shorten a result by scales."""
    return node.attribute("coordinate_transformation_mode") == "tf_crop_and_resize" and node.optional(3) is None


def _is_rounded(node: Node) -> bool:
    """Whether the length of a result is rounded."""
    return any(axis.target != axis.count for axis in axes_of(node).values())


_KINDS: Mapping[str, Callable[[Any], Any]] = {
    "": Fraction,
    "rounded to FLOAT": as_float32,
    "rounded to DOUBLE": as_float64,
}
_WIDTHS = {
    "": (),
    "length_resized is whole": (read_length_as_integer,),
    "length_resized is scale · length": (read_length_as_fraction,),
}
_SCALES = {"": (), "scale is length_resized / length_original": (set_scale_from_length,)}
_TOGETHER = tuple(
    Reading("; ".join(chosen_words), read_as(*by_scale, *by_width, number_class=kind))
    for (a, by_scale), (b, by_width), (c, kind) in itertools.product(_SCALES.items(), _WIDTHS.items(), _KINDS.items())
    if len(chosen_words := [word for word in (a, b, c) if word]) > 1
)
"""Several readings at once."""


def _is_outside(node: Node) -> bool:
    """Whether some elements come from outside the input."""
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
        (is_any_node, ("Resize the input tensor.",)),
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
                Reading("the length of the result by that of the input", read_as(set_scale_from_length)),
            ),
        ),
        Ambiguity(
            "whether length_resized is rounded down",
            _is_rounded,
            (
                Reading("not in align_corners, as in ONNX's own test data, but where it is compared with 1", _resize),
                Reading("always", read_as(read_length_as_integer)),
                Reading("never", read_as(read_length_as_fraction)),
            ),
        ),
        Ambiguity(
            "how far x_original is rounded before it is compared with halves",
            None,
            (
                Reading("not at all", _resize),
                Reading("to FLOAT after each operation", read_as(number_class=as_float32)),
                Reading("to DOUBLE after each operation", read_as(number_class=as_float64)),
            ),
        ),
        Ambiguity(
            "whether the region of tf_crop_and_resize shortens a result by scales",
            _is_cropped,
            (
                Reading("floor(length · scale), as onnx's shape inference", _resize),
                Reading("floor(length · (end − start) · scale), as the text", read_as(set_count_from_scale)),
            ),
        ),
        Ambiguity(
            "several of these questions at once",
            _is_rounded,
            (Reading("the first reading of each", _resize), *_TOGETHER),
        ),
    ),
    left_out=(
        LeftOut("linear and cubic, which compute", lambda node: node.attribute("mode") != "nearest"),
        LeftOut("inputs that are empty, and sizes of 0", lambda node: not node.array(0).size or 0 in node.integers(3)),
        axis_twice(lambda node: node.attributes.get("axes", ())),
    ),
)

OPERATORS = (RESIZE,)
