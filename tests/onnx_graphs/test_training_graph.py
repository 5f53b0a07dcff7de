"""A training graph that a stock ONNX Runtime refuses, runs after `make_portable`, and computes the same everywhere."""

from __future__ import annotations

import numpy as np
import onnx.checker
import onnxruntime
import pytest
from onnx import parser
from onnx.reference import ReferenceEvaluator

from anydml import ModelError
from anydml.onnx import backend, make_portable, reference_ops

onnxruntime.set_default_logger_severity(4)

TRAINING = """<ir_version: 8, opset_import: ["": 15, "com.microsoft": 1]>
g (float[N, K] a, float[M, K] b, float[K, P] w) => (float[N, P] y0, float[M, P] y1) {
    joined, lengths = com.microsoft.ConcatTraining <axis = 0> (a, b)
    product = MatMul (joined, w)
    y0, y1 = com.microsoft.SplitTraining <axis = 0> (product, lengths)
}"""

OURS_ALONE = TRAINING.replace("product = MatMul (joined, w)", "product = Identity (joined)")
"""Without the MatMul, which anydml does not have."""

SIZES = [(3, 5, 4, 2), (1, 1, 1, 1), (0, 2, 3, 3), (7, 0, 2, 5), (64, 33, 16, 8)]


def feeds(n, m, k, p):
    rng = np.random.default_rng(n * 100 + m)
    return {name: rng.standard_normal(s, np.float32) for name, s in (("a", (n, k)), ("b", (m, k)), ("w", (k, p)))}


def session(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def test_stock_onnx_runtime_refuses_it():
    with pytest.raises(Exception, match=r"com\.microsoft:ConcatTraining\(-1\) is not a registered function/op"):
        session(parser.parse_model(TRAINING))
    alone = parser.parse_model("""<ir_version: 8, opset_import: ["": 15, "com.microsoft": 1]>
        g (float[N] x, int64[2] s) => (float[A] a, float[B] b) { a, b = com.microsoft.SplitTraining (x, s) }""")
    with pytest.raises(Exception, match=r"com\.microsoft:SplitTraining\(-1\) is not a registered function/op"):
        session(alone)


def test_it_runs_after_make_portable_and_equals_the_reference():
    model = parser.parse_model(TRAINING)
    portable = make_portable(model)
    onnx.checker.check_model(portable, full_check=True)
    assert [entry.domain for entry in portable.opset_import] == [""]
    stock = session(portable)
    reference = ReferenceEvaluator(model, new_ops=reference_ops)
    portable_reference = ReferenceEvaluator(portable)
    for sizes in SIZES:
        arrays = feeds(*sizes)
        expected = [arrays["a"] @ arrays["w"], arrays["b"] @ arrays["w"]]
        for run in (stock, reference, portable_reference):
            results = run.run(None, arrays)
            for result, wanted in zip(results, expected, strict=True):
                assert result.shape == wanted.shape
                np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_the_backend_names_the_node_that_it_does_not_have():
    with pytest.raises(ModelError, match=r"\(MatMul\): not supported: anydml has the operators"):
        backend.prepare(parser.parse_model(TRAINING))


@pytest.mark.parametrize("sizes", SIZES)
def test_our_backend_equals_both_where_numpy_multiplies(sizes):
    """The backend has no MatMul, so it runs the other nodes one by one."""
    model, given = parser.parse_model(TRAINING), feeds(*sizes)
    values = dict(given)
    for node in model.graph.node:
        inputs = [values[name] for name in node.input]
        results = [inputs[0] @ inputs[1]] if node.op_type == "MatMul" else backend.run_node(node, inputs)
        values.update(zip(node.output, results, strict=True))
    assert values["lengths"].tolist() == [sizes[0], sizes[1]]
    reference = ReferenceEvaluator(model, new_ops=reference_ops).run(None, given)
    for ours, other, stock in zip(("y0", "y1"), reference, session(make_portable(model)).run(None, given), strict=True):
        assert np.array_equal(values[ours], other)
        np.testing.assert_allclose(values[ours], stock, rtol=1e-5, atol=1e-6)


def test_our_part_of_it_is_equal_everywhere():
    model = parser.parse_model(OURS_ALONE)
    portable = make_portable(model)
    runs = [
        lambda given: session(portable).run(None, given),
        lambda given: ReferenceEvaluator(model, new_ops=reference_ops).run(None, given),
        lambda given: backend.run_model(model, given),
    ]
    for sizes in SIZES:
        given = feeds(*sizes)
        for run in runs:
            y0, y1 = run(given)
            assert np.array_equal(y0, given["a"])
            assert np.array_equal(y1, given["b"])
