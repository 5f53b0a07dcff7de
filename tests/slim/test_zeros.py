"""Sums with 0 are left out where only the signs of zeros can tell, and stay where nodes may divide by them."""

import numpy as np
import onnx
import onnxruntime
import pytest
from how_many import how_many
from onnx import helper, parser

from anydml.proving import prove
from anydml.slim import slim

HEAD = '<ir_version: 9, opset_import: ["": 18, "ai.other": 1]>'
CONSTANTS = "<float zero = {0}, float[3] zeros = {0, 0, 0}, float one = {1}, float two = {2}, float less = {-1}>"


def _kinds(model):
    return [node.op_type for node in model.graph.node]


def _run(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def _parsed(nodes, inputs="float[2,3] x", output="float[2,3] y"):
    return parser.parse_model(f"{HEAD} g ({inputs}) => ({output}) {CONSTANTS} {{ {nodes} }}")


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Add (x, zero) y = Relu (a)",
        "a = Add (zeros, x) y = Neg (a)",
        "a = Add (x, zero) b = Add (a, zeros) y = Softmax (b)",
        "a = Add (x, zeros) y = Div (a, two)",
        "a = Add (x, zeros) y = Pow (a, two)",
        "a = Add (x, zeros) b = Abs (a) y = Div (one, b)",
        "a = Add (x, zeros) b = Add (a, one) y = Reciprocal (b)",
        "a = Add (x, zeros) b = Cast <to = 7> (a) c = Cast <to = 1> (b) y = Reciprocal (c)",
        "a = Add (x, zeros) b = Less (a, two) y = Where (b, a, x)",
    ],
)
def test_a_sum_with_0_is_left_out(nodes):
    before = _parsed(nodes)
    slimmed = slim(before)
    assert not slimmed.is_exact
    assert "zeros may differ in their signs" in "".join(map(str, slimmed.stages))
    sums = [node for node in slimmed.model.graph.node if node.op_type == "Add" and "one" not in node.input]
    assert not sums
    x = np.array([[0.0, -0.0, 1], [-1, np.inf, np.nan]], np.float32)
    for old, new in zip(_run(before, {"x": x}), _run(slimmed.model, {"x": x}), strict=True):
        np.testing.assert_array_equal(old, new)
    assert prove(before, slimmed.model, runs=False).verdict == "rounded"
    assert slim(before, exact=True).is_exact
    assert _kinds(slim(before, exact=True).model) == _kinds(before)


@pytest.mark.parametrize(
    "nodes",
    [
        "a = Add (x, zero) y = Reciprocal (a)",
        "a = Add (x, zero) y = Div (one, a)",
        "a = Add (x, zero) y = Pow (a, less)",
        "a = Add (x, zero) y = Pow (two, a)",
        "a = Add (x, zero) b = MatMul (a, w) c = Relu (b) y = Div (x, c)",
        "a = Add (x, zero) b = Transpose <perm = [0, 1]> (a) c = Sqrt (b) y = Reciprocal (c)",
        "a = Add (x, zero) y = ai.other.Sum (a)",
        "a = Add (x, zero) b = Cast <to = 8> (a) y = Cast <to = 1> (b)",
        "a = Add (x, zero) b, c = TopK <axis = 1> (a, k) y = Neg (x)",
        """a = Add (x, zero) y = If (flag) <then_branch = t () => (float[2,3] d) { d = Reciprocal (a) },
            else_branch = e () => (float[2,3] f) { f = Neg (x) }>""",
        # The result is of another shape, or zeros are an input that a caller may give otherwise.
        "a = Add (row, square) y = Neg (a)",
        "a = Add (x, given) y = Neg (a)",
        "y = Add (x, zero)",
    ],
)
def test_a_sum_stays_where_signs_of_zeros_tell(nodes):
    constants = f"""<float[3,3] w = {{1, 2, 3, 4, 5, 6, 7, 8, 9}}, int64[1] k = {{1}}, float[2,3] square =
        {{0, 0, 0, 0, 0, 0}}, float[1] given = {{0}}, {CONSTANTS[1:]}"""
    text = f"g (float[2,3] x, float[3] row, bool flag, float[1] given) => (float[2,3] y) {constants} {{ {nodes} }}"
    before = parser.parse_model(f"{HEAD} {text}")
    assert _kinds(slim(before).model).count("Add") == _kinds(before).count("Add") == 1


UNARY = (
    "Neg", "Abs", "Relu", "Sigmoid", "Tanh", "Erf", "Sqrt", "Exp", "Sin", "Floor", "Sign", "Reciprocal", "Softplus",
    "Identity", "Softmax", "Transpose", "Atan", "Cos", "Round",
)  # fmt: skip
BINARY = ["Add", "Sub", "Mul", "Div", "Max", "Min", "MatMul", "Pow"]


def _drawn(random):
    """A model of some nodes that compute of matrices, among them sums with zeros."""
    names, nodes = ["x", "z", "ones", "zeros"], []
    for k in range(int(random.integers(4, 12))):
        if random.integers(3) == 0:
            nodes.append(helper.make_node("Add", [str(random.choice(names)), "zeros"], [f"v{k}"]))
        elif random.integers(2):
            nodes.append(helper.make_node(str(random.choice(UNARY)), [str(random.choice(names))], [f"v{k}"]))
        else:
            pair = [str(name) for name in random.choice(names, 2)]
            nodes.append(helper.make_node(str(random.choice(BINARY)), pair, [f"v{k}"]))
        names.append(f"v{k}")
    floats = onnx.TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info(name, floats, [3, 3]) for name in "xz"]
    outputs = [helper.make_tensor_value_info(name, floats, [3, 3]) for name in names[-2:]]
    constants = [helper.make_tensor(name, floats, [3, 3], [value] * 9) for name, value in (("ones", 1), ("zeros", 0))]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_random_models_compute_equal_numbers():
    """Infinities show by which zero something was divided."""
    random, left_out = np.random.default_rng(0), 0
    for _ in range(how_many(150)):
        before = _drawn(random)
        after = slim(before).model
        left_out += _kinds(after).count("Add") < _kinds(before).count("Add")
        feeds = {name: random.choice([0.0, -0.0, 1, -1, 2], (3, 3)).astype(np.float32) for name in "xz"}
        for old, new in zip(_run(before, feeds), _run(after, feeds), strict=True):
            np.testing.assert_allclose(old, new, rtol=1e-5)
    assert left_out > 10


def test_constants_are_initializers():
    made = "c = Constant <value_floats = [1.0, 2.0, 3.0]> () z = Constant <value = float {2}> ()"
    slimmed = slim(_parsed(f"{made} a = Mul (x, c) y = Sub (a, z)"))
    assert slimmed.is_exact
    assert _kinds(slimmed.model) == ["Mul", "Sub"]
    assert {tensor.name for tensor in slimmed.model.graph.initializer} >= {"c", "z"}
    onnx.checker.check_model(slimmed.model, full_check=True)


def test_a_constant_that_is_an_output_or_a_text_stays():
    text = """g (float[2] x) => (float y, string t) {
        y = Constant <value = float {2}> () t = Constant <value_string = "t"> () }"""
    before = parser.parse_model(f"{HEAD} {text}")
    assert _kinds(slim(before).model) == ["Constant", "Constant"]
