"""Operators that put elements around a tensor: Pad, CenterCropPad."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Array, Constant, Coordinate, Node, Result, Source, zero
from anydml.referee.operator_rules import (
    AXIS_IN_RANGE,
    Ambiguity,
    LeftOut,
    Operator,
    Reading,
    Rule,
    axis_twice,
    has,
    input_between,
    is_any_node,
    zero_of_strings,
)
from anydml.referee.shaping import draw_elements


def _modes(opset: int) -> list[str]:
    return ["constant", "reflect", "edge", *(["wrap"] if opset >= 19 else [])]


def _draw_pad(draw: Draw) -> Node | None:
    x = draw_elements(draw)
    mode = draw.choice(["constant", *_modes(draw.opset)])
    is_cutting = draw.is_likely(0.3)
    is_far = draw.is_likely(0.2)
    pads: list[list[int]] = [[], []]
    for size in x.shape:
        limit = max(0, size - 1) if mode == "reflect" and not is_far else 0 if size == 0 and mode != "constant" else 4
        ends = [draw.choice([0, draw.randint(0, limit)]) for _ in range(2)]
        if is_cutting and draw.is_likely(0.5):
            ends[draw.randrange(2)] = -draw.randint(0, size)
        if sum(ends) + size < 0 or (mode != "constant" and min(ends) < 0 and size + sum(min(0, n) for n in ends) < 1):
            ends = [0, 0]
        for start, amount in zip(pads, ends, strict=True):
            start.append(amount)
    axes = [*range(x.ndim)]
    value: Array | None = None
    if mode == "constant" and draw.is_likely(0.6):
        value = draw.data(x.dtype, ())
    attributes = {"mode": mode} if mode != "constant" or draw.is_likely(0.7) else {}
    inputs: list[Array | None] = [x, draw.integers([*pads[0], *pads[1]])]
    if draw.opset >= 18 and draw.is_likely(0.4):
        axes = draw.subset(axes)
        inputs[1] = draw.integers([pads[end][axis] for end in range(2) for axis in axes])
        signed = [draw.signed(axis, x.ndim) for axis in axes]
        return Node("Pad", draw.opset, (*inputs, value, draw.integers(signed, draw.index_dtype("axes"))), attributes)
    return Node("Pad", draw.opset, (*inputs, *([] if value is None else [value])), attributes)


def _is_padded_by_none(node: Node) -> bool:
    """Whether elements would be repeated or mirrored along an axis that is empty, or is cropped to nothing."""
    if node.attribute("mode") == "constant":
        return False
    sizes = zip(node.array(0).shape, pads_of(node), strict=True)
    return any(size + min(a, 0) + min(b, 0) < 1 and max(a, b) > 0 for size, (a, b) in sizes)


def pads_of(node: Node) -> list[tuple[int, int]]:
    """Return the numbers of elements added before and after each axis."""
    x, amounts = node.array(0), node.integers(1)
    axes = node.integers(3) if node.optional(3) is not None else [*range(x.ndim)]
    pads = [(0, 0)] * x.ndim
    for k, axis in enumerate(axes):
        pads[axis] = amounts[k], amounts[len(axes) + k]
    return pads


def mirror_index(c: int, size: int) -> int:
    """Return the coordinate of an index in a vector that is mirrored repeatedly at its first and last elements."""
    if size == 1:
        return 0
    c %= 2 * size - 2
    return c if c < size else 2 * size - 2 - c


def continue_index(mode: str, c: int, size: int) -> int | None:
    """Return the coordinate of the element at an index inside or outside an axis; None for the constant."""
    if mode == "edge":
        return min(max(c, 0), size - 1)
    if mode == "reflect":
        return mirror_index(c, size)
    if mode == "wrap":
        return c % size
    return c if 0 <= c < size else None


def _pad(node: Node, is_cut_first: bool = True) -> list[Result]:
    x, pads, mode = node.array(0), pads_of(node), node.attribute("mode")
    value = node.optional(2)
    fill = zero(x.dtype) if value is None or mode != "constant" else None
    shape = tuple(size + before + after for size, (before, after) in zip(x.shape, pads, strict=True))

    def source(at: Coordinate) -> Source:
        coordinates = []
        for c, size, (before, after) in zip(at, x.shape, pads, strict=True):
            first = max(0, -before) if is_cut_first else 0
            cut_size = size - first - (max(0, -after) if is_cut_first else 0)
            coordinate = continue_index(mode, c - before - first, cut_size)
            if coordinate is None:
                return fill or (2, (0,) * node.array(2).ndim)
            coordinates.append(coordinate + first)
        return 0, tuple(coordinates)

    return [Result(shape, x.dtype, source)]


def _pad_with_nan(node: Node) -> list[Result]:
    (result,) = _pad(node)

    def source(at: Coordinate) -> Source:
        element = result.source(at)
        return Constant(np.array(np.nan, result.dtype)[()]) if isinstance(element, Constant) else element

    return [result._replace(source=source)]


def _has_no_zero(node: Node) -> bool:
    return node.array(0).dtype.name == "float8_e8m0fnu" and node.optional(2) is None


def _is_far(node: Node) -> bool:
    """Whether a reflection is longer than the axis that it mirrors."""
    cut = [size + min(0, a) + min(0, b) for size, (a, b) in zip(node.array(0).shape, pads_of(node), strict=True)]
    around = zip(cut, pads_of(node), strict=True)
    return node.attribute("mode") == "reflect" and any(max(ends) > 0 and max(ends) >= size for size, ends in around)


def _is_cutting(node: Node) -> bool:
    return any(min(ends) < 0 for ends in pads_of(node)) and node.attribute("mode") != "constant"


def _axis_bounds(node: Node) -> tuple[Array, Array]:
    rank = node.array(0).ndim
    return np.array(-rank), np.array(rank - 1)


PAD = Operator(
    "Pad",
    _draw_pad,
    _pad,
    (
        (
            has("mode", "reflect"),
            (
                "pads with the reflection of the vector mirrored on the first and last values of the "
                "vector along each axis",
            ),
        ),
        (has("mode", "edge"), ("pads with the edge values of array",)),
        (has("mode", "wrap"), ("wrap-around padding as if the data tensor forms a torus",)),
        (
            lambda node: any(min(ends) < 0 for ends in pads_of(node)),
            (
                "indicating the number of padding elements to add or remove (if negative) at the "
                "beginning and end of each "
                "axis",
            ),
        ),
        (is_any_node, ("pads with a given constant value as specified by `constant_value`",)),
    ),
    (
        input_between("axes", 3, _axis_bounds, AXIS_IN_RANGE),
        Rule(
            "length of pads",
            (
                "`pads` should be a 1D tensor of shape [2 * num_axes]",
                "`pads` should be a 1D tensor of shape [2 * input_rank]",
            ),
            lambda node: (
                len(node.integers(1)) == 2 * (node.array(0).ndim if node.optional(3) is None else len(node.integers(3)))
            ),
            lambda node, draw: node.with_input(1, draw.integers([*node.integers(1), 0])),
        ),
        Rule(
            "mode",
            ("Supported modes: `constant`(default), `reflect`, `edge`",),
            lambda node: node.attribute("mode") in _modes(node.opset),
            lambda node, draw: node._replace(attributes={"mode": "symmetric" if node.opset >= 19 else "wrap"}),
        ),
    ),
    (
        Ambiguity(
            "a reflection that is longer than the vector less one",
            _is_far,
            (
                Reading("mirrored again and again, as numpy.pad", _pad),
                Reading("there is nothing to mirror, so it is refused", None),
            ),
        ),
        Ambiguity(
            "whether an edge, a reflection or a torus is that of the tensor before or after negative pads are removed",
            _is_cutting,
            (
                Reading("removed first", _pad),
                Reading("removed last", lambda node: _pad(node, is_cut_first=False)),
                Reading("no such mode removes", None),
            ),
        ),
        Ambiguity(
            "which element is 0 in FLOAT8E8M0, which has no zero",
            _has_no_zero,
            (
                Reading("2⁻¹²⁷, all of whose bits are 0", _pad),
                Reading("NaN, as Cast rounds 0 to the nearest", _pad_with_nan),
                Reading("none, so it is refused", None),
            ),
        ),
    ),
    left_out=(
        LeftOut("an axis without elements that is padded by some", _is_padded_by_none),
        axis_twice(lambda node: node.integers(3)),
    ),
)


def _draw_crop(draw: Draw) -> Node:
    x = draw_elements(draw, parameter="input_data", min_rank=1)
    axes = [*range(x.ndim)]
    attributes: dict[str, Any] = {}
    if draw.is_likely(0.5):
        axes = draw.subset(axes, 1)
        attributes["axes"] = [draw.signed(axis, x.ndim) for axis in axes]
    new_sizes = [draw.choice([x.shape[axis], draw.randint(0, 7)]) for axis in axes]
    return Node("CenterCropPad", draw.opset, (x, draw.integers(new_sizes, draw.index_dtype("shape"))), attributes)


def _center_crop_pad(node: Node) -> list[Result]:
    x, new_sizes = node.array(0), node.integers(1)
    shape = list(x.shape)
    for axis, size in zip(node.attributes.get("axes", range(x.ndim)), new_sizes, strict=True):
        shape[axis] = size
    # Before the first element; negative if elements are cropped.
    before = [(new - old) // 2 if new > old else -((old - new) // 2) for old, new in zip(x.shape, shape, strict=True)]

    def source(at: Coordinate) -> Source:
        coordinates = tuple(c - first for c, first in zip(at, before, strict=True))
        is_inside = all(0 <= c < size for c, size in zip(coordinates, x.shape, strict=True))
        return (0, coordinates) if is_inside else zero(x.dtype)

    return [Result(tuple(shape), x.dtype, source)]


def _edges(node: Node) -> list[str]:
    axes, rank = node.attributes.get("axes", ()), node.array(0).ndim
    return [f"axes {end}" for end, axis in (("first", -rank), ("last", rank - 1)) if axis in axes]


def _wrong_axes(node: Node, draw: Draw) -> Node | None:
    axes = node.attributes.get("axes")
    rank = node.array(0).ndim
    return node._replace(attributes={"axes": [*axes[:-1], draw.choice([rank, -rank - 1])]}) if axes else None


CENTER_CROP_PAD = Operator(
    "CenterCropPad",
    _draw_crop,
    _center_crop_pad,
    (
        (
            lambda node: any(a > b for a, b in zip(node.array(0).shape, _center_crop_pad(node)[0].shape, strict=True)),
            ("The starting value for the cropping window is rounded down",),
        ),
        (is_any_node, ("the input will be padded equally on both sides to center it in the output",)),
    ),
    (
        Rule(
            "axes",
            AXIS_IN_RANGE,
            lambda node: all(
                -node.array(0).ndim <= axis < node.array(0).ndim for axis in node.attributes.get("axes", ())
            ),
            _wrong_axes,
            _edges,
        ),
    ),
    (zero_of_strings(_center_crop_pad),),
    left_out=(axis_twice(lambda node: node.attributes.get("axes", ())),),
)

OPERATORS = (PAD, CENTER_CROP_PAD)
