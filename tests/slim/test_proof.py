"""What is wrong is found: models that move something else are told from those that move the same."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper, parser
from slim.claims import is_accepted, proved

from anydml.errors import ModelError
from anydml.proving import prove
from anydml.slim import comparing, equivalence, slim
from anydml.slim.analysis import Analysis
from anydml.slim.graph import Graph
from anydml.slim.pieces import flat_pieces

TEXT = """<ir_version: 8, opset_import: ["": 18]> g (float[2,3,4] x) => (float[3,4,2] z)
    { a = Transpose <perm = [1, 0, 2]> (x) b = Transpose <perm = [0, 2, 1]> (a) z = Relu (b) }"""


def changed(model, perm):
    """The slimmed model with another permutation."""
    copy = ModelProto()
    copy.CopyFrom(model)
    (node,) = [each for each in copy.graph.node if each.op_type == "Transpose"]
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("perm", perm))
    return copy


def test_another_permutation_differs():
    before = parser.parse_model(TEXT)
    slimmed = slim(before)
    proved(before, slimmed.model)
    (node,) = [each for each in slimmed.model.graph.node if each.op_type == "Transpose"]
    right = [*node.attribute[0].ints]
    for perm in ([0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2], [2, 0, 1]):
        assert perm != right
        assert not is_accepted(before, changed(slimmed.model, perm))


def test_another_constant_differs():
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[2,2] x) => (float[2,2] z)
        <float[2,2] w = {1, 2, 3, 4}> { a = Transpose <perm = [1, 0]> (w) z = MatMul (x, a) }"""
    before = parser.parse_model(text)
    slimmed = slim(before)
    proved(before, slimmed.model)
    slimmed.model.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(np.array([[1, 3], [2, 5]], np.float32), slimmed.model.graph.initializer[0].name)
    )
    assert not is_accepted(before, slimmed.model)


def test_what_cannot_be_composed_is_compared_by_elements():
    """The second Reshape cuts an axis where its parts cannot be cut."""
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[2,3] x) => (float[6] z)
        <int64[2] n = {3, 2}, int64[1] m = {6}>
        { a = Transpose <perm = [1, 0]> (x) b = Concat <axis = 0> (a, a) c = Reshape (a, n) z = Reshape (c, m) }"""
    before = parser.parse_model(text)
    proved(before, slim(before).model)


@pytest.mark.parametrize(
    "node", ["ReduceSum <keepdims = 0> (r, one)", "Softmax <axis = 1> (r)", "Softmax <axis = 2> (r)", "MatMul (t, r)"]
)
@pytest.mark.parametrize("size", [1, 2, 4])
def test_values_without_elements_are_proved(node, size):
    """A convolution leaves nothing of an image of size 1."""
    text = f"""<ir_version: 8, opset_import: ["": 18]> g (float[2,1,{size}] x) => (float[M] z) <int64[1] one = {{1}},
        float[3,1,2] k = {{1, 2, 3, 4, 5, 6}}>
        {{ r = Conv (x, k) t = Transpose <perm = [0, 2, 1]> (r) z = {node} }}"""
    before = parser.parse_model(text)
    proved(before, slim(before).model)


def test_pieces_say_where_elements_come_from():
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[4,6] x) => (float[3,8] z)
        <int64[1] one = {1}, int64[1] end = {9}, int64[1] zero = {0}, int64[2] n = {3, 8}>
        { a = Slice (x, one, end, one) b = Slice (x, zero, one, one) c = Concat <axis = 1> (a, b)
          d = Transpose <perm = [1, 0]> (c) z = Reshape (d, n) }"""
    analysis = Analysis(Graph.of(parser.parse_model(text)), {})
    found = np.full(24, -1)
    for piece in flat_pieces(analysis.values["z"].compositions[0]):
        to, there = piece.elements()
        found[to] = there
    expected = np.roll(np.arange(24).reshape(4, 6), -1, 1).T.reshape(-1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Add (a, y)", "Sub (a, y)"),
        ("Neg (b)", "Abs (b)"),
        ("Softmax <axis = 1>", "Softmax <axis = 0>"),
        ("Transpose <perm = [1, 0]> (x)", "Identity (x)"),
        ("MatMul (c, w)", "MatMul (w, c)"),
        ("{1, 2, 3, 4}", "{1, 2, 3, 5}"),
    ],
)
def test_fingerprints_differ_where_something_else_is_computed(old, new):
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[2,2] x, float[2,2] y) => (float[2,2] z)
        <float[2,2] w = {1, 2, 3, 4}> { a = Transpose <perm = [1, 0]> (x) b = Add (a, y) d = Neg (b)
        c = Mul (d, w) e = MatMul (c, w) z = Softmax <axis = 1> (e) }"""
    assert old in text
    before, after = parser.parse_model(text), parser.parse_model(text.replace(old, new))
    assert is_accepted(before, before)
    assert not is_accepted(before, after)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("axis = 2", "axis = 1"),
        ("epsilon = 0.5", "epsilon = 0.25"),
        ("float[3] s = {1, 2, 3}", "float[3] s = {1, 2, 4}"),
        ("one = {1}", "one = {2}"),
        ("ReduceSum", "ReduceMax"),
        ("n = {3, 2, 3}", "n = {2, 3, 3}"),
    ],
)
def test_fingerprints_differ_where_other_rows_are_taken(old, new):
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[2,3,3] x) => (float[M,K,L] z)
        <float[3] s = {1, 2, 3}, int64[1] one = {1}, int64[3] n = {3, 2, 3}> {
        a = LayerNormalization <axis = 2, epsilon = 0.5> (x, s) b = Reshape (a, n)
        z = ReduceSum <keepdims = 1> (b, one) }"""
    assert old in text
    before, after = parser.parse_model(text), parser.parse_model(text.replace(old, new))
    assert is_accepted(before, before)
    assert not is_accepted(before, after)


def test_signs_are_followed_through_products():
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[2] x) => (float[2] z)
        <float[2] c = {1, -2}, float[2] d = {-1, 2}> { a = Neg (x) z = Mul (a, c) }"""
    other = text.replace("Mul (a, c)", "Mul (x, d)")
    wrong = text.replace("Mul (a, c)", "Mul (x, c)")
    before = parser.parse_model(text)
    assert is_accepted(before, parser.parse_model(other))
    assert not is_accepted(before, parser.parse_model(wrong))


def test_constants_of_any_size_are_compared():
    weights = np.arange(1 << 21, dtype=np.float32).reshape(1 << 10, -1)
    text = """<ir_version: 8, opset_import: ["": 18]> g (float[1,2048] x, float[1024,2048] w) => (float[1,1024] z)
        { a = Transpose <perm = [1, 0]> (w) z = MatMul (x, a) }"""
    before = parser.parse_model(text)
    del before.graph.input[1]
    before.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    slimmed = slim(before)
    (tensor,) = slimmed.model.graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(tensor), weights.T)
    proved(before, slimmed.model)
    wrong = weights.T.copy()
    wrong[5, 7] += 1
    tensor.CopyFrom(numpy_helper.from_array(wrong, tensor.name))
    assert not is_accepted(before, slimmed.model)


def test_functions_that_multiply_are_not_run():
    """Each calls the next ten times, so that ONNX Runtime, which inlines them, would never end."""
    functions = [
        f"""<domain: "own", opset_import: ["": 18, "own": 1]> f{k} (x) => (y) {{
            {" ".join(f"v{n + 1} = own.f{k + 1} (v{n})" for n in range(10)).replace("(v0)", "(x)")} y = Neg (v10) }}"""
        for k in range(12)
    ]
    last = '<domain: "own", opset_import: ["": 18]> f12 (x) => (y) { y = Neg (x) }'
    text = """<ir_version: 8, opset_import: ["": 18, "own": 1]> g (float[2,3] x) => (float[2,3] z)
        { a = Transpose <perm = [1, 0]> (x) b = Transpose <perm = [1, 0]> (a) z = own.f0 (b) }"""
    before = parser.parse_model("\n".join([text, *functions, last]))
    slimmed = slim(before)
    assert [node.op_type for node in slimmed.model.graph.node] == ["f0"]
    with pytest.raises(ModelError, match="functions must be inlined"):
        prove(before, slimmed.model)


SAME = [
    ("g (float[6] x) => (float[A,B] z) <int64[2] n = {2, 3}> { z = Reshape (x, n) }", "{2, 3}", "{3, 2}"),
    ("g (float[N,6] x) => (float[A,B] z) <int64[2] n = {-1, 3}> { z = Reshape (x, n) }", "{-1, 3}", "{-1, 2}"),
    (
        "g (float[6] x) => (float[A] z) <int64[1] n = {6}> { z = Reshape (x, n) }",
        "int64[1] n = {6}",
        "int64[2] n = {6, 1}",
    ),
    ("g (float[1,6] x) => (float[A] z) <int64[1] n = {0}> { z = Squeeze (x, n) }", "Squeeze", "Unsqueeze"),
    ("g (float[6] x) => (float[6] z) { z = Neg (x) }", "float[6]", "double[6]"),
    ("g (float[6] x) => (float[6] z) { a = Cast <to = 10> (x) z = Cast <to = 1> (a) }", "to = 10", "to = 16"),
    (
        """g (float[6] x, bool b) => (float[6] z) { a = Neg (x) c = Abs (x) z = If <
            then_branch = t () => (float[6] u) { u = Neg (a) }, else_branch = e () => (float[6] v) { v = Abs (x) }
        > (b) }""",
        "a = Neg (x)",
        "a = Sin (x)",
    ),
    (
        "g (float[1,1,6] x) => (float[1,1,A] z) { w = Constant <value = float[1,1,2] {1, 2}> () z = Conv (x, w) }",
        "{1, 2}",
        "{1, 3}",
    ),
]


@pytest.mark.parametrize(("text", "old", "new"), SAME)
def test_results_of_another_shape_or_type_or_of_other_values_differ(text, old, new):
    text = f'<ir_version: 9, opset_import: ["": 18]> {text}'
    assert old in text
    before, after = parser.parse_model(text), parser.parse_model(text.replace(old, new))
    proved(before, before)
    assert not is_accepted(before, after)


@pytest.mark.parametrize(("old", "new"), [("Neg", "Abs"), ("axis = 0", "axis = 1"), ("(s, w)", "(w, s)")])
def test_what_computes_must_stay_where_movement_changes(old, new):
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[2,2] x, float[2,2] w) => (float[2,2] z)
        { a = Neg (x) s = Softmax <axis = 0> (a) z = MatMul (s, w) }"""
    assert old in text
    assert not is_accepted(parser.parse_model(text), parser.parse_model(text.replace(old, new)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex128, np.bool_])
def test_a_moved_constant_is_compared_once_for_all_sizes(dtype, monkeypatch):
    compared = []
    are_equal = comparing._are_equal
    monkeypatch.setattr(comparing, "_are_equal", lambda a, b: compared.append(a.shape) or are_equal(a, b))
    weights = (np.arange(90 * 50) % 251).reshape(90, 50).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    given = helper.make_tensor_value_info("x", kind, ["N", 50, 1])
    results = [helper.make_tensor_value_info(name, kind, [None, None, None]) for name in "zy"]
    nodes = [
        helper.make_node("Transpose", ["w"], ["a"], perm=[1, 0]),
        helper.make_node("Unsqueeze", ["a", "zero"], ["y"]),
        helper.make_node("Concat", ["x", "x"], ["z"], axis=2),
    ]
    constants = [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([0]), "zero")]
    graph = helper.make_graph(nodes, "g", [given], results, constants)
    before = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    monkeypatch.setattr(equivalence.Proofs, "are_proved", lambda *_: False)
    slimmed = slim(before)
    moved = next(t for t in slimmed.model.graph.initializer if [*t.dims] == [1, 50, 90])
    np.testing.assert_array_equal(numpy_helper.to_array(moved), weights.T[None])
    assert len(compared) == 1
