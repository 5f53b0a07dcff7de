"""Images that are resized to their own size: what is proved to be the image is what ONNX Runtime makes of it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from anydml.proving import prove
from anydml.proving.running import run

ATTRIBUTES = [
    {},
    {"antialias": 1},
    {"exclude_outside": 1},
    {"antialias": 1, "exclude_outside": 1},
    {"coordinate_transformation_mode": "align_corners"},
    {"coordinate_transformation_mode": "tf_crop_and_resize"},
    {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "ceil"},
    {"keep_aspect_ratio_policy": "not_larger"},
    {"nearest_mode": "nearest"},
    {"coordinate_transformation_mode": "own"},
]


def model(node, rank):
    image = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2] * rank) for name in "xy"]
    numbers = {"scales": np.ones(rank, np.float32), "sizes": np.full(rank, 2)}
    constants = [numpy_helper.from_array(array, name) for name, array in numbers.items() if name in node.input]
    graph = helper.make_graph([node], "g", image[:1], image[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_what_is_proved_is_run(mode):
    proved = 0
    for rank, attributes, size in product(range(1, 7), ATTRIBUTES, ("scales", "sizes")):
        given = ["x", "", "scales", ""] if size == "scales" else ["x", "", "", "sizes"]
        resized = model(helper.make_node("Resize", given, ["y"], mode=mode, **attributes), rank)
        found = prove(model(helper.make_node("Identity", ["x"], ["y"]), rank), resized, runs=False)
        if found.verdict == "undecided":
            continue
        proved += 1
        image = np.arange(2.0**rank, dtype=np.float32).reshape([2] * rank)
        np.testing.assert_array_equal(run(resized, {"x": image})[0], image)
    assert proved >= 8


SPECIAL = {"numbers": [], "-0": [-0.0], "infinity": [np.inf], "NaN": [np.nan], "the largest number": [3e38]}


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_constant_images_stay_bit_for_bit(mode, kind):
    proved = 0
    image = np.random.default_rng(1).standard_normal((1, 2, 3, 4)).astype(np.float32)
    image[0, 1, 1, : len(SPECIAL[kind])] = SPECIAL[kind]
    for coordinates in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"):
        for coefficient in (-0.75, -0.5, -0.3) if mode == "cubic" else (-0.75,):
            attributes = {"coordinate_transformation_mode": coordinates, "cubic_coeff_a": coefficient}
            node = helper.make_node("Resize", ["c", "", "", "sizes"], ["r"], mode=mode, **attributes)
            models = []
            for nodes in ([node, helper.make_node("Add", ["x", "r"], ["y"])], [helper.make_node("Add", "xc", "y")]):
                values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 2, 3, 4]) for name in "xy"]
                constants = [
                    numpy_helper.from_array(image, "c"),
                    numpy_helper.from_array(np.array(image.shape), "sizes"),
                ]
                graph = helper.make_graph(nodes, "g", values[:1], values[1:], constants)
                opsets = [helper.make_opsetid("", 19)]
                models.append(helper.make_model(graph, opset_imports=opsets, ir_version=9))
            if prove(*models, runs=False).verdict != "proved":
                continue
            proved += 1
            given = {"x": np.zeros((1, 2, 3, 4), np.float32)}
            assert run(models[0], given)[0].tobytes() == run(models[1], given)[0].tobytes()
    assert proved == (0 if kind in ("-0", "infinity", "NaN") else 8 if mode == "cubic" else 4)
