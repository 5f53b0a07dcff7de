"""Verdicts on pairs of models: written by hand, and checked by what ONNX Runtime computes for random inputs."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

from anydml.errors import ModelError
from anydml.proving import prove
from anydml.proving.running import error_of, run

HEADER = '<ir_version: 9, opset_import: ["": 18]> '


def model(text):
    return parser.parse_model(HEADER + text)


def ran(one, sizes, seed=0):
    """What a model computes of random inputs."""
    random, inputs = np.random.default_rng(seed), {}
    for value in one.graph.input:
        tensor = value.type.tensor_type
        shape = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in tensor.shape.dim]
        is_float = tensor.elem_type == TensorProto.FLOAT
        drawn = random.standard_normal(shape) if is_float else random.integers(0, 2, shape)
        inputs[value.name] = drawn.astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return run(one, inputs)


SAME = [
    # Movement.
    ("g (float[N,S,12] x) => (float[A,B,C,D] y)",
     "<int64[4] s = {0, 0, 3, 4}> { a = Reshape (x, s) b = Transpose <perm = [0, 2, 1, 3]> (a) y = Transpose "
      "<perm = [0, 1, 3, 2]> (b) }",
     "<int64[4] s = {0, 0, 3, 4}> { a = Reshape (x, s) y = Transpose <perm = [0, 2, 3, 1]> (a) }"),
    ("g (float[N,6] x) => (float[A,B] y)",
     "<int64[1] i = {1}> { a = Unsqueeze (x, i) b = Squeeze (a, i) y = Identity (b) }",
     "{ y = Flatten <axis = 1> (x) }"),
    ("g (float[N,8] x) => (float[A,B] y)",
     "<int64[2] n = {3, 5}> { a, b = Split <axis = 1> (x, n) y = Concat <axis = 1> (a, b) }", "{ y = Identity (x) }"),
    ("g (float[N,4] x) => (float[A,B] y)",
     "<int64[2] i = {1, 2}> { y = Gather <axis = 1> (x, i) }",
     "<int64[1] s = {1}, int64[1] e = {3}, int64[1] one = {1}> { y = Slice (x, s, e, one) }"),
    ("g (float[N,4] x) => (float[A,B] y)",
     "<int64[1] s = {-3}, int64[1] e = {9223372036854775807}, int64[1] one = {1}> { y = Slice (x, s, e, one) }",
     "<int64[1] n = {1}, int64[2] m = {1, 3}> { a, y = Split <axis = 1> (x, m) }"),
    # What is taken of parts that are joined.
    ("g (float[N,6,2] x, float[N,10,2] z) => (float[A,B,C] y)",
     "<int64[1] s = {1}, int64[1] e = {99}, int64[1] k = {3}> { c = Concat <axis = 1> (x, z) "
      "y = Slice (c, s, e, s, k) }",
     "<int64[1] s = {1}, int64[1] e = {99}, int64[1] k = {3}> { a = Slice (x, s, e, s, k) b = Slice (z, s, e, s, k) "
      "y = Concat <axis = 1> (a, b) }"),
    ("g (float[N,4] x, float[S,4] z) => (float[A,B] y)",
     "<int64[1] s = {0}> { c = Concat <axis = 0> (x, z) n = Shape <start = 0, end = 1> (x) y = Slice (c, s, n, s) }",
     "{ y = Identity (x) }"),
    ("g (float[N,3] x, float[N,2] z) => (float[A,B] y)",
     "<int64[1] s = {1}, int64[1] k = {0}> { c = Concat <axis = 1> (x, z) y = Slice (c, k, k, s) }",
     "<int64[1] s = {1}, int64[1] k = {0}> { y = Slice (x, k, k, s) }"),
    # Shapes that are computed.
    ("g (float[N,S,4] x) => (float[A,B] y)",
     "<int64 zero = {0}, int64 one = {1}, int64[1] at = {0}, int64[1] open = {-1}> { s = Shape (x) n = Gather "
      "(s, zero) m = Gather (s, one) k = Mul (n, m) l = Unsqueeze (k, at) t = Concat <axis = 0> (l, open) y = "
       "Reshape (x, t) }",
     "<int64[2] s = {-1, 4}> { y = Reshape (x, s) }"),
    ("g (float[N,3] x) => (float[A,B] y)",
     "{ s = Shape (x) c = ConstantOfShape <value = float[1] {2.0}> (s) y = Mul (x, c) }",
     "<float two = {2.0}> { y = Mul (two, x) }"),
    # Blocks of pixels.
    ("g (float[N,8,S,6] x) => (float[A,B,C,D] y)",
     "{ y = DepthToSpace <blocksize = 2> (x) }",
     "<int64[6] s = {0, 2, 2, 2, -1, 6}, int64[4] t = {0, 0, -1, 12}> { "
     "a = Reshape (x, s) b = Transpose <perm = [0, 3, 4, 1, 5, 2]> (a) y = Reshape (b, t) }"),
    ("g (float[N,8,S,6] x) => (float[A,B,C,D] y)",
     "{ a = DepthToSpace <blocksize = 2, mode = \"CRD\"> (x) y = Relu (a) }",
     "<int64[6] s = {0, 2, 2, 2, -1, 6}, int64[4] t = {0, 0, -1, 12}> { r = Relu (x) a = Reshape (r, s) b = Transpose "
     "<perm = [0, 1, 4, 2, 5, 3]> (a) y = Reshape (b, t) }"),
    ("g (float[N,4,6,9] x) => (float[A,B,C,D] y)",
     "{ y = SpaceToDepth <blocksize = 3> (x) }",
     "<int64[6] s = {0, 0, 2, 3, 3, 3}, int64[4] t = {0, 36, 2, 3}> { a = Reshape (x, s) b = Transpose <perm = "
     "[0, 3, 5, 1, 2, 4]> (a) y = Reshape (b, t) }"),
    ("g (float[N,4,6,9] x) => (float[A,B,C,D] y)",
     "{ a = SpaceToDepth <blocksize = 3> (x) y = DepthToSpace <blocksize = 3> (a) }", "{ y = Identity (x) }"),
    # Padding by elements, and less than nothing of it.
    ("g (float[N,4,3] x) => (float[A,B,C] y)",
     "<int64[6] p = {0, 2, 0, 0, 3, 1}> { a = Pad <mode = \"reflect\"> (x, p) y = Relu (a) }",
     "<int64[9] i = {2, 1, 0, 1, 2, 3, 2, 1, 0}, int64[4] j = {0, 1, 2, 1}> { r = Relu (x) "
     "a = Gather <axis = 1> (r, i) y = Gather <axis = 2> (a, j) }"),
    ("g (float[N,4,3] x) => (float[A,B,C] y)",
     "<int64[6] p = {0, 2, 0, 0, 4, 1}> { y = Pad <mode = \"edge\"> (x, p) }",
     "<int64[10] i = {0, 0, 0, 1, 2, 3, 3, 3, 3, 3}, int64[4] j = {0, 1, 2, 2}> { "
     "a = Gather <axis = 1> (x, i) y = Gather <axis = 2> (a, j) }"),
    ("g (float[N,4,3] x) => (float[A,B,C] y)",
     "<int64[6] p = {0, -1, 2, 0, -2, -3}, float v = {7.0}> { y = Pad (x, p, v) }",
     "<int64[6] p = {0, 0, 2, 0, 0, 0}, float v = {7.0}, int64[2] s = {1, 0}, int64[2] e = {2, 0}, "
     "int64[2] k = {1, 2}> { a = Slice (x, s, e, k) y = Pad (a, p, v) }"),
    # Constants, defaults, order of inputs, equal nodes, what nothing needs.
    ("g (float[N,3] x) => (float[A,B] y)",
     "<float[3] a = {1.0, 2.0, 3.0}, float[3] b = {4.0, 5.0, 6.0}> { c = Add (a, b) y = Add (x, c) }",
     "<float[1,3] c = {5.0, 7.0, 9.0}> { d = Neg (x) y = Add (c, x) }"),
    ("g (float[N,3] x) => (float[A,B] y)",
     "{ a = Relu (x) b = Relu (x) c = Softmax <axis = -1> (a) y = Add (b, c) }",
     "{ a = Relu (x) c = Softmax <axis = 1> (a) y = Add (c, a) }"),
    ("g (float[N,3] x) => (float[A,B] y)",
     "{ a = Cast <to = 1> (x) b = Dropout (a) y = Relu (b) }", "{ y = Relu (x) }"),
    ("g (float[N,3] x) => (float[A,B] y)",
     "<float one = {1.0}> { a = Mul (x, one) b = Neg (a) y = Neg (b) }", "{ y = Identity (x) }"),
    # Neutral numbers of any size, and a condition that is the same everywhere.
    ("g (float[N,S,3] x) => (float[A,B,C] y)",
     "<float one = {1.0}> { s = Shape (x) o = Expand (one, s) a = Mul (o, x) b = Div (a, o) y = Relu (b) }",
     "{ y = Relu (x) }"),
    ("g (float[N,S,3] x) => (float[A,B,C] y)",
     "{ s = Shape (x) t = ConstantOfShape <value = bool[1] {1}> (s) n = Neg (x) a = Where (t, n, x) "
      "z = ConstantOfShape (s) y = Sub (a, z) }",
     "{ y = Neg (x) }"),
    ("g (float[N,3] x) => (float[A,B] y)",
     "<float[3,2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, float[2] b = {1.0, 2.0}> { y = Gemm (x, w, b) }",
     "<float[2,3] w = {1.0, 3.0, 5.0, 2.0, 4.0, 6.0}, float[2] b = {1.0, 2.0}> { v = Transpose (w) a = MatMul "
      "(x, v) y = Add (b, a) }"),
    ("g (float[N,3] x) => (float[A] y)",
     "<int64[1] a = {-1}> { y = ReduceSum <keepdims = 0> (x, a) }",
     "<int64[1] a = {1}> { s = ReduceSum (x, a) y = Squeeze (s, a) }"),
    ("g (float[N,3] x) => (float[A,B] y)",
     "{ a = Reciprocal (x) b = Transpose (a) y = Transpose (b) }", "<float one = {1.0}> { y = Div (one, x) }"),
    # Bodies.
    ("g (bool c, float[N,3] x) => (float[A,B] y)",
     "{ a = Relu (x) y = If <then_branch = t () => (float[A,B] u) { b = Identity (a) u = Neg (b) }, "
      "else_branch = e () => (float[A,B] v) { v = Abs (a) }> (c) }",
     "{ y = If <then_branch = t () => (float[A,B] u) { b = Relu (x) u = Neg (b) }, else_branch = e () => "
      "(float[A,B] v) { b = Relu (x) v = Abs (b) }> (c) }"),
]  # fmt: skip


@pytest.mark.parametrize(("signature", "first", "second"), SAME, ids=range(len(SAME)))
def test_equal_models_are_proved_for_all_sizes(signature, first, second):
    one, other = model(signature + first), model(signature + second)
    for pair in ((one, other), (other, one)):
        found = prove(*pair)
        assert (found.verdict, found.rounding, found.reasons) == ("proved", [], [])
        assert found.outputs == {"y": True}
    assert "N" in found.names
    for size in (1, 2, 5):
        for a, b in zip(ran(one, {"N": size, "S": 3}), ran(other, {"N": size, "S": 3}), strict=True):
            assert error_of(a, b) == 0


DIFFERENT = [
    ("g (float[N,3] x) => (float[A,B] y) <float k = {1.0}> { s = Shape (x) o = Expand (k, s) y = Mul (x, o) }", "{1.0}",
     "{1.5}"),
    ("g (float[N,3] x) => (float[A,B] y) <bool k = {1}> { s = Shape (x) o = Expand (k, s) n = Neg (x) "
     "y = Where (o, n, x) }", "{1}", "{0}"),
    ("g (float[N,6] x) => (float[A,B] y) <int64[2] n = {-1, 3}> { y = Reshape (x, n) }", "{-1, 3}", "{-1, 2}"),
    ("g (float[N,2] x) => (float[A,B] y) { y = Softmax <axis = 1> (x) }", "axis = 1", "axis = 0"),
    ("g (float[N,2] x) => (float[A,B] y) <float[2] c = {1.0, 2.0}> { y = Sub (x, c) }", "(x, c)", "(c, x)"),
    ("g (float[N,2] x) => (float[A,B] y) <float[2] c = {1.0, 2.0}> { y = Mul (x, c) }", "2.0", "2.5"),
    ("g (float[N,2] x) => (float[A,B] y) <float z = {1.0}> { y = Add (x, z) }", "{1.0}", "{2.0}"),
    ("g (float[N,3] x) => (float[A,B] y) <int64[3] i = {0, 2, 1}> { y = Gather <axis = 1> (x, i) }", "2, 1", "1, 2"),
    ("g (float[N,4] x) => (float[A,B] y) <float k = {1.0}> { y = Div (k, x) }", "1.0", "1.0625"),
    ("g (float[N,4] x) => (float[A,B] y) <int64[2] n = {2, 2}> { b, a = Split <axis = 1> (x, n) y = Concat "
     "<axis = 1> (a, b) }", "b, a =", "a, b ="),
    ("g (float[N,3,3] x) => (float[A,B,C] y) { y = Transpose <perm = [0, 2, 1]> (x) }", "[0, 2, 1]", "[0, 1, 2]"),
    ("g (bool c, float[N,3] x) => (float[A,B] y) { y = If <then_branch = t () => (float[A,B] u) { u = Neg (x) "
     "}, else_branch = e () => (float[A,B] v) { v = Abs (x) }> (c) }", "Neg", "Abs"),
    ("g (float[N,3] x) => (float[A,B] y) <int64[1] o = {1}> { s = Shape (x) y = Expand (x, s) }", "Expand (x, "
     "s)", "Add (x, x)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "old", "new"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_other_models_differ_and_an_input_shows_it(text, old, new):
    assert text.count(old) == 1
    one, other = model(text), model(text.replace(old, new))
    found = prove(one, other)
    assert found.verdict == "different"
    assert found.first_difference.output == "y"
    assert found.run.output == "y"
    results = [run(each, found.run.inputs) for each in (one, other)]
    assert error_of(results[0][0], results[1][0]) == found.run.error > 1000
    assert prove(one, other, runs=False).verdict == "undecided"


REFUSING = [
    ("g (float[N,2] x) => (float[A,B] y) { y = Identity (x) }",
     "<int64[3] s = {1, 2, 3}> { a = Reshape (x, s) b = Flatten <axis = 3> (a) y = Identity (x) }"),
    ("g (float[N,2] x) => (float[A,B] y) { y = Identity (x) }",
     "<int64[2] s = {3, 2}, int64[2] t = {-1, 2}> { a = Reshape (x, s) y = Reshape (a, t) }"),
    ("g (float[N,2] x) => (float[A,B] y) { y = Relu (x) }",
     "<int64[1] i = {4}> { a = Gather (x, i) y = Relu (x) }"),
    ("g (float[N,2] x, float[M,2] z) => (float[A,B] y) { y = Relu (x) }", "{ a = Add (x, z) y = Relu (x) }"),
    ("g (float[4,6] x) => (float[A,B] y) { y, z = Split <axis = 1, num_outputs = 2> (x) }",
     "{ y = Split <axis = 1, num_outputs = 2> (x) }"),
    # Runtimes take 2 for 0.
    ("g (float[4,0] x) => (float[A,B] y) { s = Shape (x) z = Neg (s) n = Neg (z) y = Reshape <allowzero = 1> (x, n) }",
     "<int64[2] s = {4, 0}> { y = Reshape <allowzero = 2> (x, s) }"),
    ("g (float[4,3] x) => (float[A] y) { a = Constant <value_ints = [1]> () y = ReduceSum <keepdims = 0> (x, a) }",
     "<int64[1] a = {1}> { z = ReduceSum <keepdims = 2> (x, a) y = Squeeze (z, a) }"),
    ("g (float[N,3] x) => (float[A,B] y) { a = Constant <value_ints = [1]> () y = ReduceSum (x, a) }",
     "<int64 a = {1}> { y = ReduceSum (x, a) }"),
    ("g (float[N,1] x) => (float[A] y) { a = Constant <value_ints = [1]> () y = Squeeze (x, a) }",
     "<int64 a = {1}> { y = Squeeze (x, a) }"),
    # Of constants, too.
    ("g (float[N,3] x) => (float[A] y) { a = Constant <value_ints = [0]> () c = Constant <value_floats = [1.0, 2.0, "
     "3.0]> () b = ReduceSum (c, a) y = Mul (x, b) }",
     "<int64 a = {0}, float[3] c = {1.0, 2.0, 3.0}> { b = ReduceSum (c, a) y = Mul (x, b) }"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "body"), REFUSING, ids=range(len(REFUSING)))
def test_what_may_refuse_inputs_is_not_proved(text, body):
    one, other = model(text), model(text[: text.index("{")] + body)
    assert prove(one, other, runs=False).verdict == "undecided"
    # The other way round, all that A takes is computed alike.
    assert prove(one, one).verdict == "proved"


@pytest.mark.parametrize(
    ("text", "old", "new", "reason"),
    [
        ("g (float[N] x) => (float[N] y) { y = Cast <to = 1> (x) }", "float[N] x", "double[N] x", "is FLOAT in A and "
         "DOUBLE in B"),
        ("g (float[N] x) => (float[N] y) { y = Neg (x) }", "float[N] x", "float[2] x", "is [N] in A and [2] in B"),
        ("g (float[N] x) => (float[N] y) { y = Neg (x) }", "float[N] x", "float[N,M] x", "has 1 dimension in "
         "A and 2 in B"),
        ("g (float[N] x) => (float[N] y) { y = Neg (x) }", "y", "z", 'A has 1 output that B lacks: "y"'),
        ("g (float[N] x) => (float[N] y) { y = Neg (x) }", "x", "z", "inputs are compared by name; if they are only "
         "called otherwise, rename those of one model"),
        ("g (float[N] x) => (float[N] y, float[N] z) { y = Neg (x) z = Abs (x) }", "(float[N] y, float[N] z)",
         "(float[N] z, float[N] y)", "outputs are in another order"),
    ],
)  # fmt: skip
def test_other_declarations_differ(text, old, new, reason):
    found = prove(model(text), model(text.replace(old, new)))
    assert found.verdict == "different"
    assert any(reason in each for each in found.reasons), found.reasons


def test_names_of_sizes_may_be_others():
    text = "g (float[N,M] x, float[N] z) => (float[A,B] y, float[N] w) { y = Neg (x) w = Abs (z) }"
    other = text.replace("[N", "[batch").replace("M]", "length]")
    assert prove(model(text), model(other)).verdict == "proved"
    with pytest.raises(ModelError, match=r'"[MN]" of A is two sizes of B'):
        prove(model(text), model(text.replace("float[N] z", "float[K] z")))


def test_sizes_may_be_given():
    one = model("g (float[N,6] x) => (float[A,B] y) { y = Identity (x) }")
    other = model("g (float[N,6] x) => (float[A,B] y) <int64[2] s = {2, 6}> { y = Reshape (x, s) }")
    assert prove(one, other, runs=False).verdict == "undecided"
    found = prove(one, other, {"N": 2})
    assert (found.verdict, found.sizes, found.names) == ("proved", {"N": 2}, [])
    with pytest.raises(ModelError, match='no size is named "M"; A has "N"'):
        prove(one, other, {"M": 2})


def test_sizes_that_tables_limit_are_named():
    table = np.arange(40, dtype=np.float32).reshape(10, 4)
    text = """g (float[N,4] x) => (float[A,B] y) <int64 zero = {0}, int64[1] at = {0}>
        { s = Shape (x) n = Gather (s, zero) e = Unsqueeze (n, at) p = Slice (t, at, e, at) y = Add (x, p) }"""
    one, other = model(text), model(text.replace("Add (x, p)", "Add (p, x)"))
    for each in (one, other):
        each.graph.initializer.append(numpy_helper.from_array(table, "t"))
    found = prove(one, other)
    assert (found.verdict, found.where) == ("proved", ["N ≤ 10"])


def test_what_is_drawn_is_never_proved():
    text = "g (float[N] x) => (float[N] y) { r = RandomNormalLike (x) y = Add (x, r) }"
    assert prove(model(text), model(text)).verdict == "undecided"


def test_rounding_is_said():
    one = model("g (float[N,2] x) => (float[A,B] y) <float z = {0.0}> { y = Add (x, z) }")
    other = model("g (float[N,2] x) => (float[A,B] y) { y = Identity (x) }")
    found = prove(one, other)
    assert (found.verdict, found.rounding) == ("rounded", ["0 is added, which makes 0 of −0"])


def test_movement_through_nodes_is_followed_where_sizes_are_known():
    """Elements of a product, and of what is added, are followed through transposes."""
    signature = "g (float[4,6] x) => (float[A,B] y)"
    weights = "<float[6,2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 1.0, 2.0, 3.0}>"
    one = model(f"{signature} {weights} {{ a = MatMul (x, w) b = Relu (a) y = Transpose (b) }}")
    other = model(f"{signature} {weights} {{ t = Transpose (x) v = Transpose (w) a = MatMul (v, t) y = Relu (a) }}")
    assert prove(one, other).verdict == "proved"
    wrong = ModelProto()
    wrong.CopyFrom(other)
    wrong.graph.node[-1].op_type = "Abs"
    assert prove(one, wrong).verdict == "different"


def test_axes_that_are_no_list_are_left_to_runtimes():
    text = "g (float[N,3] x) => (float[A,B,C] y) <int64[1,1] axes = {0}> { y = Unsqueeze (x, axes) }"
    assert prove(model(text), model(text)).verdict == "proved"
    assert prove(model("g (float[N,3] x) => (float[A,B,C] y) <int64[1] a = {0}> { y = Unsqueeze (x, a) }"), model(text),
                 runs=False).verdict == "undecided"  # fmt: skip


NUMBERS = ", ".join(str(float(k * k % 23)) for k in range(24))
WEIGHTS = f"<float[4,6] w = {{{NUMBERS}}}, int64[1] one = {{1}}, int64[1] two = {{2}}>"

THROUGH = [
    (
        "a = Relu (x) y = Transpose <perm = [2, 0, 1]> (a)",
        "t = Transpose <perm = [2, 0, 1]> (x) y = Relu (t)",
        "Abs (t)",
    ),
    (
        "m = MatMul (x, w) a = Sigmoid (m) y = Transpose <perm = [0, 2, 1]> (a)",
        """v = Transpose (w) t = Transpose <perm = [0, 2, 1]> (x) m = MatMul (v, t) y = Sigmoid (m)""",
        "Tanh (m)",
    ),
    (
        "s = Softmax <axis = 2> (x) y = Transpose <perm = [2, 1, 0]> (s)",
        "t = Transpose <perm = [2, 1, 0]> (x) y = Softmax <axis = 0> (t)",
        "Softmax <axis = 1> (t)",
    ),
    (
        "s = ReduceSum <keepdims = 0> (x, two) y = Unsqueeze (s, one)",
        "t = Transpose <perm = [0, 2, 1]> (x) y = ReduceSum (t, one)",
        "ReduceMax (t, one)",
    ),
    (
        "a = Exp (x) y = Slice (a, one, two, two)",
        "s = Slice (x, one, two, two) y = Exp (s)",
        "Neg (s)",
    ),
    (
        "m = MatMul (x, w) y, z = Split <axis = 2, num_outputs = 2> (m)",
        "v, u = Split <axis = 1, num_outputs = 2> (w) y = MatMul (x, v)",
        "MatMul (x, u)",
    ),
    (
        "c = Concat <axis = 1> (x, x) a = Relu (c) y = Transpose <perm = [1, 0, 2]> (a)",
        "t = Transpose <perm = [1, 0, 2]> (x) c = Concat <axis = 0> (t, t) y = Relu (c)",
        "Abs (c)",
    ),
    (
        "g = Transpose <perm = [0, 2, 1]> (x) y = Gather <axis = 1> (g, one)",
        "g = Gather <axis = 2> (x, one) y = Transpose <perm = [0, 2, 1]> (g)",
        "Transpose <perm = [1, 2, 0]> (g)",
    ),
]


@pytest.mark.parametrize(("first", "second", "wrong"), THROUGH)
def test_movement_through_nodes_is_followed_for_all_sizes(first, second, wrong):
    signature = f"g (float[N,M,4] x) => (float[A,B,C] y) {WEIGHTS}"
    one, other = (model(f"{signature} {{ {text} }}") for text in (first, second))
    assert prove(one, other).verdict == "proved"
    for sizes in ({"N": 1, "M": 1}, {"N": 2, "M": 3}):
        for a, b in zip(ran(one, sizes), ran(other, sizes), strict=True):
            assert error_of(a, b) < 8
    head, _, _ = second.partition("y = ")
    assert prove(one, model(f"{signature} {{ {head}y = {wrong} }}")).verdict == "different"


def test_matrices_cut_into_heads_are_one_matrix():
    signature = f"g (float[N,M,4] x) => (float[A,B,C,D] y) {WEIGHTS[:-1]}, int64[4] cut = {{0, 0, 2, 3}}>"
    whole = "m = MatMul (x, w) c = Reshape (m, cut) y = Transpose <perm = [0, 2, 1, 3]> (c)"
    heads = "c = Reshape (w, heads) h = Transpose <perm = [1, 0, 2]> (c) u = Unsqueeze (x, one) y = MatMul (u, h)"
    one = model(f"{signature} {{ {whole} }}")
    other = model(f"{signature[:-1]}, int64[3] heads = {{4, 2, 3}}> {{ {heads} }}")
    assert prove(one, other).verdict == "proved"
    swapped = heads.replace(
        "(w, heads)", "(w, heads) s = Transpose <perm = [0, 2, 1]> (c) d = Reshape (s, heads)"
    ).replace("(c) u", "(d) u")
    assert prove(one, model(f"{signature[:-1]}, int64[3] heads = {{4, 2, 3}}> {{ {swapped} }}")).verdict == "different"
    assert error_of(*(ran(each, {"N": 2, "M": 3})[0] for each in (one, other))) < 8


def test_images_are_as_large_as_convolutions_need():
    """A convolution refuses smaller images, so that its result has a pixel to cut off."""
    numbers = ", ".join(map(str, range(1, 13)))
    constants = f"float[4,1,3] k = {{{numbers}}}, int64[1] zero = {{0}}, int64[1] last = {{-1}}, int64[1] axis = {{2}}"
    signature = f"g (float[N,4,H] x) => (float[A,4,C] y) <{constants}>"
    cut = "c = Conv <group = 4, strides = [2]> (x, k) s = Slice (c, zero, last, axis) y = Relu (s)"
    first = "c = Conv <group = 4, strides = [2]> (x, k) r = Relu (c) y = Slice (r, zero, last, axis)"
    one, other = (model(f"{signature} {{ {text} }}") for text in (cut, first))
    assert prove(one, other).verdict == "proved"
    for height in (3, 4, 5, 8):
        for a, b in zip(ran(one, {"N": 1, "H": height}), ran(other, {"N": 1, "H": height}), strict=True):
            assert error_of(a, b) == 0
    wrong = first.replace("Slice (r, zero, last", "Slice (r, last, zero")
    assert prove(one, model(f"{signature} {{ {wrong} }}")).verdict == "different"


def test_softmax_of_old_opsets_is_along_all_axes_from_one_on():
    text = "g (float[N,3,4] x) => (float[N,3,4] y) { y = Softmax <axis = 1> (x) }"
    old = parser.parse_model(f'<ir_version: 8, opset_import: ["": 11]> {text}')
    new = parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> {text}')
    last = parser.parse_model(f'<ir_version: 8, opset_import: ["": 11]> {text.replace("axis = 1", "axis = 2")}')
    also = parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> {text.replace("axis = 1", "axis = 2")}')
    found = prove(old, new)
    assert found.verdict == "different"
    assert found.first_difference.terms == ('Softmax<(1,)>("x")[N, 12]', 'Softmax<(1,)>("x")[N, 3, 4]')
    assert prove(last, also).verdict == "proved"


def test_padding_is_joining_with_constants():
    signature = "g (float[N,2] x) => (float[A,B] y)"
    one = model(f"{signature} <int64[4] p = {{0, 1, 0, 3}}> {{ y = Pad (x, p) }}")
    other = model(
        f"{signature} <int64[4] p = {{0, 1, 0, 1}}, int64[4] q = {{0, 0, 0, 2}}> {{ a = Pad (x, p) y = Pad (a, q) }}"
    )
    assert prove(one, other).verdict == "proved"
    wrong = model(f"{signature} <int64[4] p = {{0, 2, 0, 2}}> {{ y = Pad (x, p) }}")
    assert prove(one, wrong).verdict == "different"


def test_weights_are_compared_as_asked():
    text = "g (float[N,4] x) => (float[A,B] y) <float[4,2] w = {WEIGHTS}> { y = MatMul (x, w) }"
    turned = text.replace("w = {WEIGHTS}> {", "v = {WEIGHTS}> { w = Transpose <perm = [1, 0]> (v)").replace(
        "4,2]", "2,4]"
    )
    first = model(text.replace("WEIGHTS", "0, 1, 2, 3, 4, 5, 6, 7"))
    negative = model(text.replace("WEIGHTS", "-0.0, 1, 2, 3, 4, 5, 6, 7"))
    trained = model(turned.replace("WEIGHTS", "9, 8, 7, 6, 5, 4, 3, 2"))
    kinds = ("bits", "value", "none")
    assert [prove(first, negative, runs=False, weights=kind).verdict for kind in kinds] == [
        "undecided",
        "proved",
        "proved",
    ]
    assert [prove(first, trained, weights=kind).verdict for kind in kinds] == ["different", "different", "proved"]
    assert prove(first, trained, weights="none").reasons == ["constants of floats are not compared"]
    other = model(
        turned.replace("WEIGHTS", "9, 8, 7, 6, 5, 4, 3, 2")
        .replace("MatMul (x, w)", "MatMul (x, w) ")
        .replace("y = MatMul (x, w) ", "z = MatMul (x, w) y = Neg (z)")
    )
    assert prove(first, other, weights="none").verdict == "undecided"


def test_products_of_no_elements_are_compared():
    body = """g (float[2,0] x, float[0,3] z) => (float[A,B] y)
        { a = MatMul (x, z) s = Softmax <axis = 1> (a) y = ReduceMean (s) }"""
    one = model(body)
    other = model(body.replace("axis = 1", "axis = 0"))
    assert prove(one, one).verdict == "proved"
    assert prove(one, other, runs=False).verdict == "undecided"


@pytest.mark.parametrize(("start", "end"), [(3, 2**31 - 1), (3, 2**63 - 1), (-9, -9)])
def test_slices_that_runtimes_read_otherwise_are_equal_to_none_but_themselves(start, end):
    """By ONNX nothing is taken of the first two; ONNX Runtime takes all four rows."""
    text = f"""g (float[4,2] x) => (float[A,B] y) <int64[1] s = {{{start}}}, int64[1] e = {{{end}}}, int64[1] a = {{0}},
        int64[1] t = {{-1}}> {{ y = Slice (x, s, e, a, t) }}"""
    one = model(text)
    assert prove(one, one, runs=False).verdict == "proved"
    for end in (4, -100):
        other = model(text.replace(f"e = {{{one.graph.initializer[1].int64_data[0]}}}", f"e = {{{end}}}"))
        assert prove(one, other, runs=False).verdict == "undecided"
