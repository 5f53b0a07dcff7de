"""ONNX Runtime's own operators beside their definitions, its optimized models beside the originals, and wrong ones."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper, parser

from anydml.proving import prove
from anydml.proving.running import error_of, run

HEADER = '<ir_version: 9, opset_import: ["": 18, "com.microsoft": 1]> g (float[N,4,8] x, float[N,4,8] z) => '
TABLES = """(float[A,B,C] y) <float half = {0.5}, float one = {1.0}, float three = {3.0}, float c = {0.044715},
float d = {0.7978846}, float e = {1.702}, float root = {1.4142135}, float q = {0.25},
float small = {0.00001}, int64[1] last = {-1},
float[8] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[8] b = {3, 1, 4, 1, 5, 9, 2, 6}> """

DEFINITIONS = [
    ("t = Transpose <perm = [0, 2, 1]> (z) p = MatMul (x, t) y = Mul (p, q)",
     "y = com.microsoft.FusedMatMul <transB = 1, alpha = 0.25> (x, z)", "alpha = 0.25", "alpha = 0.26"),
    ("u = Mul (x, half) t = Transpose <perm = [0, 2, 1]> (u) v = Mul (half, z) y = MatMul (t, v)",
     "y = com.microsoft.FusedMatMul <transA = 1, alpha = 0.25> (x, z)", "transA = 1, ", ""),
    ("s = Div (x, root) t = Erf (s) u = Add (t, one) v = Mul (x, u) y = Mul (v, half)",
     "y = com.microsoft.Gelu (x)", "Gelu", "FastGelu"),
    ("i = Add (x, b) s = Div (i, root) t = Erf (s) u = Add (t, one) v = Mul (half, i) y = Mul (v, u)",
     "y = com.microsoft.BiasGelu (x, b)", "(x, b)", "(z, b)"),
    ("p = Pow (x, three) r = Mul (c, p) s = Add (x, r) k = Mul (s, d) t = Tanh (k) u = Add (one, t) v = Mul (x, half) "
     "y = Mul (v, u)", "y = com.microsoft.FastGelu (x)", "FastGelu", "Gelu"),
    ("k = Mul (e, x) s = Sigmoid (k) y = Mul (x, s)", "y = com.microsoft.QuickGelu (x)", "(x)", "(z)"),
    ("k = Mul (e, x) s = Sigmoid (k) y = Mul (x, s)", "y = com.microsoft.QuickGelu <alpha = 1.702> (x)", "702", "7"),
    ("s = Add (z, x) t = Add (b, s) y = LayerNormalization <axis = -1, epsilon = 0.001> (t, w, b)",
     "y = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, z, w, b, b)", "0.001", "0.1"),
    ("s = Add (z, x) t = LayerNormalization <axis = -1> (s, w) y = Add (t, s)",
     "t, , , s = com.microsoft.SkipLayerNormalization <epsilon = 0.00001> (x, z, w) y = Add (s, t)", "z, w", "x, w"),
    ("p = Mul (x, x) m = ReduceMean (p, last) v = Add (m, small) d2 = Sqrt (v) r = Div (one, d2) n = Mul (x, r) "
     "y = Mul (w, n)", "y = SimplifiedLayerNormalization <axis = -1, epsilon = 0.00001> (x, w)", "0.00001", "0.1"),
]  # fmt: skip


def _model(body: str) -> onnx.ModelProto:
    return parser.parse_model(f"{HEADER}{TABLES}{{ {body} }}")


@pytest.mark.parametrize(("own", "fused", "old", "new"), DEFINITIONS)
def test_definitions_hold_in_real_arithmetic(own, fused, old, new):
    first, second, wrong = _model(own), _model(fused), _model(fused.replace(old, new))
    found = prove(first, second)
    assert found.verdict == "rounded"
    assert any("com.microsoft is taken for its definition" in each for each in found.rounding)
    random = np.random.default_rng(0)
    inputs = {name: random.standard_normal((2, 4, 8)).astype(np.float32) for name in "xz"}
    errors = [error_of(*each) for each in zip(run(first, inputs), run(second, inputs), strict=True)]
    assert max(errors) < 16, "as ONNX Runtime computes it"
    assert prove(first, wrong).verdict == "different"


def test_the_definition_of_rms_normalization_holds_in_real_arithmetic():
    own, _, old, new = DEFINITIONS[-1]
    models = [_model(own), *(_model(f"y = RMSNormalization <epsilon = {number}> (x, w)") for number in (old, new))]
    for model in models:
        model.opset_import[0].version = 23
    found = prove(*models[:2])
    assert found.verdict == "rounded"
    assert "RMSNormalization of ONNX is taken for its definition" in found.rounding
    inputs = {name: np.random.default_rng(0).standard_normal((2, 4, 8)).astype(np.float32) for name in "xz"}
    first, second = (run(model, inputs)[0] for model in models[:2])
    assert error_of(first, second) < 16
    assert prove(models[0], models[2]).verdict == "different"
    assert prove(models[1], models[1], runs=False).verdict == "proved"


@pytest.mark.parametrize(("fused", "name"), [
    ("y = com.microsoft.BiasGelu (x, b)", "b"), ("y = com.microsoft.FastGelu (x, b)", "b"),
    ("y = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, z, w, b, b)", "b"),
    ("y = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, z, w, b, b)", "w"),
    ("y = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, b, w)", ""),
])  # fmt: skip
def test_shapes_that_a_runtime_refuses_are_not_defined(fused, name):
    own = next((own for own, each, _, _ in DEFINITIONS if each == fused), DEFINITIONS[7][0])
    wide = TABLES.replace(f"float[8] {name} =", f"float[1,8] {name} =")
    text = f"{HEADER}{wide}{{ {fused} }}"
    random = np.random.default_rng(0)
    with pytest.raises(Exception, match=r"expected|dimension"):
        run(parser.parse_model(text), {key: random.standard_normal((2, 4, 8)).astype(np.float32) for key in "xz"})
    assert prove(parser.parse_model(f"{HEADER}{wide}{{ {own} }}"), parser.parse_model(text), runs=False).verdict == (
        "undecided"
    )


def test_a_bias_of_zeros_may_be_left_out():
    text = (
        '<ir_version: 9, opset_import: ["": 18]> g (float[N,1,5] x) => (float[A,B,C] y) '
        "<float[1,1,2] w = {1, 2}, float[1] b = {0}> { y = Conv (x, w, b) }"
    )
    verdicts = [
        prove(*map(parser.parse_model, (text, other)), runs=False).verdict
        for other in (text, text.replace(", b)", ")"), text.replace("{0}", "{1}"))
    ]
    assert verdicts == ["proved", "rounded", "undecided"]


@pytest.mark.parametrize(
    ("activation", "numbers", "after"),
    [("Relu", "", "Relu"), ("Tanh", "", "Tanh"), ("LeakyRelu", "[0.5]", "LeakyRelu <alpha = 0.5>"),
     ("HardSigmoid", "[0.25, 0.5]", "HardSigmoid <alpha = 0.25, beta = 0.5>")],
)  # fmt: skip
def test_convolutions_are_followed_by_what_they_name(activation, numbers, after):
    parameters = f", activation_params = {numbers}" if numbers else ""
    text = (
        '<ir_version: 9, opset_import: ["": 18, "com.microsoft": 1]> g (float[N,2,5,5] x) => (float[N,2,3,3] y) '
        f"<float[2,2,3,3] w = {{{', '.join(map(str, range(36)))}}}, float[2] b = {{-9, 9}}> {{ BODY }}"
    )
    own = parser.parse_model(text.replace("BODY", f"c = Conv (x, w, b) y = {after} (c)"))
    node = f'y = com.microsoft.FusedConv <activation = "{activation}"{parameters}> (x, w, b)'
    fused, wrong = (parser.parse_model(text.replace("BODY", each)) for each in (node, node.replace("w, b", "w")))
    assert prove(own, fused).verdict == "rounded"
    assert prove(own, wrong).verdict == "different"


def _attention() -> onnx.ModelProto:
    """A block of a transformer with random weights."""
    random, nodes, constants = np.random.default_rng(1), [], {}

    def constant(name, *shape):
        constants[name] = random.standard_normal(shape).astype(np.float32) / 4
        return name

    def add(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    constants |= {"scale": np.float32(0.5), "one": np.float32(1), "half": np.float32(0.5), "root": np.float32(2**0.5)}
    constants["heads"], constants["flat"] = np.array([0, 0, 2, 4]), np.array([0, 0, 8])
    parts = []
    for each in "qkv":
        made = add("MatMul", ["x", constant(f"w{each}", 8, 8)], f"{each}1")
        made = add("Reshape", [made, "heads"], f"{each}2")
        parts.append(add("Transpose", [made], f"{each}3", perm=[0, 2, 3, 1] if each == "k" else [0, 2, 1, 3]))
    product = add("Mul", [add("MatMul", parts[:2], "qk"), "scale"], "scores")
    context = add("MatMul", [add("Softmax", [product], "weights", axis=-1), parts[2]], "context")
    flat = add("Reshape", [add("Transpose", [context], "back", perm=[0, 2, 1, 3]), "flat"], "flattened")
    out = add("Add", [add("MatMul", [flat, constant("wo", 8, 8)], "projected"), constant("bo", 8)], "biased")
    names = [constant("g", 8), constant("h", 8)]
    first = add("LayerNormalization", [add("Add", ["x", out], "residual"), *names], "normalized", axis=-1)
    wide = add("Add", [add("MatMul", [first, constant("w1", 8, 16)], "up"), constant("b1", 16)], "upper")
    erf = add("Add", [add("Erf", [add("Div", [wide, "root"], "divided")], "erf"), "one"], "erf1")
    act = add("Mul", [add("Mul", [wide, erf], "wider"), "half"], "act")
    add("Add", [add("MatMul", [act, constant("w2", 16, 8)], "down"), first], "y")
    values = [helper.make_tensor_value_info(name, 1, ["N", "S", 8]) for name in "xy"]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "block", values[:1], values[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_wrong_optimizations_of_a_runtime_are_found(tmp_path):
    original = _attention()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath, options.log_severity_level = str(tmp_path / "optimized.onnx"), 4
    onnxruntime.InferenceSession(original.SerializeToString(), options, providers=["CPUExecutionProvider"])
    optimized = onnx.load(tmp_path / "optimized.onnx")
    fused = [node for node in optimized.graph.node if node.domain == "com.microsoft"]
    assert fused, "the runtime has fused nodes"
    found = prove(original, optimized)
    assert (found.verdict, found.names) == ("rounded", ["N", "S"])
    numbers = [(node, each) for node in fused for each in node.attribute if each.name in ("alpha", "epsilon")]
    assert numbers
    for _, each in numbers:
        right = each.f
        each.f = right * 2 + 0.5
        assert prove(original, optimized).verdict == "different"
        each.f = right
    assert prove(original, optimized).verdict == "rounded"


def test_what_is_clipped_on_one_side_is_computed_ahead():
    text = (
        '<ir_version: 9, opset_import: ["": 18]> g (float[N] x) => (float[N] y) <float[2] c = {1, 9}, float m = {4}> '
    )
    first = parser.parse_model(f"{text} {{ k = Clip (c, , m)  s = ReduceSum <keepdims = 0> (k)  y = Mul (x, s) }}")
    numbers = [
        parser.parse_model(f"{text} {{ s = Constant <value_float = {k}> ()  y = Mul (x, s) }}") for k in (5.0, 10.0)
    ]
    assert prove(first, numbers[0], runs=False).verdict in ("proved", "rounded")
    assert prove(first, numbers[1], runs=False).verdict == "undecided"
