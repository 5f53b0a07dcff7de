"""Resize and Upsample by nearest neighbour: every coordinate mode, rounding and small size, against exact fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from anydml.onnx import backend

from .exact_resize import MODES, ROUNDINGS, neighbours, resized
from .random_nodes import model_of

LENGTHS, COUNTS = range(1, 10), range(1, 13)
SCALES = [float(np.float32(n)) for n in (0.1, 0.5, 0.6, 0.7, 1, 1.5, 2, 2.5, 3.3, 1 / 3, 1e-3, 40)]
REGIONS = [(0.0, 1.0), (0.25, 0.75), (-0.25, 1.5), (1.0, 0.0), (float(np.float32(0.1)), float(np.float32(0.7)))]


class Nodes:
    """A model of many nodes that all read `x`, of one axis."""

    def __init__(self, length, opset):
        self.length, self.opset = length, opset
        self.nodes, self.constants, self.expected = [], [], []
        self.empty = self.constant(np.zeros(0, np.float32))

    def constant(self, array):
        self.constants.append(numpy_helper.from_array(array, f"c{len(self.constants)}"))
        return self.constants[-1].name

    def add(self, expected, roi=None, scale=None, size=None, **attributes):
        given = [
            self.empty if roi is None else self.constant(np.array(roi, np.float32)),
            self.empty if scale is None else self.constant(np.array([scale], np.float32)),
            "" if size is None else self.constant(np.array([size])),
        ]
        name = f"y{len(self.nodes)}"
        inputs = ["x", *given] if size is not None else ["x", *given[:2]]
        self.nodes.append(helper.make_node("Resize", inputs, [name], mode="nearest", **attributes))
        self.expected.append(((roi, scale, size, attributes), [-1 if each is None else each for each in expected]))

    def compare(self):
        values = [helper.make_tensor_value_info(node.output[0], TensorProto.INT32, None) for node in self.nodes]
        x = helper.make_tensor_value_info("x", TensorProto.INT32, [self.length])
        graph = helper.make_graph(self.nodes, "g", [x], values, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        results = backend.run_model(model, {"x": np.arange(self.length, dtype=np.int32)})
        for (case, expected), result in zip(self.expected, results, strict=True):
            assert result.tolist() == expected, (self.length, case)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("mode", MODES)
def test_every_small_size_reads_what_exact_fractions_say(mode, length):
    nodes = Nodes(length, 11 if mode == "tf_half_pixel_for_nn" else 19)
    regions = REGIONS if mode == "tf_crop_and_resize" else REGIONS[:1]
    for rounding, region in itertools.product(ROUNDINGS, regions):
        attributes = {"coordinate_transformation_mode": mode, "nearest_mode": rounding}
        if mode == "tf_crop_and_resize":
            attributes |= {"roi": region, "extrapolation_value": -1.0}
        for size in COUNTS:
            expected = neighbours(mode, rounding, length, Fraction(size, length), size, region)
            nodes.add(expected, size=size, **attributes)
        for scale in SCALES:
            size = math.floor(length * Fraction(scale))
            expected = neighbours(mode, rounding, length, Fraction(scale), size, region)
            nodes.add(expected, scale=scale, **attributes)
    nodes.compare()


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
@pytest.mark.parametrize("mode", ["half_pixel_symmetric", "align_corners", "asymmetric"])
def test_kept_ratios_are_exact(mode, policy):
    for height, width, h, w in itertools.product((3, 7), (2, 5), (2, 11), (1, 9)):
        x, sizes = np.arange(height * width, dtype=np.float32).reshape(height, width), np.array([w, h])
        for rounding in ROUNDINGS:
            attributes = {
                "coordinate_transformation_mode": mode, "nearest_mode": rounding, "axes": [1, 0],
                "keep_aspect_ratio_policy": policy, "mode": "nearest",
            }  # fmt: skip
            model, feeds = model_of("Resize", [x, None, None, sizes], attributes, 19)
            expected = resized([x, None, None, sizes], attributes, 19)
            np.testing.assert_array_equal(backend.run_model(model, feeds)[0], expected)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("version", [7, 9])
def test_upsample_takes_the_element_before(scale, version):
    """Opset 9 takes scales as an input, opset 7 as an attribute."""
    for length in LENGTHS:
        if scale < 1:
            continue
        x, scales = np.arange(length, dtype=np.float32), np.array([scale], np.float32)
        arrays = [x, scales] if version == 9 else [x]
        attributes = {"mode": "nearest"} | ({"scales": [scale]} if version == 7 else {})
        (result,) = backend.run_model(*model_of("Upsample", arrays, attributes, version))
        np.testing.assert_array_equal(result, resized(arrays, attributes, version))


@pytest.mark.parametrize(
    ("length", "given", "mode", "rounding", "at", "element"),
    [
        (5, {"scale": 0.5}, "half_pixel_symmetric", "floor", 0, 1),
        (9, {"scale": 1 / 3}, "half_pixel_symmetric", "floor", 1, 4),
        (7, {"size": 29}, "align_corners", "floor", 28, 6),
        (7, {"size": 29}, "align_corners", "ceil", 28, 6),
    ],
)
def test_places_that_binary_fractions_do_not_hold(length, given, mode, rounding, at, element):
    scale = Fraction(given["size"], length) if "size" in given else Fraction(float(np.float32(given["scale"])))
    expected = neighbours(mode, rounding, length, scale, math.floor(scale * length))
    assert expected[at] == element
    nodes = Nodes(length, 19)
    nodes.add(expected, coordinate_transformation_mode=mode, nearest_mode=rounding, **given)
    nodes.compare()


def test_numerators_may_be_longer_than_64_bits():
    """A scale just below 1 and one near the smallest number."""
    nodes = Nodes(50, 19)
    for scale in (float(np.nextafter(np.float32(1), np.float32(0))), float(np.float32(1e-30)), float(np.float32(0.02))):
        for mode, rounding in itertools.product(MODES[:5], ROUNDINGS):
            count = math.floor(50 * Fraction(scale))
            expected = neighbours(mode, rounding, 50, Fraction(scale), count)
            nodes.add(expected, scale=scale, coordinate_transformation_mode=mode, nearest_mode=rounding)
    nodes.compare()
