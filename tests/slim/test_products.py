"""Products by constant matrices, computed as they are read: fewer bytes are moved, and the numbers are the same."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest
from how_many import how_many
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, helper, numpy_helper, parser
from slim.claims import is_accepted, proved
from slim.test_random_models import run

from anydml.slim import slim
from anydml.slim.orders import Order
from anydml.slim.pipeline import FOLDING_TITLE

LAID = "products are computed as they are read"
CUT = "products are cut where their results are"


def model(text, **constants):
    """A model with small whole numbers as constants, whose sums are exact in any order."""
    made = parser.parse_model('<ir_version: 8, opset_import: ["": 18]> ' + text)
    random = np.random.default_rng(0)
    for name, sizes in constants.items():
        found = np.array(sizes) if name.startswith("n") else random.integers(-3, 4, sizes).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(found, name))
    return made


def slimmed(before):
    """What became of a model, after it has been seen that it computes the same."""
    found = slim(before)
    onnx.checker.check_model(found.model, full_check=True)
    random, inputs = np.random.default_rng(1), {}
    for value in before.graph.input:
        sizes = [dim.dim_value or 3 for dim in value.type.tensor_type.shape.dim]
        inputs[value.name] = random.integers(-3, 4, sizes).astype(np.float32)
    for expected, other in zip(run(before, inputs), run(found.model, inputs), strict=True):
        np.testing.assert_array_equal(other, expected)
    proved(before, found.model)
    return found


def kinds(found):
    return [node.op_type for node in found.model.graph.node]


def whats(found):
    return [stage.title for stage in found.stages if stage.title]


ATTENTION = """g (float[1,64,32] x) => (float[1,64,64] z) {
    a = MatMul (x, wq) b = Add (a, bq) c = Reshape (b, n) q = Transpose <perm = [0, 2, 1, 3]> (c)
    d = MatMul (x, wk) e = Add (d, bk) f = Reshape (e, n) k = Transpose <perm = [0, 2, 3, 1]> (f)
    h = MatMul (x, wv) i = Reshape (h, n) v = Transpose <perm = [0, 2, 1, 3]> (i)
    s = MatMul (q, k) o = MatMul (s, v) p = Transpose <perm = [0, 2, 1, 3]> (o) z = Reshape (p, nz) }"""

WEIGHTS = {"wq": (32, 64), "wk": (32, 64), "wv": (32, 64), "bq": 64, "bk": 64, "n": [1, 64, 4, 16], "nz": [1, 64, 64]}


def test_attention_keeps_one_transposition():
    found = slimmed(model(ATTENTION, **WEIGHTS))
    assert kinds(found).count("Transpose") == 1
    assert kinds(found).count("Gemm") == 1, "keys are computed transposed"
    assert whats(found) == [LAID]
    assert not found.is_exact


MLP = """g (float[1,8,8,32] x) => (float[1,8,8,32] z) {
    t = Reshape (x, n) a = MatMul (t, w) b = Add (a, v) c = Relu (b) d = MatMul (c, u) e = Add (d, y) f = Add (e, t)
    z = Reshape (f, nz) }"""


@pytest.mark.parametrize("exact", [False, True])
def test_products_to_which_rows_are_added_are_of_matrices(exact):
    """Runtimes compute both by one Gemm, which takes two axes."""
    given = model(MLP, w=(32, 48), v=48, u=(48, 32), y=32, n=[1, 64, 32], nz=[1, 8, 8, 32])
    found = slim(given, exact=exact)
    assert kinds(found) == ["Reshape", "MatMul", "Add", "Relu", "MatMul", "Add", "Add", "Reshape"]
    values = {each.name: each for each in onnx.shape_inference.infer_shapes(found.model).graph.value_info}
    for node in found.model.graph.node[1:-1]:
        assert [dim.dim_value for dim in values[node.output[0]].type.tensor_type.shape.dim[:-1]] == [64]
    proved(given, found.model)


def test_no_reshapes_are_added_where_nothing_moved():
    text = """g (float[1,64,32] x) => (float[1,64,32] z) {
        a = MatMul (x, w) b = Add (a, v) c = Relu (b) d = MatMul (c, u) z = Add (d, y) }"""
    found = slimmed(model(text, w=(32, 48), v=48, u=(48, 32), y=32))
    assert kinds(found) == ["MatMul", "Add", "Relu", "MatMul", "Add"]


def test_exact_leaves_products_alone():
    given = model(ATTENTION, **WEIGHTS)
    found = slim(given, exact=True)
    assert found.is_exact
    assert not {LAID, CUT} & {*whats(found)}
    products = [[node for node in each.graph.node if node.op_type == "MatMul"] for each in (given, found.model)]
    assert [node.output for node in products[0]] == [node.output for node in products[1]]
    x = {"x": np.random.default_rng(1).standard_normal((1, 64, 32), np.float32)}
    for expected, other in zip(run(given, x), run(found.model, x), strict=True):
        np.testing.assert_array_equal(other, expected)


def test_products_stay_where_sizes_are_not_known():
    text = ATTENTION.replace("float[1,64,", "float[1,S,")
    weights = {**WEIGHTS, "n": [1, -1, 4, 16], "nz": [1, -1, 64]}
    assert LAID not in whats(slim(model(text, **weights)))


def test_products_are_computed_by_heads_whatever_the_batch():
    text = ATTENTION.replace("float[1,64,", "float[N,64,")
    before = model(text, **{**WEIGHTS, "n": [0, 64, 4, 16], "nz": [-1, 64, 64]})
    found = slimmed(before)
    assert whats(found) == [LAID]
    assert kinds(found).count("Transpose") == 2, "keys and the result are transposed"
    for batch in (0, 1, 2, 7):
        x = {"x": np.random.default_rng(2).integers(-3, 4, (batch, 64, 32)).astype(np.float32)}
        for expected, other in zip(run(before, x), run(found.model, x), strict=True):
            np.testing.assert_array_equal(other, expected)


@pytest.mark.parametrize("rows", [63, 64])
def test_products_are_laid_where_rows_are_known_to_be_enough(rows):
    text = ATTENTION.replace("float[1,64,", f"float[N,{rows},").replace("32] x", "128] x")
    weights = {**WEIGHTS, **dict.fromkeys(("wq", "wk", "wv"), (128, 64)), "n": [0, rows, 4, 16], "nz": [0, rows, 64]}
    assert (LAID in whats(slimmed(model(text, **weights)))) is (rows == 64)


def test_products_of_few_rows_stay():
    text = ATTENTION.replace("float[1,64,", "float[1,8,")
    weights = {**WEIGHTS, "n": [1, 8, 4, 16], "nz": [1, 8, 64]}
    assert LAID not in whats(slimmed(model(text, **weights)))


def test_a_transposition_on_both_sides_of_a_product_goes():
    text = """g (float[1,64,48] x) => (float[1,64,48] z) {
        a = Transpose <perm = [0, 2, 1]> (x) b = MatMul (a, w) c = Add (b, v) d = Relu (c)
        e = Transpose <perm = [0, 2, 1]> (d) z = Add (x, e) }"""
    found = slimmed(model(text, w=(64, 64), v=64))
    assert whats(found) == [LAID]
    assert not {"Transpose"} & {*kinds(found)}


def test_gemm_takes_what_is_transposed_as_it_lies():
    text = """g (float[1,64,16,8] x) => (float[1,128,32] z) {
        a = Reshape (x, n) b = Transpose <perm = [0, 2, 1]> (a) c = Relu (b) d = Mul (c, m) e = MatMul (d, w)
        z = Add (e, v) }"""
    found = slimmed(model(text, n=[1, 64, 128], m=64, w=(64, 32), v=32))
    assert "Transpose" not in kinds(found)
    (gemm,) = [node for node in found.model.graph.node if node.op_type == "Gemm"]
    assert [each.i for each in gemm.attribute if each.name == "transA"] == [1]


def test_matrices_are_cut_where_results_are():
    text = """g (float[64,32] x) => (float[64,64] p, float[64,32] q, float[64,32] r) {
        a = Gemm (x, w, b) c = Relu (a) p, q, r = Split <axis = 1> (c, n) }"""
    found = slimmed(model(text, w=(32, 128), b=128, n=[64, 32, 32]))
    assert whats(found) == [CUT]
    assert kinds(found) == ["Gemm", "Relu"] * 3 + ["Identity"] * 3


def test_products_of_which_columns_are_read_twice_are_not_cut():
    text = """g (float[64,32] x) => (float[64,64] p, float[64,96] q) {
        a = MatMul (x, w) p = Slice (a, n0, n64, n1) q = Slice (a, n32, n128, n1) }"""
    given = model(text, w=(32, 128), n0=[0], n64=[64], n1=[1], n32=[32], n128=[128])
    assert whats(slimmed(given)) == []


@pytest.mark.parametrize(
    ("mode", "scales", "is_removed"),
    [("nearest", "1, 1, 1, 1", True), ("nearest", "1, 1, 1.1, 1", False), ("linear", "1, 1, 1, 1", False)],
)
def test_resize_to_the_same_size_is_removed_if_it_adds_no_zeros(mode, scales, is_removed):
    text = f"""g (float[1,4,8,8] x) => (float[1,8,8,4] z) <float[4] s = {{{scales}}}> {{
        a = Transpose <perm = [0, 1, 3, 2]> (x) b = Resize <mode = "{mode}"> (a, , s)
        c = Transpose <perm = [0, 1, 3, 2]> (b) z = Transpose <perm = [0, 2, 3, 1]> (c) }}"""
    kinds_after = [node.op_type for node in slimmed(model(text)).model.graph.node]
    assert (kinds_after == ["Transpose"]) is is_removed
    assert ("Resize" in kinds_after) is not is_removed


def test_a_mode_that_moves_pixels_at_scale_1_is_kept():
    text = """g (float[1,4,8,8] x) => (float[1,4,8,8] z) <float[4] s = {1, 1, 1, 1}> {
        a = Resize <mode = "nearest", nearest_mode = "ceil",
            coordinate_transformation_mode = "tf_half_pixel_for_nn"> (x, , s)
        z = Relu (a) }"""
    assert [node.op_type for node in slim(model(text)).model.graph.node] == ["Resize", "Relu"]


def test_other_weights_are_found_out():
    before = model(ATTENTION, **WEIGHTS)
    after = slim(before).model
    assert is_accepted(before, after)
    for tensor in after.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype != np.float32 or array.ndim < 2:
            continue
        other = array.copy()
        other.reshape(-1)[[0, 5]] += 1
        wrong = ModelProto()
        wrong.CopyFrom(after)
        (copy,) = [each for each in wrong.graph.initializer if each.name == tensor.name]
        copy.CopyFrom(numpy_helper.from_array(other, tensor.name))
        assert not is_accepted(before, wrong), tensor.name


def test_gemm_is_what_it_says():
    text = "g (float[3,3] x) => (float[3,3] z) { z = Gemm <transA = 0, transB = 1> (x, w, b) }"
    same = "g (float[3,3] x) => (float[3,3] z) { a = Transpose <perm = [1, 0]> (w) c = MatMul (x, a) z = Add (c, b) }"
    before = model(text, w=(3, 3), b=3)
    assert is_accepted(before, model(same, w=(3, 3), b=3))
    for old, new in (("transB = 1", "transB = 0"), ("transA = 0", "transA = 1"), ("x, w, b", "x, w"), ("x, w", "w, x")):
        assert not is_accepted(before, model(text.replace(old, new), w=(3, 3), b=3)), new
    scaled = model(text.replace("transA = 0", "alpha = 2.0"), w=(3, 3), b=3)
    assert not is_accepted(before, scaled)


FACTORS = st.sampled_from([1, 2, 3, 4, 6])


@given(st.data())
def test_orders_put_constants_where_values_are(data):
    sizes = data.draw(st.lists(FACTORS, min_size=1, max_size=5), "sizes")
    groups = data.draw(st.lists(st.integers(0, 3), min_size=len(sizes), max_size=len(sizes)), "groups")
    shape = [math.prod(size for size, own in zip(sizes, groups, strict=True) if own == k) for k in range(4)]
    sizes = [size for _, size in sorted(zip(groups, sizes, strict=True), key=lambda pair: pair[0])]
    order = Order(tuple(sizes), tuple(data.draw(st.permutations(range(len(sizes))), "perm")))
    fine = order.split(shape)
    values = np.arange(math.prod(shape)).reshape(shape)
    assert fine is not None
    expected = values.reshape(order.sizes).transpose(order.perm)
    np.testing.assert_array_equal(values.reshape(fine.sizes).transpose(fine.perm).reshape(expected.shape), expected)
    first = data.draw(st.integers(0, 4), "first")
    constant = np.random.default_rng(0).random([data.draw(st.sampled_from([1, size])) for size in shape[first:]])
    found = fine.of_constant(constant, shape)
    wide = np.broadcast_to(constant, shape).reshape(fine.sizes).transpose(fine.perm)
    np.testing.assert_array_equal(np.broadcast_to(found, fine.transposed), wide)


def drawn(draw):
    """A product, some nodes that compute element by element, and an order in which all of it is read."""
    batch, rows, heads, width = draw(st.sampled_from([1, 1, 2])), draw(st.sampled_from([320, 80])), 4, 8
    columns, depth = heads * width, draw(st.sampled_from([8, 64]))
    perms = st.one_of(st.sampled_from([(0, 2, 1, 3), (0, 2, 3, 1)]), st.permutations(range(4)))
    perm = [*draw(perms, "perm")]
    transposed = [(batch, rows, heads, width)[axis] for axis in perm]
    is_given_transposed = draw(st.booleans(), "given transposed")
    sizes = [batch, depth, rows] if is_given_transposed else [batch, rows, depth]
    lines = ["a = Transpose <perm = [0, 2, 1]> (x)" if is_given_transposed else "a = Identity (x)", "b = MatMul (a, w)"]
    constants: dict[str, object] = {"w": (depth, columns), "n": [batch, rows, heads, width]}
    last = "b"
    for k in range(draw(st.integers(0, 3), "nodes")):
        kind = draw(st.sampled_from(["Add", "Mul", "Relu", "Max"]))
        wide = draw(st.sampled_from([(columns,), (rows, columns), (1,), (batch, 1, columns), (rows, 1)]))
        constants[f"c{k}"] = wide
        lines.append(f"d{k} = {kind} ({last}" + (")" if kind == "Relu" else f", c{k})"))
        last = f"d{k}"
    lines += [f"e = Reshape ({last}, n)", f"f = Transpose <perm = {perm}> (e)", "z = Neg (f)"]
    results = [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, transposed)]
    if draw(st.booleans(), "read twice"):
        lines.append(f"y = Abs ({last})")
        results.append(helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [batch, rows, columns]))
    before = model(f"g (float{sizes} x) => (float{transposed} z) {{ {' '.join(lines)} }}", **constants)
    del before.graph.output[:]
    before.graph.output.extend(results)
    return before


def test_random_products():
    changed = []

    @settings(max_examples=how_many(40), deadline=None)
    @given(st.data())
    def check(data):
        found = slimmed(drawn(data.draw))
        gone = FOLDING_TITLE, "sums with 0"
        rewrites = [stage for stage in found.stages if stage.title and not stage.title.startswith(gone)]
        assert all(stage.cost[1] < stage.cost[0] for stage in rewrites)
        total = sum(region.before.nodes for region in found.regions)
        shapes = [stage.cost for stage in found.stages if stage.title.startswith("Reshapes")]
        assert all(after.nodes <= max(before.nodes, total) for before, after in shapes)
        changed.append(LAID in whats(found))

    check()
    assert sum(changed) > len(changed) // 10, "few products are laid otherwise: too little is tried"
