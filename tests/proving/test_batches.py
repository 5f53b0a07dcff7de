"""Batches of any size: what is moved in each place alike is proved for all sizes; what mixes places is not."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import parser

from anydml.proving import prove

HEADER = '<ir_version: 9, opset_import: ["": 18]> g (float[N,4,4] x) => (float[A,B,C] y) '
CONSTANTS = """<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] end = {9}, int64[1] last = {-1},
    int64[16] rolled = {6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13, 2, 3, 0, 1}, int64[3] flat = {0, 16, 1},
    int64[3] back = {0, 4, 4}, int64[3] inner = {4, -1, 4}, int64[3] outer = {-1, 4, 4}, int64[2] both = {1, 2}> """
BODIES = {
    "x": "y = Identity(x)",
    "rolled by slices": """a = Slice(x, one, end, one)  b = Slice(x, zero, one, one)  p = Concat<axis=1>(a, b)
        c = Slice(p, two, end, two)  d = Slice(p, zero, two, two)  y = Concat<axis=2>(c, d)""",
    "rolled by indices": """p = Reshape(x, flat)  q = Gather<axis=1>(p, rolled)  y = Reshape(q, back)""",
    "rolled otherwise": """a = Slice(x, two, end, one)  b = Slice(x, zero, two, one)  p = Concat<axis=1>(a, b)
        c = Slice(p, two, end, two)  d = Slice(p, zero, two, two)  y = Concat<axis=2>(c, d)""",
    "batch inside": "p = Transpose<perm=[1,0,2]>(x)  y = Reshape(p, outer)",
    "batch inside, split": "y = Reshape(x, inner)",
    "batch inside, moved": "y = Transpose<perm=[1,0,2]>(x)",
    "batch backwards": "y = Slice(x, last, least, zero, last)",
    "first place": "p = Slice(x, zero, one, zero)  y = Expand(p, shape)",
    "sums of the batch": "p = ReduceSum(x, zero)  y = Add(p, x)",
    "sums of rows": "p = ReduceSum(x, one)  y = Add(p, x)",
    "sums of rows, by slices": """a = Slice(x, one, end, one)  b = Slice(x, zero, one, one)  p = Concat<axis=1>(a, b)
        s = ReduceSum(p, one)  y = Add(x, s)""",
    "normalized": "y = Softmax<axis=0>(x)",
    "normalized, moved": "p = Transpose<perm=[1,0,2]>(x)  q = Softmax<axis=1>(p)  y = Transpose<perm=[1,0,2]>(q)",
    "normalized in rows": "y = Softmax<axis=1>(x)",
}
GIVEN = {
    name: f"{HEADER}{CONSTANTS} {{ least = Constant<value_ints=[-99]>() shape = Shape(x) {body} }}"
    for name, body in BODIES.items()
}
MODELS = {name: parser.parse_model(text) for name, text in GIVEN.items()}


def results(model):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    found = []
    for n in (1, 2, 3, 5):
        x = random.standard_normal((n, 4, 4)).astype(np.float32)
        found.append(session.run(None, {"x": x})[0])
    return found


@pytest.fixture(scope="module")
def outputs():
    return {name: results(model) for name, model in MODELS.items()}


@pytest.mark.parametrize("first", BODIES)
def test_what_is_proved_is_the_same(first, outputs):
    for second in BODIES:
        proof = prove(MODELS[first], MODELS[second], runs=False)
        pairs = zip(outputs[first], outputs[second], strict=True)
        if proof.verdict == "proved" and not proof.samples:
            assert all(a.shape == b.shape and np.allclose(a, b, atol=1e-6) for a, b in pairs), second
        elif proof.verdict == "different":
            assert any(a.shape != b.shape for a, b in pairs)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("rolled by slices", "rolled by indices"),
        ("rolled by indices", "rolled by slices"),
        ("sums of rows", "sums of rows, by slices"),
        ("normalized", "normalized, moved"),
    ],
)
def test_movement_within_a_batch_is_proved(first, second):
    proof = prove(MODELS[first], MODELS[second], runs=False)
    assert (proof.verdict, proof.samples, proof.names) == ("proved", [], ["N"])


CONVOLVED = """<ir_version: 9, opset_import: ["": 18]> g (float[N,1,H] x) => (float[A,B,C] y, int64[1] k)
    <float[1,1,8] w = {1, 2, 3, 4, 5, 6, 7, 8}, int64 eight = {8}, int64[1] one = {1}> {
    p = Conv<strides=[8]>(x, w)  n = Shape<start=2, end=3>(x)  COUNT  y = Relu(DATA) }"""
COUNTS = "m = Sub(n, eight)  q = Div(m, eight)  k = Add(q, one)", "k = Div(n, eight)"
"""The same from 8 on; below, the first quotient is rounded up, to 0."""


@pytest.mark.parametrize(("data", "is_proved"), [("p", True), ("x", False)])
def test_a_convolution_tells_that_images_are_as_large_as_its_kernel(data, is_proved):
    """If an output needs it: if none does, runtimes leave it out."""
    texts = [CONVOLVED.replace("DATA", data).replace("COUNT", each) for each in COUNTS]
    proof = prove(*map(parser.parse_model, texts), runs=False)
    assert (proof.verdict == "proved" and not proof.samples) == is_proved
