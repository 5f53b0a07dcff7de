from __future__ import annotations

import numpy as np
import pytest
from onnx import parser
from onnx.inliner import inline_local_functions
from onnx.reference import ReferenceEvaluator

from anydml import DescError
from anydml.onnx import reference_ops


def evaluate(body, **feeds):
    text = f'<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1, "my": 1]> {body}'
    return ReferenceEvaluator(parser.parse_model(text), new_ops=reference_ops).run(None, feeds)


SPLIT = (
    "g (float[N, K] x, int64[S] s) => (float[A, B] a, float[C, D] b) { a, b = com.microsoft.SplitTraining %s (x, s) }"
)
X = np.arange(12, dtype="f").reshape(4, 3)


def test_sizes_are_data():
    a, b = evaluate(SPLIT % "", x=X, s=np.array([3, 1]))
    assert np.array_equal(a, X[:3])
    assert np.array_equal(b, X[3:])


def test_an_empty_split_makes_equal_parts():
    a, b = evaluate(SPLIT % "<axis = -2>", x=X, s=np.zeros(0, np.int64))
    assert np.array_equal(a, X[:2])
    assert np.array_equal(b, X[2:])
    with pytest.raises(DescError, match="does not divide into 2 equal parts"):
        evaluate(SPLIT % "<axis = 1>", x=X, s=np.zeros(0, np.int64))


def test_concat_with_and_without_lengths():
    body = (
        "g (float[N, K] x) => (float[M, K] y, int64[L] n) { y, n = com.microsoft.ConcatTraining <axis = 0> (x, x, x) }"
    )
    y, n = evaluate(body, x=X)
    assert np.array_equal(y, np.concatenate([X] * 3))
    assert (n.dtype, n.tolist()) == (np.int64, [4, 4, 4])
    (y,) = evaluate("g (float[N] x) => (float[M] y) { y = com.microsoft.ConcatTraining <axis = 0> (x, x) }", x=X[0])
    assert y.tolist() == [*X[0], *X[0]]


def test_inside_functions_that_are_inlined():
    """onnx's evaluator does not hand `new_ops` on to a model's functions."""
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1, "my": 1]>
    g (float[N, K] x) => (float[M, K] y) { y = my.Twice <along = 1> (x) }
    <domain: "my", opset_import: ["com.microsoft": 1]>
    Twice <along> (v) => (r) { r, n = com.microsoft.ConcatTraining <axis: int = @along> (v, v) }""")
    evaluator = ReferenceEvaluator(inline_local_functions(model), new_ops=reference_ops)
    assert np.array_equal(evaluator.run(None, {"x": X})[0], np.concatenate([X, X], 1))
