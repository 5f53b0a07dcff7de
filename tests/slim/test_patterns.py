"""Well-known movement, and the nodes that it takes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper, parser
from onnx.reference import ReferenceEvaluator
from slim.claims import proved

from anydml.slim import slim
from anydml.slim.expressions import cost

HEADER = '<ir_version: 8, opset_import: ["": 18]> '


def model(text):
    return parser.parse_model(HEADER + text)


def run(given):
    """Its results for inputs of 0, 1, 2 … of the sizes that it has; 3 where it says none."""
    inputs = {}
    for value in given.graph.input:
        sizes = [dim.dim_value or 3 for dim in value.type.tensor_type.shape.dim]
        inputs[value.name] = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    return ReferenceEvaluator(given).run(None, inputs)


def kinds(text):
    """The operators that are left, after it has been seen that the results are the same."""
    before = model(text)
    slimmed = slim(before)
    onnx.checker.check_model(slimmed.model, full_check=True)
    for a, b in zip(run(before), run(slimmed.model), strict=True):
        np.testing.assert_array_equal(a, b)
    assert slimmed.notes == []
    assert not any(region.refused for region in slimmed.regions)
    return [node.op_type for node in slimmed.model.graph.node]


PATTERNS = {
    "what undoes itself": (
        """g (float[2,3,4] x) => (float[2,3,4] z)
        { a = Transpose <perm = [1, 0, 2]> (x) b = Transpose <perm = [1, 0, 2]> (a) z = Relu (b) }""",
        ["Relu"],
    ),
    "two transpositions are one": (
        """g (float[2,3,4] x) => (float[4,2,3] z)
        { a = Transpose <perm = [1, 0, 2]> (x) z = Transpose <perm = [2, 1, 0]> (a) }""",
        ["Transpose"],
    ),
    "a transposition of axes of 1 is a Reshape": (
        "g (float[2,1,3] x) => (float[1,2,3] z) { z = Transpose <perm = [1, 0, 2]> (x) }",
        ["Reshape"],
    ),
    "split and joined again": (
        """g (float[2,6] x) => (float[2,6] z) <int64[2] n = {2, 4}>
        { a, b = Split <axis = 1> (x, n) c = Concat <axis = 1> (a, b) z = Relu (c) }""",
        ["Relu"],
    ),
    "sizes with names": (
        """g (float[B,S,12] x) => (float[B,3,4,S] z) <int64[4] n = {0, 0, 3, 4}>
        { a = Reshape (x, n) b = Transpose <perm = [0, 2, 1, 3]> (a) z = Transpose <perm = [0, 1, 3, 2]> (b) }""",
        ["Reshape", "Transpose"],
    ),
    "sizes that the graph works out": (
        """g (float[B,S,12] x) => (float[B,S,3,4] z) <int64[2] two = {0, 1}, int64[2] n = {3, 4}>
        { a = Shape (x) b = Gather <axis = 0> (a, two) c = Concat <axis = 0> (b, n) z = Reshape (x, c) }""",
        ["Reshape"],
    ),
    "a window that is shifted and cut into blocks": (
        """g (float[1,4,4,16] x) => (float[4,4,16] z)
        <int64[1] one = {1}, int64[1] zero = {0}, int64[1] end = {99}, int64[1] two = {2},
         int64[6] n = {1, 2, 2, 2, 2, 16}, int64[3] m = {4, 4, 16}>
        { a = Slice (x, one, end, one) b = Slice (x, zero, one, one) c = Concat <axis = 1> (a, b)
          d = Slice (c, one, end, two) e = Slice (c, zero, one, two) f = Concat <axis = 2> (d, e)
          h = Reshape (f, n) i = Transpose <perm = [0, 1, 3, 2, 4, 5]> (h) z = Reshape (i, m) }""",
        ["Reshape", "Gather", "Reshape"],
    ),
    "every second pixel, its channels side by side": (
        """g (float[1,4,4,8] x) => (float[1,2,2,32] z)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] end = {99}>
        { a = Slice (x, zero, end, one, two) b = Slice (x, one, end, one, two)
          c = Slice (a, zero, end, two, two) d = Slice (b, zero, end, two, two)
          e = Slice (a, one, end, two, two) f = Slice (b, one, end, two, two)
          z = Concat <axis = 3> (c, d, e, f) }""",
        ["Reshape", "Transpose", "Reshape"],
    ),
    "every second pixel, where single elements would be moved": (
        """g (float[1,1,4,4] x) => (float[1,2,4,2] z)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] end = {99}>
        { a = Slice (x, zero, end, three, two) b = Slice (x, one, end, three, two) z = Concat <axis = 1> (b, a) }""",
        ["Slice", "Slice", "Concat"],
    ),
    "channels that are shuffled and split": (
        """g (float[1,4,2,2] x, float[1,4,2,2] y) => (float[1,4,2,2] p, float[1,4,2,2] q)
        <int64[5] n = {1, 2, 4, 2, 2}, int64[4] m = {1, 8, 2, 2}>
        { a = Concat <axis = 1> (x, y) b = Reshape (a, n) c = Transpose <perm = [0, 2, 1, 3, 4]> (b)
          d = Reshape (c, m) p, q = Split <axis = 1, num_outputs = 2> (d) }""",
        ["Concat", "Reshape", "Split"],
    ),
    "depth to space": (
        """g (float[1,12,2,2] x) => (float[1,3,4,4] z) <int64[6] n = {1, 3, 2, 2, 2, 2}, int64[4] m = {1, 3, 4, 4}>
        { a = Reshape (x, n) b = Transpose <perm = [0, 1, 4, 2, 5, 3]> (a) z = Reshape (b, m) }""",
        ["DepthToSpace"],
    ),
    "depth to space, whose blocks come first": (
        """g (float[1,12,2,2] x) => (float[1,3,4,4] z) <int64[6] n = {1, 2, 2, 3, 2, 2}, int64[4] m = {1, 3, 4, 4}>
        { a = Reshape (x, n) b = Transpose <perm = [0, 3, 4, 1, 5, 2]> (a) z = Reshape (b, m) }""",
        ["DepthToSpace"],
    ),
    "space to depth": (
        """g (float[1,3,4,4] x) => (float[1,12,2,2] z) <int64[6] n = {1, 3, 2, 2, 2, 2}, int64[4] m = {1, 12, 2, 2}>
        { a = Reshape (x, n) b = Transpose <perm = [0, 3, 5, 1, 2, 4]> (a) z = Reshape (b, m) }""",
        ["SpaceToDepth"],
    ),
    "every second pixel of channels": (
        """g (float[1,3,8,8] x) => (float[1,12,4,4] z)
        <int64[2] a = {0, 0}, int64[2] b = {1, 0}, int64[2] c = {0, 1}, int64[2] d = {1, 1}, int64[2] end = {9, 9},
         int64[2] axes = {2, 3}, int64[2] two = {2, 2}>
        { p = Slice (x, a, end, axes, two) q = Slice (x, b, end, axes, two) r = Slice (x, c, end, axes, two)
          s = Slice (x, d, end, axes, two) z = Concat <axis = 1> (p, q, r, s) }""",
        ["SpaceToDepth", "Gather"],
    ),
    "the same for several readers": (
        """g (float[2,3,4] x) => (float[3,2,4] y, float[3,2,4] z)
        { a = Transpose <perm = [1, 0, 2]> (x) y = Relu (a) b = Transpose <perm = [1, 0, 2]> (x) z = Neg (b) }""",
        ["Transpose", "Relu", "Neg"],
    ),
    "padding that is cut off": (
        """g (float[4] x) => (float[4] z) <int64[2] n = {1, 1}, int64[1] one = {1}, int64[1] five = {5}>
        { a = Pad (x, n) b = Slice (a, one, five) z = Relu (b) }""",
        ["Relu"],
    ),
    "what repeats stays small as long as it can": (
        """g (float[2,1,3] x) => (float[3,4,2] z) <int64[3] n = {2, 4, 3}>
        { a = Expand (x, n) z = Transpose <perm = [2, 1, 0]> (a) }""",
        ["Transpose", "Expand"],
    ),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern(name):
    text, expected = PATTERNS[name]
    assert kinds(text) == expected


@pytest.mark.parametrize("opset", [11, 12, 13, 18])
@pytest.mark.parametrize(
    ("sizes", "perm", "left"),
    [
        ("A,B,1,4", [0, 2, 1, 3], ["Squeeze", "Unsqueeze", "Relu"]),
        ("A,1,B", [1, 0, 2], ["Squeeze", "Unsqueeze", "Relu"]),
        ("1,1,A,B", [2, 0, 3, 1], ["Squeeze", "Unsqueeze", "Relu"]),
        ("A,1,B,1", [1, 0, 2, 3], ["Squeeze", "Unsqueeze", "Relu"]),
    ],
)
def test_axes_of_1_beside_sizes_with_names_need_no_transposition(sizes, perm, left, opset):
    named = ",".join("KLMN"[: len(perm)])
    before = parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> g (float[{sizes}] x) => (float[{named}] z) '
        f"{{ a = Transpose <perm = {perm}> (x) z = Relu (a) }}"
    )
    after = slim(before).model
    onnx.checker.check_model(after, full_check=True)
    assert [node.op_type for node in after.graph.node] == left
    proved(before, after)
    for a, b in ((0, 2), (3, 0), (1, 1), (2, 3)):
        shape = [{"A": a, "B": b, "1": 1, "4": 4}[size] for size in sizes.split(",")]
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        expected, found = (ReferenceEvaluator(each).run(None, {"x": x})[0] for each in (before, after))
        np.testing.assert_array_equal(found, expected)


def test_initializers_are_moved_once_and_those_shared_stay_shared():
    before = model("""g (float[2,3] x) => (float[2,2] y, float[2,2] z)
        <float[2,3] w = {1, 2, 3, 4, 5, 6}> {
        a = Transpose <perm = [1, 0]> (w) b = Transpose <perm = [1, 0]> (w) y = MatMul (x, a) z = MatMul (x, b) }""")
    after = slim(before).model
    assert [node.op_type for node in after.graph.node] == ["MatMul", "MatMul"]
    assert len({node.input[1] for node in after.graph.node}) == 1
    (weights,) = after.graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(weights), [[1, 4], [2, 5], [3, 6]])


def test_what_a_subgraph_reads_keeps_its_name():
    before = model("""g (bool c, float[2,3] x) => (float[2,3] z) {
        a = Transpose <perm = [1, 0]> (x) b = Transpose <perm = [1, 0]> (a)
        z = If (c) <then_branch = t () => (float[2,3] y) { y = Relu (b) },
                    else_branch = e () => (float[2,3] w) { w = Neg (b) }> }""")
    after = slim(before).model
    onnx.checker.check_model(after, full_check=True)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (found,) = ReferenceEvaluator(after).run(None, {"c": np.array(False), "x": x})
    np.testing.assert_array_equal(found, -x)


def test_names_of_outputs_and_of_nodes_that_compute_stay():
    before = model("""g (float[2,3] x) => (float[2,3] kept, float[3,2] moved) {
        a = Transpose <perm = [1, 0]> (x) kept = Transpose <perm = [1, 0]> (a)
        moved = Transpose <perm = [1, 0]> (x) }""")
    before.graph.node.append(onnx.helper.make_node("Relu", ["a"], ["r"], "the last"))
    before.graph.output.append(onnx.helper.make_tensor_value_info("r", TensorProto.FLOAT, [3, 2]))
    before.metadata_props.add(key="author", value="somebody")
    after = slim(before).model
    assert [*after.graph.output] == [*before.graph.output]
    assert [*after.graph.input] == [*before.graph.input]
    assert [*after.metadata_props] == [*before.metadata_props]
    assert "the last" in [node.name for node in after.graph.node]


def test_a_model_without_better_movement_is_itself():
    before = model("g (float[2,3] x) => (float[3,2] z) { z = Transpose <perm = [1, 0]> (x) }")
    slimmed = slim(before)
    assert slimmed.model is before


def test_sizes_that_are_added_to_are_not_believed():
    """N + 1 reads as a number for one N: what is written for it must not be kept."""
    before = model("""g (float[N,2] x) => (float[2,M] z) <int64[4] n = {1, 0, 0, 0}> {
        a = Pad (x, n) b = Transpose <perm = [1, 0]> (a) c = Transpose <perm = [1, 0]> (b)
        z = Transpose <perm = [1, 0]> (c) }""")
    slimmed = slim(before)
    for size in (0, 1, 2, 5):
        x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        expected, found = (ReferenceEvaluator(each).run(None, {"x": x}) for each in (before, slimmed.model))
        np.testing.assert_array_equal(expected[0], found[0])


def rewritten(text, what):
    """The operators that are left where nodes that compute are rewritten, too, and what was done to them."""
    before = model(text)
    slimmed = slim(before)
    onnx.checker.check_model(slimmed.model, full_check=True)
    for a, b in zip(run(before), run(slimmed.model), strict=True):
        np.testing.assert_array_equal(a, b)
    assert [stage.title for stage in slimmed.stages if stage.title] == [what]
    proved(before, slimmed.model)
    return [node.op_type for node in slimmed.model.graph.node]


def test_transposes_cancel_across_nodes_that_compute():
    text = """g (float[2,3,4] x, float[2,3,4] y) => (float[2,3,4] z) <float[4,1] c = {1, 2, 3, 4}> {
        a = Transpose <perm = [0, 2, 1]> (x) b = Transpose <perm = [0, 2, 1]> (y)
        d = Add (a, b) e = Mul (d, c) f = Concat <axis = 1> (e, d) h = Split_ (f) }"""
    text = text.replace("h = Split_ (f)", "h, i = Split <axis = 1, num_outputs = 2> (f) j = Sub (h, i)")
    text = text.replace(" }", " z = Transpose <perm = [0, 2, 1]> (j) }")
    assert "Transpose" not in rewritten(text, "transposes move through nodes")


def test_transposes_between_many_nodes_cancel_in_pairs():
    nodes = " ".join(f"r{k} = Relu (t{k}) t{k + 1} = Transpose <perm = [1, 0]> (r{k})" for k in range(20))
    text = f"g (float[3,4] t0) => (float[3,4] z) {{ {nodes} z = Neg (t20) }}"
    assert rewritten(text, "transposes move through nodes") == ["Relu"] * 20 + ["Neg"]


@pytest.mark.parametrize(
    "step",
    ["Transpose <perm = [1, 0]> (x{})", "Pad (x{}, p)", "Identity (x{})"],
    ids=lambda step: step.split()[0],
)
def test_long_chains_are_followed(step):
    """Each step as deep as Python allows calls."""
    nodes = " ".join(f"x{k + 1} = {step.format(k)}" for k in range(1200))
    before = model(f"g (float[4,4] x0) => (float[M,N] z) {{ {nodes} z = Neg (x1200) }}")
    before.graph.initializer.append(numpy_helper.from_array(np.array([0, 1, 0, 0]), "p"))
    slimmed = slim(before)
    proved(before, slimmed.model)
    assert len(slimmed.model.graph.node) < 1200


@pytest.mark.parametrize(
    "steps", ["b = ReduceMax (a, last) c = Sub (a, b)", "c = LayerNormalization <axis = -1> (a, s)"]
)
def test_transposes_move_through_rows(steps):
    text = """g (float[8,16,64] x) => (float[8,16,64] z) <int64[1] last = {-1}> {
        a = Transpose <perm = [1, 0, 2]> (x) STEPS z = Transpose <perm = [1, 0, 2]> (c) }"""
    before = model(text.replace("STEPS", steps))
    before.graph.initializer.append(numpy_helper.from_array(np.arange(64, dtype=np.float32), "s"))
    after = slim(before).model
    assert "Transpose" not in [node.op_type for node in after.graph.node]
    for a, b in zip(run(before), run(after), strict=True):
        np.testing.assert_array_equal(a, b)


def test_transposes_stay_where_rows_would_be_others():
    text = """g (float[8,16,64] x) => (float[8,64,16] z) <int64[1] last = {-1}> {
        a = Transpose <perm = [0, 2, 1]> (x) b = ReduceSum (a, last) c = Sub (a, b) z = Relu (c) }"""
    assert "Transpose" in [node.op_type for node in slim(model(text)).model.graph.node]


def test_numbers_of_nodes_that_transposes_move_through_may_be_constant_nodes():
    text = """g (float[2,3,4,8] x) => (float[2,3,4,4] z) { a = Transpose <perm = [0, 2, 1, 3]> (x) b = Sin (a)
        s = Constant <value_ints = [0]> () e = Constant <value_ints = [4]> () axes = Constant <value_ints = [3]> ()
        k = Constant <value_floats = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> () c = Mul (b, k)
        d = Slice (c, s, e, axes) z = Transpose <perm = [0, 2, 1, 3]> (d) }"""
    assert "Transpose" not in rewritten(text, "transposes move through nodes")


def test_softmax_keeps_its_axis():
    text = """g (float[2,3,4] x) => (float[3,2,4] z) {
        a = Transpose <perm = [1, 0, 2]> (x) b = Softmax <axis = 2> (a) c = Exp (b)
        z = Transpose <perm = [0, 1, 2]> (c) }"""
    assert slim(model(text)).stages[-1].title == ""
    text = """g (float[2,3,4] x) => (float[2,3,4] z) {
        a = Transpose <perm = [1, 0, 2]> (x) b = Softmax <axis = 2> (a) z = Transpose <perm = [1, 0, 2]> (b) }"""
    assert rewritten(text, "transposes move through nodes") == ["Softmax", "Identity"]


def test_matrices_that_repeat_are_broadcast():
    text = """g (float[1,4,3,500] q, float[1,2,3,500] k) => (float[1,4,3,3] z) <float[1] scale = {0.5},
        int64[1] two = {2}, int64[5] n = {1, 2, 2, 500, 3}, int64[4] m = {1, 4, 500, 3}> {
        a = Transpose <perm = [0, 1, 3, 2]> (k) b = Unsqueeze (a, two) c = Expand (b, n) d = Reshape (c, m)
        e = Mul (d, scale) z = MatMul (q, e) }"""
    assert "Expand" not in rewritten(text, "what repeats is broadcast")


def test_what_broadcasting_does_is_not_done_before():
    text = """g (float[2,3,4] x, float[2,3,1] y) => (float[2,3,4] z) <int64[3] n = {2, 3, 4}> {
        a = Expand (y, n) z = Sub (x, a) }"""
    assert rewritten(text, "what repeats is broadcast") == ["Sub"]


RESHAPED = "Reshapes move through nodes"

TWICE = """g (float[6,4] x) => (float[6,4] z) <float[4,4] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7},
    float[4] s = {1, 2, 3, 4}, int64[3] n = {2, 3, 4}, int64[2] m = {6, 4}, float[1,1,4] k = {1, 2, 3, 4},
    int64[1] last = {2}> {
    a = Gemm (x, w) b = Reshape (a, n) STEPS e = Reshape (d, m) z = Gemm (e, w) }"""


@pytest.mark.parametrize(
    "steps",
    [
        "c = Relu (b) d = Mul (c, k)",
        "c = Softmax <axis = 2> (b) d = Add (c, b)",
        "c = LayerNormalization <axis = 2> (b, s, s) d = Mul (s, c)",
        "c = ReduceMax <keepdims = 1> (b, last) d = Sub (b, c)",
        "c = MatMul (b, w) d = Neg (c)",
    ],
)
def test_reshapes_move_through_nodes(steps):
    assert "Reshape" not in rewritten(TWICE.replace("STEPS", steps), RESHAPED)


@pytest.mark.parametrize(
    "steps",
    ["c = Softmax <axis = 1> (b) d = Add (c, b)", "c = ReduceMax (b, one) d = Sub (b, c)", "d = Mul (b, l)"],
)
def test_reshapes_stay_where_axes_are_needed(steps):
    more = "int64[1] one = {1}, float[2,1,4] l = {1, 2, 3, 4, 5, 6, 7, 8}, float[4] s"
    text = TWICE.replace("float[4] s", more).replace("STEPS", steps)
    assert RESHAPED not in [stage.title for stage in slim(model(text)).stages]


def test_heads_that_share_keys_stay_in_groups():
    text = """g (float[1,4,3,5] q, float[1,2,1,3,5] k) => (float[1,4,3,5] z) <int64[5] n = {1, 2, 2, 3, 5},
        int64[4] m = {1, 4, 3, 3}, int64[5] l = {1, 2, 2, 3, 3}, int64[4] o = {1, 4, 3, 5}, float[1] scale = {0.5}> {
        a = Reshape (q, n) t = Transpose <perm = [0, 1, 2, 4, 3]> (k) b = MatMul (a, t) c = Reshape (b, m)
        d = Mul (c, scale) e = Softmax <axis = 3> (d) f = Reshape (e, l) h = MatMul (f, k) z = Reshape (h, o) }"""
    assert rewritten(text, RESHAPED).count("Reshape") == 2


def test_signs_move_into_constants():
    text = """g (float[64,256] x) => (float[64,256] z) <int64[1] zero = {0}, int64[1] half = {128},
        int64[1] end = {999}, int64[1] one = {1}, float[1] s = {0.25}> {
        a = Slice (x, half, end, one) b = Slice (x, zero, half, one) c = Neg (a) d = Concat <axis = 1> (c, b)
        z = Mul (d, s) }"""
    assert rewritten(text, "signs move into constants") == ["Reshape", "Gather", "Reshape", "Mul"]


def test_what_is_there_for_its_size_alone_goes():
    text = """g (float[N,2,3] x) => (float[N,3,2] z) <int64[1] zero = {0}, int64[2] n = {3, 2}> {
        a = Transpose <perm = [0, 2, 1]> (x) b = Transpose <perm = [2, 1, 0]> (a) c = Transpose <perm = [2, 1, 0]> (b)
        d = Shape (b) one = Constant <value_ints = [2]> () e = Gather <axis = 0> (d, one)
        f = Concat <axis = 0> (e, n) z = Reshape (c, f) }"""
    assert sorted(kinds(text)) == ["Transpose"]


def test_many_parts_are_not_tried_one_by_one(monkeypatch):
    """Each try looks at all expressions: a thousand parts took two seconds."""
    tries = []
    monkeypatch.setattr("anydml.slim.planning.cost", lambda *exprs: tries.append(exprs) or cost(*exprs))
    names = [f"p{k}" for k in range(1000)]
    results = ", ".join(f"float[1,2] {name}" for name in names)
    text = f"g () => ({results}) {{ a = Concat <axis = 0> (w, w)"
    before = model(f"{text} {', '.join(names)} = Split <axis = 0, num_outputs = 1000> (a) }}")
    before.graph.initializer.append(numpy_helper.from_array(np.zeros((500, 2), np.float32), "w"))
    slim(before)
    assert 0 < len(tries) < 100
    # Few parts are: this would find it out if nothing were tried.
    tries.clear()
    kinds(PATTERNS["split and joined again"][0])
    assert tries
