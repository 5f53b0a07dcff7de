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
