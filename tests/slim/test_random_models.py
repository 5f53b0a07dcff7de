"""Random movement: the slimmed model gives what the model gave, on ONNX Runtime, and its movement is never dearer."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from how_many import how_many
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slim.random_movement import drawn

from anydml.slim import slim

SETTINGS = settings(
    max_examples=how_many(40), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def run(model, inputs):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


@pytest.mark.parametrize("is_open", [False, True], ids=["known sizes", "a size with a name"])
def test_results_are_the_same(is_open):
    changed = []

    @SETTINGS
    @given(st.data())
    def check(data):
        model, inputs = drawn(lambda first, last: data.draw(st.integers(first, last)), is_open)
        slimmed = slim(model)
        onnx.checker.check_model(slimmed.model, full_check=True)
        assert not any(region.after > region.before for region in slimmed.regions)
        for expected, found in zip(run(model, inputs), run(slimmed.model, inputs), strict=True):
            np.testing.assert_array_equal(found, expected)
        changed.append(bool(slimmed.changed))

    check()
    assert sum(changed) > len(changed) // 4, "few models had anything to slim: too little is tried"
