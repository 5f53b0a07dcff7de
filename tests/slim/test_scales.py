"""Factors and biases of channels that are merged into weights, if asked for."""

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import anydml as dml
from anydml.proving import prove
from anydml.proving.running import run
from anydml.slim import slim

HEAD = '<ir_version: 9, opset_import: ["": 18, "own": 1]>'
SHAPES = {
    "w": (6, 8), "t": (8, 6), "k": (8, 6, 3, 3), "d": (6, 1, 3, 3), "b": (8,), "c": (8,), "e": (1, 8), "m": (8,),
    "r": (4, 1), "p": (8, 1, 1), "q": (6, 1, 1), "v": (8,), "n": (1, 1), "h": (2, 6, 8), "z": (8,), "o": (2, 1, 8),
    "f": (6,), "g": (4,),
}  # fmt: skip
"""Shapes of constants by name; v has no negative numbers, and z a zero."""

MERGED = [
    ("a = MatMul (x, w) y = Mul (a, c)", "x", 1),
    ("a = MatMul (x, w) y = Mul (e, a)", "x", 1),
    ("a = MatMul (x, w) b0 = Add (b, a) y = Mul (b0, c)", "x", 2),
    ("a = MatMul (x, w) b0 = Add (a, b) b1 = Add (b0, c) b2 = Add (m, b1) y = Mul (b2, c)", "x", 2),
    ("a = MatMul (x, w) y = Div (a, v)", "x", 1),
    ("a = MatMul (x, w) t0 = Transpose <perm = [1, 0]> (a) y = Mul (t0, n)", "x", 2),
    ("a = MatMul (t, u) y = Mul (a, n)", "u", 1),
    ("a = MatMul (x, h) y = Mul (a, c)", "x", 1),
    ("a = Gemm (x, w, b) y = Mul (a, c)", "x", 1),
    ("a = Gemm <transB = 1> (x, t, b) y = Mul (a, c)", "x", 1),
    ("a = Gemm <transB = 1> (x, t) y = Add (a, c)", "x", 1),
    ("a = Gemm (x, w) s = Mul (a, c) y = Add (s, b)", "x", 1),
    ("a = Conv <pads = [1, 1, 1, 1]> (i, k) s = Mul (a, p) y = Add (s, p)", "i", 1),
    ("a = Conv <strides = [2, 2]> (i, k, b) y = Mul (a, n)", "i", 1),
    ("a = Conv <group = 6> (i, d) s = Add (q, a) y = Mul (s, q)", "i", 1),
    ("a = Conv (i, k, b) y = BatchNormalization (a, c, m, b, v)", "i", 1),
    ("a = Gemm (x, w) y = BatchNormalization (a, c, m, b, v)", "x", 1),
    ("a = MatMul (x, w) b0 = Add (a, b) y = BatchNormalization <epsilon = 0.1> (b0, c, m, b, v)", "x", 2),
]  # fmt: skip

KEPT = [
    ("a = Gemm <alpha = 0.5> (x, w) y = Mul (a, c)", "x", "its factor is in the node"),
    ("a = MatMul (x, w) y = Mul (a, c) z0 = Relu (a)", "x", "it is read twice"),
    ("a = MatMul (x, w) y = Mul (a, r)", "x", "factors of rows"),
    ("a = MatMul (x, w) y = Div (c, a)", "x", "it divides by the product"),
    ("a = MatMul (x, w) y = Div (a, z)", "x", "it divides by 0"),
    ("a = MatMul (x, w) s = Relu (a) y = Mul (s, c)", "x", "a node that computes is between"),
    ("a = MatMul (x, w) y = Mul (a, o)", "x", "the product is broadcast"),
    ("a = Conv (i, k) t0 = Transpose <perm = [0, 2, 3, 1]> (a) y = Mul (t0, c)", "i", "the axis of channels moves"),
    ("a = MatMul (x, w) b0 = Add (a, x0) y = Mul (b0, c)", "x", "the bias is an input"),
    ("a = MatMul (x, f) y = Mul (a, g)", "x", "the weights are a row"),
    ("a = Conv (i, k, f) y = Mul (a, p)", "i", "the bias has another size"),
    ("a = Conv (i, k) y = BatchNormalization (a, c, m, f, v)", "i", "a parameter has another size"),
    ("a = MatMul (x, w) y = BatchNormalization (a, c, m, b, x0)", "x", "its variance is an input"),
]  # fmt: skip


def _model(nodes, given):
    random = np.random.default_rng(0)
    inputs = {"x": "float[4,6] x", "u": "float[6,N] u", "i": "float[N,6,5,5] i"}[given] + ", float[8] x0"
    outputs = "float[] y, float[] z0" if "z0" in nodes else "float[] y"
    model = parser.parse_model(f"{HEAD} g ({inputs}) => ({outputs}) <int64[1] one = {{1}}> {{ {nodes} }}")
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    for name, shape in SHAPES.items():
        array = random.standard_normal(shape).astype(np.float32)
        array = np.abs(array) + np.float32(0.5) if name == "v" else array * (np.arange(8) > 0) if name == "z" else array
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), name))
    return model


def _inputs(model):
    random = np.random.default_rng(1)
    constants = {tensor.name for tensor in model.graph.initializer}
    return {
        value.name: random.standard_normal([dim.dim_value or 3 for dim in value.type.tensor_type.shape.dim]).astype(
            "f4"
        )
        for value in model.graph.input
        if value.name not in constants
    }


@pytest.mark.parametrize(("nodes", "given", "count"), MERGED)
def test_factors_and_biases_are_merged_if_asked(nodes, given, count):
    model = _model(nodes, given)
    assert len(slim(model).model.graph.node) >= count
    merged = slim(model, merge_scales=True)
    assert len(merged.model.graph.node) == count
    assert not merged.is_exact
    assert prove(model, merged.model, runs=False).verdict in ("proved", "rounded")
    inputs = _inputs(model)
    for a, b in zip(run(model, inputs), run(merged.model, inputs), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("nodes", "given", "why"), KEPT)
def test_other_factors_stay(nodes, given, why):
    model = _model(nodes, given)
    assert not any("merged" in str(stage) for stage in slim(model, merge_scales=True).stages)


def test_weights_are_rounded_once():
    """Three factors in a row, each of which would round the weights."""
    model = _model("a = MatMul (x, w) s = Mul (a, c) t0 = Mul (s, m) y = Mul (t0, b)", "x")
    merged = slim(model, merge_scales=True).model
    arrays = {tensor.name: numpy_helper.to_array(tensor).astype(np.float64) for tensor in model.graph.initializer}
    expected = (arrays["w"] * arrays["c"] * arrays["m"] * arrays["b"]).astype(np.float32)
    assert [
        numpy_helper.to_array(tensor).tolist() for tensor in merged.graph.initializer if tensor.name not in arrays
    ] == [expected.tolist()]


@pytest.mark.parametrize(("dtype", "weight", "factor", "is_merged"), [
    (np.float32, 1e20, 1e20, False), (np.float32, 1e-30, 1e-14, False), (np.float32, 1e-30, 1e-6, True),
    (np.float16, 0.02, 1e-6, False), (np.float16, 0.02, 0.5, True), (np.float16, 300, 300, False),
])  # fmt: skip
def test_weights_that_have_no_digits_left_stay(dtype, weight, factor, is_merged):
    kind = "float" if dtype == np.float32 else "float16"
    model = parser.parse_model(f"{HEAD} g ({kind}[N,4] x) => ({kind}[N,6] y) {{ a = MatMul (x, w) y = Mul (a, c) }}")
    numbers = np.random.default_rng(0).uniform(0.5, 1, (4, 6)) * weight
    arrays = {"w": numbers.astype(dtype), "c": np.full(6, factor, dtype)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    assert (len(slim(model, merge_scales=True).model.graph.node) == 1) == is_merged
    merged = onnx.ModelProto()
    merged.CopyFrom(model)
    del merged.graph.node[1]
    merged.graph.node[0].output[0] = "y"
    with np.errstate(all="ignore"):
        product = (arrays["w"].astype(np.float64) * float(arrays["c"][0])).astype(dtype)
    merged.graph.initializer[0].CopyFrom(numpy_helper.from_array(product, "w"))
    assert (prove(model, merged, runs=False).verdict == "rounded") == is_merged


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("nodes", ["b = Mul (x, s) y = Div (b, t)", "b = Add (x, s) y = Add (b, t)"])
def test_numpy_warns_of_no_constants(nodes):
    """A signaling NaN is converted to 64 bits."""
    model = parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y) {{ {nodes} }}")
    array = np.array([0x7F800001, 0x3F800000], np.uint32).view(np.float32)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name in "st")
    merged = slim(model, merge_scales=True).model
    assert prove(model, merged, runs=False).verdict == "proved"
    other = parser.parse_model(f"{HEAD} g (float[2] x) => (float[2] y) {{ {nodes.replace('s)', 'x)')} }}")
    other.graph.initializer.extend(model.graph.initializer)
    assert prove(model, other, runs=False).verdict == "undecided"


def test_scales_stay_in_exact_models():
    with pytest.raises(ValueError, match="leave one of them out"):
        slim(_model("y = MatMul (x, w)", "x"), exact=True, merge_scales=True)
    with pytest.raises(dml.ModelError):
        slim(onnx.ModelProto(), merge_scales=True)
