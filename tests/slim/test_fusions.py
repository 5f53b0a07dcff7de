"""What ONNX Runtime fuses of a slimmed model: what is faster together, and not what is slower."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser
from slim.claims import proved

from anydml.proving import prove
from anydml.proving.running import run
from anydml.slim import slim

SIZES = {"N": 2, "S": 5}

LAYER = ["MatMul", "Add", "LayerNormalization", "MatMul", "Relu"]


def optimized(model, path):
    """The operators that ONNX Runtime runs of a model, and its results."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    random = np.random.default_rng(0)
    given = {
        value.name: random.random([SIZES.get(size, size) for size in value.shape], np.float32)
        for value in session.get_inputs()
    }
    results = session.run(None, given)
    return [node.op_type for node in onnx.load(path).graph.node], results


def layer(sizes):
    """A layer whose sum is normalized, and movement that undoes itself, in whose place Reshapes may come."""
    random = np.random.default_rng(1)
    constants = {"w": (64, 64), "scale": (64,), "bias": (64,), "again": (64, 64)}
    graph = f"""<ir_version: 8, opset_import: ["": 17]>
    g (float[{sizes}] x, float[{sizes}] skip) => (float[{sizes}] z) <int64[1] one = {{0}}> {{
        x1 = Unsqueeze (x, one)
        x2 = Squeeze (x1, one)
        s1 = Unsqueeze (skip, one)
        s2 = Squeeze (s1, one)
        a = MatMul (x2, w)
        b = Add (a, s2)
        c = LayerNormalization <axis = -1> (b, scale, bias)
        d = MatMul (c, again)
        z = Relu (d)
    }}"""
    model = parser.parse_model(graph)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(random.random(shape, np.float32), name) for name, shape in constants.items()
    )
    return model


@pytest.mark.parametrize("sizes", ["2, 16, 64", "N, 16, 64", "N, S, 64"])
def test_sums_are_normalized_apart(sizes, tmp_path):
    before = layer(sizes)
    kinds, expected = optimized(before, tmp_path / "before.onnx")
    assert "SkipLayerNormalization" in kinds, "the rewrite is for what ONNX Runtime does"
    slimmed = slim(before)
    assert proved(before, slimmed.model)
    kinds, results = optimized(slimmed.model, tmp_path / "after.onnx")
    assert "SkipLayerNormalization" not in kinds
    assert "LayerNormalization" in kinds
    np.testing.assert_allclose(results[0], expected[0], rtol=1e-5, atol=1e-5)


def test_sums_of_few_elements_are_left():
    before = layer("1, 2, 64")
    assert [node.op_type for node in slim(before).model.graph.node] == LAYER


def test_sums_that_others_read_are_left():
    before = layer("2, 16, 64")
    before.graph.node.append(onnx.helper.make_node("Neg", ["b"], ["y"]))
    before.graph.output.append(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 16, 64]))
    assert [node.op_type for node in slim(before).model.graph.node] == [*LAYER, "Neg"]


def test_matrices_are_transposed_last(tmp_path):
    graph = """<ir_version: 8, opset_import: ["": 17]>
    g (float[4,2,16,8] q, float[4,16,8] k) => (float[4,2,16,16] z)
    <int64[4] n = {4, 1, 8, 16}, int64[1] first = {0}, float scale = {0.5}> {
        a = Relu (k)
        b = Transpose <perm = [0, 2, 1]> (a)
        b1 = Unsqueeze (b, first)
        c = Reshape (b1, n)
        d = MatMul (q, c)
        z = Mul (d, scale)
    }"""
    before = parser.parse_model(graph)
    kinds, expected = optimized(before, tmp_path / "before.onnx")
    assert "Transpose" in kinds
    slimmed = slim(before)
    kinds, results = optimized(slimmed.model, tmp_path / "after.onnx")
    assert "Transpose" not in kinds
    np.testing.assert_allclose(results[0], expected[0], rtol=1e-5)


RMS = """<ir_version: 8, opset_import: ["": 18]> g (TYPE[N,4,8] x) => (TYPE[N,4,8] y) <TYPE two = {2.0},
    TYPE tiny = {0.001}, int64[1] last = {-1}, TYPE[8] scale = {1.5, 2.0, 0.5, 1.25, 1.0, 3.0, 0.75, 2.5}> {
    square = Pow (x, two) mean = ReduceMean (square, last) sum = Add (mean, tiny) root = Sqrt (sum)
    part = Reciprocal (root) normal = Mul (x, part) y = Mul (normal, scale) }"""


def test_normalizations_by_reciprocals_of_roots_are_found(tmp_path):
    before = parser.parse_model(RMS.replace("TYPE", "float"))
    after = slim(before).model
    assert "SimplifiedLayerNormalization" not in optimized(before, tmp_path / "before.onnx")[0]
    assert optimized(after, tmp_path / "after.onnx")[0] == ["SimplifiedLayerNormalization"]
    given = {"x": np.random.default_rng(0).standard_normal((3, 4, 8)).astype(np.float32)}
    np.testing.assert_array_equal(run(before, given)[0], run(after, given)[0])
    assert prove(before, after, runs=False).verdict == "proved"


@pytest.mark.parametrize(
    ("old", "new", "goes"),
    [
        ("TYPE", "double", True),
        ("Sqrt", "Abs", False),
        ("Mul (x, part)", "Add (x, part)", False),
        ("TYPE[N,4,8] y)", "TYPE[N,4,8] y, TYPE[N,4,1] part)", False),
    ],
)
def test_reciprocals_of_roots_in_products_are_divisions(old, new, goes):
    model = parser.parse_model(RMS.replace(old, new).replace("TYPE", "float"))
    kinds = [node.op_type for node in slim(model).model.graph.node]
    assert ("Reciprocal" not in kinds) is goes


GELU = """<ir_version: 8, opset_import: ["": 17]> g ({dtype}[N,64] x) => ({dtype}[N,64] y)
    <{dtype} root = {{{root}}}, {dtype} one = {{{one}}}, {dtype} half = {{{half}}}> {{
        a = Div (x, root) b = Erf (a) c = Add (b, one) d = Mul (half, c) y = Mul ({product}) }}"""


def gelu(product="x, d", dtype="float", root=1.4142135, one=1, half=0.5):
    return GELU.format(product=product, dtype=dtype, root=root, one=one, half=half)


@pytest.mark.parametrize("product", ["x, d", "d, x"])
def test_halves_of_gelus_are_those_of_their_inputs(product, tmp_path):
    before = parser.parse_model(gelu(product))
    slimmed = slim(before)
    proof = prove(before, slimmed.model, runs=False)
    assert proof.verdict == "rounded"
    assert any("halved" in note for note in proof.rounding)
    assert not slimmed.is_exact
    number = np.finfo(np.float32)
    x = np.random.default_rng(0).standard_normal((9, 64)) * 10.0 ** np.arange(-4, 5)[:, None]
    x[0, :9] = [0.0, -0.0, np.nan, np.inf, -np.inf, number.max, -number.max, 4 * number.tiny, -4 * number.tiny]
    (expected,), (found,) = (run(model, {"x": x.astype(np.float32)}) for model in (before, slimmed.model))
    assert expected.tobytes() == found.tobytes()
    assert optimized(before, tmp_path / "before.onnx")[0] == ["Div", "Erf", "Add", "Mul", "Mul"]
    assert optimized(slimmed.model, tmp_path / "after.onnx")[0] == ["Gelu"]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (gelu(), {"exact": True}),
        (gelu(half=0.25), {}),
        # As bits.
        (gelu(dtype="float16", root=0x3DA8, one=0x3C00, half=0x3800), {}),
    ],
)
def test_other_factors_of_gelus_stay(text, options):
    before = parser.parse_model(text)
    assert [*slim(before, **options).model.graph.node] == [*before.graph.node]


@pytest.mark.parametrize(("old", "new"), [("{0.5}", "{0.25}"), ("Add (b, one)", "Add (b, half)"), ("(x, d)", "(a, d)")])
def test_halves_of_other_products_differ(old, new):
    assert old in gelu()
    slimmed = slim(parser.parse_model(gelu())).model
    assert prove(parser.parse_model(gelu().replace(old, new)), slimmed, runs=False).verdict == "undecided"
