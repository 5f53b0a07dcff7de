"""What is known ahead or equal to other values is not computed, and results stay the same bit for bit."""

import numpy as np
import onnxruntime
import pytest
from how_many import how_many
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper, parser

from anydml.slim import slim

HEAD = '<ir_version: 9, opset_import: ["": 18]>'


def _outputs(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def _feeds(model):
    random, found = np.random.default_rng(0), {}
    for value in model.graph.input:
        shape = [dim.dim_value or 5 for dim in value.type.tensor_type.shape.dim]
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        array = random.standard_normal(shape) * 4
        array.reshape(-1)[:3] = 0.0, -0.0, np.inf if dtype.kind == "f" else 7
        found[value.name] = array.astype(dtype)
    return found


def _slimmed(text, keep_signs=False):
    before = parser.parse_model(HEAD + text)
    after = slim(before, keep_signs=keep_signs).model
    feeds = _feeds(before)
    for old, new in zip(_outputs(before, feeds), _outputs(after, feeds), strict=True):
        assert (old.dtype, old.shape, old.tobytes()) == (new.dtype, new.shape, new.tobytes())
    return after


def _kinds(model):
    return [node.op_type for node in model.graph.node]


@pytest.mark.parametrize(
    ("constants", "nodes", "left"),
    [
        ("float[3] a = {1, 2, 3}, float[3] b = {4, 5, 6}", "c = Mul (a, b) d = Sqrt (c) y = Add (x, d)", "Add"),
        ("int64[3] a = {1, 2, 3}", "c = Cast <to = 1> (a) y = Mul (c, x)", "Mul"),
        ("float a = {64}, float b = {0.5}", "c = Pow (a, b) y = Mul (c, x)", "Mul"),
        ("float[3] a = {3, -2, 0}, float b = {3}", "c = Pow (a, b) y = Add (c, x)", "Add"),
        ("float a = {0}, float b = {3}, float c = {1}", "r = Range (a, b, c) y = Add (x, r)", "Add"),
        ("", "c = Cast <to = 1> (x) y = Relu (c)", "Relu"),
        ("float one = {1}", "c = Mul (one, x) d = Div (c, one) y = Relu (d)", "Relu"),
        ("float zero = {0}", "c = Sub (x, zero) y = Relu (c)", "Relu"),
        ("", "c = Neg (x) d = Neg (c) y = Relu (d)", "Relu"),
        ("", "a, mask = Dropout (x) y = Relu (a)", "Relu"),
        ("", "a = Exp (x) b = Exp (x) c = Abs (a) d = Abs (b) y = Add (c, d)", "Exp Abs Add"),
        ("", "a = Softmax (x) b = Softmax <axis = -1> (x) y = Div (a, b)", "Softmax Div"),
    ],
)
def test_is_computed_once_or_ahead(constants, nodes, left):
    text = f"g (float[2,3] x) => (float[2,3] y) {f'<{constants}>' if constants else ''} {{ {nodes} }}"
    assert _kinds(_slimmed(text)) == left.split()


@pytest.mark.parametrize(
    "nodes",
    [
        "r = Div (one, s) n = Mul (x, r) m = Mul (n, ones) y = Relu (m)",
        "r = Reciprocal (s) n = Mul (r, x) m = Mul (ones, n) y = Relu (m)",
        "n = Div (x, s) m = Mul (n, ones) y = Relu (m)",
    ],
)
def test_scales_of_1_that_make_a_normalization_stay(nodes):
    text = "g (float[2,3] x) => (float[2,3] y) <float one = {1}, float two = {2}, float[3] ones = {1, 1, 1}>"
    text = f"{text} {{ p = Pow (x, two) q = ReduceMean <keepdims = 1> (p) s = Sqrt (q) {nodes} }}"
    expected = _kinds(parser.parse_model(HEAD + text.replace("Reciprocal (s)", "Div (one, s)")))
    assert _kinds(_slimmed(text)) == expected
    once = _slimmed(text.replace("ones)", "one)").replace("(ones,", "(one,"))
    assert len(_kinds(once)) == len(expected) - 1, "a number alone is no scale"


def test_integers_are_added_to_0():
    text = "g (int64[2,3] x) => (int64[2,3] y) <int64 zero = {0}> { a = Add (x, zero) y = Abs (a) }"
    assert _kinds(_slimmed(text)) == ["Abs"]


@pytest.mark.parametrize(
    "nodes",
    [
        # 0 + −0 is 0.
        "a = Add (x, zero) y = Neg (a)",
        "a = Gemm (x, w, bias) y = Neg (a)",
        # Runtimes have an exponential of their own.
        "a = Exp (bias) y = Add (x, a)",
        # So have they powers, which are rounded.
        "a = Pow (w, half) b = MatMul (x, a) y = Neg (b)",
        "a = Pow (third, half) b = Add (x, a) y = Neg (b)",
        "a = Pow (half, minus) b = Add (x, a) y = Neg (b)",
        # These are drawn anew.
        "a = RandomNormalLike (x) b = RandomNormalLike (x) c = Sub (a, b) d = Mul (c, zero) y = Add (x, d)",
        # Sums may be added up in another order.
        "a = MatMul (x, w) b = Gemm (x, w) y = Sub (a, b)",
    ],
)
def test_what_may_differ_in_a_bit_stays(nodes):
    text = """g (float[2,3] x) => (float[2,3] y)
    <float zero = {0}, float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}, float[3] bias = {0, 0, 0},
     float half = {0.5}, float third = {0.3}, float minus = {-1}>"""
    before = parser.parse_model(f"{HEAD} {text} {{ {nodes} }}")
    assert _kinds(slim(before, exact=True).model) == _kinds(before)


def test_equal_constants_are_one():
    text = """g (float[2,3] x) => (float[2,3] y) <float[3] a = {1, 2, 3}, float[3] b = {1, 2, 3}> {
        c = Add (x, a) d = Constant <value_floats = [1.0, 2.0, 3.0]> () e = Mul (c, b) y = Sub (e, d)
    }"""
    after = _slimmed(text)
    assert len(after.graph.initializer) == 1
    assert "Constant" not in _kinds(after)


def test_shapes_are_computed_once():
    text = """g (float[N,6] x) => (float[N,2,3] y, float[N,3,2] z)
    <int64 first = {0}, int64[1] zero = {0}, int64[1] two = {2}, int64[1] three = {3}> {
        a = Relu (x) s = Shape (x) t = Shape (a)
        n = Gather (s, first) m = Gather (t, first) p = Unsqueeze (n, zero) q = Unsqueeze (m, zero)
        u = Concat <axis = 0> (p, two, three) v = Concat <axis = 0> (q, three, two)
        y = Reshape (a, u) c = Exp (a) z = Reshape (c, v)
    }"""
    kinds = _kinds(_slimmed(text))
    assert kinds.count("Shape") == kinds.count("Gather") <= 1


def test_outputs_and_what_bodies_read_keep_their_names():
    text = """g (float[2,3] x, bool choice) => (float[2,3] y, float[2,3] z) {
        a = Exp (x) b = Exp (x) z = Exp (x)
        y = If (choice) <
            then_branch = t () => (float[2,3] r) { r = Add (a, b) },
            else_branch = e () => (float[2,3] s) { s = Neg (b) }
        >
    }"""
    before = parser.parse_model(HEAD + text)
    after = slim(before).model
    for choice in (False, True):
        feeds = {"x": np.ones((2, 3), np.float32), "choice": np.array(choice)}
        for old, new in zip(_outputs(before, feeds), _outputs(after, feeds), strict=True):
            np.testing.assert_array_equal(old, new)


def test_random_nodes_stay_the_same_bit_for_bit():
    unary, binary = ["Relu", "Neg", "Abs", "Exp", "Identity", "Cast <to = 1>"], ["Add", "Sub", "Mul", "Div", "Max"]

    @settings(max_examples=how_many(30), deadline=None)
    @given(st.data())
    def check(data):
        names, lines = ["x", "c0", "c1", "c2", "c3"], []
        for k in range(data.draw(st.integers(2, 10))):
            first, second = (data.draw(st.sampled_from(names)) for _ in range(2))
            kind = data.draw(st.sampled_from(unary + binary))
            lines.append(f"n{k} = {kind} ({first}, {second})" if kind in binary else f"n{k} = {kind} ({first})")
            names.append(f"n{k}")
        results = ", ".join(f"float[A{k},B{k}] y{k}" for k in range(2))
        lines += [f"y{k} = Add (x, {data.draw(st.sampled_from(names))})" for k in range(2)]
        _slimmed(
            f"g (float[2,3] x) => ({results}) <float[1] c0 = {{0}}, float[1] c1 = {{1}},"
            f" float[2,3] c2 = {{1, 1, 1, 1, 1, 1}}, float[3] c3 = {{-2, 0.5, 3}}> {{ {' '.join(lines)} }}",
            keep_signs=True,
        )

    check()


QUANTIZED = """g (float[2,3,4] x) => (float[2,3,4] y) <SCALES> {
    a = Transpose <perm = [2, 0, 1]> (x) q = QuantizeLinear <axis = 0> (a, scale, zero)
    d = DequantizeLinear <axis = 0> (q, scale, zero) b = Transpose <perm = [1, 2, 0]> (d) y = Relu (b)
}"""


@pytest.mark.parametrize("kind", ["int8", "uint8"])
def test_transposes_cancel_around_what_one_scale_quantizes(kind):
    text = QUANTIZED.replace("SCALES", f"float scale = {{0.5}}, {kind} zero = {{3}}")
    assert _kinds(_slimmed(text)) == ["QuantizeLinear", "DequantizeLinear", "Relu"]
    dynamic = text.replace("[2,3,4]", "[N,3,4]")
    assert _kinds(_slimmed(dynamic)) == ["QuantizeLinear", "DequantizeLinear", "Relu"]


def test_transposes_stay_around_scales_of_an_axis():
    scales = "float[4] scale = {0.5, 1, 2, 3}, int8[4] zero = {0, 1, 2, 3}"
    assert _kinds(_slimmed(QUANTIZED.replace("SCALES", scales))).count("Transpose") == 2


@pytest.mark.parametrize(
    ("equation", "left"),
    [("bac->cab", "Transpose Relu"), ("b a c -> a b c", "Relu"), ("bac", "Relu"), ("bac->ca", "Transpose Einsum Relu")],
)
def test_an_einsum_that_transposes_is_movement(equation, left):
    text = """g (float[2,3,4] x) => (float[A,B,C] y) {
        a = Transpose <perm = [1, 0, 2]> (x) b = Einsum <equation = "EQUATION"> (a) y = Relu (b)
    }"""
    result = "float[A,B]" if equation.endswith("->ca") else "float[A,B,C]"
    made = _slimmed(text.replace("EQUATION", equation).replace("float[A,B,C]", result))
    assert _kinds(made) == left.split()
