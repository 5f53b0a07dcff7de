"""Indices of floating-point types, which ONNX's OneHot may have and no engine reads, are said and not drawn."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import anydml as dml


def test_a_one_hot_of_floats_is_said():
    node = helper.make_node("OneHot", ["x", "depth", "values"], ["y"], name="n")
    constants = [numpy_helper.from_array(np.array([3]), "depth"), numpy_helper.from_array(np.array([0, 1]), "values")]
    for kind, drawn in ((TensorProto.FLOAT16, 0), (TensorProto.FLOAT, 0), (TensorProto.INT64, 1)):
        graph = helper.make_graph(
            [node],
            "g",
            [helper.make_tensor_value_info("x", kind, [2])],
            [helper.make_tensor_value_info("y", TensorProto.INT64, [2, 3])],
            constants,
        )
        explanation = dml.explain(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)]))
        assert len(explanation.sections) == drawn
        assert drawn or any("IndicesTensor" in note and "FLOAT" in note for note in explanation.notes)
