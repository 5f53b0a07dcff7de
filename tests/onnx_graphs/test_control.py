"""If and Loop with constant conditions, optional values, and caches, against ONNX Runtime."""

import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import anydml as dml
from anydml.onnx import backend
from anydml.proving import prove
from anydml.slim import slim

onnxruntime = pytest.importorskip("onnxruntime")

X = np.arange(12, dtype=np.float32).reshape(3, 4)

GRAPHS = {
    "a branch": """
        g (float[3, 4] x) => (float[M, N] y) <bool yes = {1}> {
            turned = Transpose (x)
            y = If (yes) <
                then_branch = t () => (float[4, 3] z) { z = Identity (turned) },
                else_branch = e () => (float[3, 4] z) { z = Identity (x) }>
        }""",
    "the other branch": """
        g (float[3, 4] x) => (float[M, N] y) {
            two = Constant <value_int = 2> ()
            three = Constant <value_int = 3> ()
            is_less = Less (three, two)
            y = If (is_less) <
                then_branch = t () => (float[4, 3] z) { z = Transpose (x) },
                else_branch = e () => (float[6, 4] z) { a = Identity (x) z = Concat <axis = 0> (a, x) }>
        }""",
    "a loop that counts": """
        g (float[3, 4] x) => (float[M, N] y, float[K, 3, 4] rows) <int64 n = {3}, bool yes = {1}> {
            y, rows = Loop (n, yes, x) <
                body = b (int64 i, bool c, float[M, N] v)
                    => (bool d, float[P, N] w, float[3, 4] r) <int64[1] one = {1}> {
                d = Identity (c)
                start = Unsqueeze (i, zero)
                end = Add (start, one)
                row = Slice (x, start, end, zero)
                w = Concat <axis = 0> (v, row)
                r = Identity (x)
            }>
        }""",
    "a loop of no rounds": """
        g (float[3, 4] x) => (float[M, N] y, float[K, 3, 4] rows, float[L] counts) <int64 n = {0}> {
            y, rows, counts = Loop (n, , x) <
                body = b (int64 i, bool c, float[3, 4] v) => (bool c, float[4, 3] w, float[3, 4] r, float k) {
                w = Transpose (v)
                r = Identity (v)
                k = CastLike (i, v)
            }>
        }""",
    "a loop in a loop": """
        g (float[3, 4] x) => (float[M, N] y) <int64 n = {2}> {
            y = Loop (n, , x) <body = b (int64 i, bool c, float[M, N] v) => (bool c, float[P, N] w) {
                u = Loop (n, , v) <body = q (int64 j, bool e, float[A, B] s) => (bool e, float[C, B] t) {
                    t = Concat <axis = 0> (s, x)
                }>
                first = Equal (i, zeroth)
                w = If (first) <
                    then_branch = t () => (float[P, N] z) { h = Transpose (u) z = Transpose (h) },
                    else_branch = e () => (float[P, N] z) { z = Concat <axis = 1> (u, u) }>
            }>
        }""",
    "a loop while": """
        g (float[3, 4] x) => (float[M, N] y) <bool yes = {1}> {
            y = Loop ( , yes, x) <body = b (int64 i, bool c, float[M, N] v) => (bool d, float[P, N] w)
                <int64 most = {3}> { d = Less (i, most) w = Concat <axis = 1> (v, x) }>
        }""",
    "a loop that never runs": """
        g (float[3, 4] x) => (float[M, N] y) <int64 n = {0}, bool yes = {1}> {
            y = Loop (n, yes, x) <
                body = b (int64 i, bool c, float[M, N] v) => (bool c, float[N, M] w) { w = Transpose (v) }>
        }""",
    "optional values": """
        g (float[3, 4] x) => (bool a, bool b, float[4, 3] y) {
            one = Optional (x)
            a = OptionalHasElement (one)
            b = OptionalHasElement ()
            z = OptionalGetElement (one)
            y = Transpose (z)
        }""",
}


def model_of(text):
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    for name, value in (("zero", np.zeros(1, np.int64)), ("zeroth", np.zeros((), np.int64))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return model


@pytest.mark.parametrize("name", GRAPHS)
def test_known_control_flow(name):
    model = model_of(GRAPHS[name])
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": X})
    assert backend.is_compatible(model)
    prepared = backend.prepare(model)
    for _ in range(2):
        for one, other in zip(prepared.run([X]), expected, strict=True):
            assert (one.shape, one.dtype) == (np.shape(other), np.asarray(other).dtype)
            assert np.array_equal(one, other)
    assert not {node.operator for node in prepared.program.nodes} & {"If", "Loop"}


def test_conditions_that_are_inputs_are_refused():
    text = GRAPHS["a branch"].replace("(float[3, 4] x)", "(float[3, 4] x, bool yes)").replace("<bool yes = {1}>", "")
    with pytest.raises(dml.ModelError, match=r"\(If\): anydml runs those whose conditions .* depends on elements"):
        backend.prepare(model_of(text))
    text = GRAPHS["a loop while"].replace("Less (i, most)", "Not (open)")
    text = text.replace("(float[3, 4] x)", "(float[3, 4] x, bool open)")
    with pytest.raises(dml.ModelError, match=r"\(Loop\): anydml runs those whose conditions"):
        backend.prepare(model_of(text))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("y = Scan <num_scan_inputs=1, body = g (float[4] r) => (float[4] s) { s = Neg (r) }> (x)", "each row"),
        ("q = SequenceConstruct (x, x) "
         "p = SequenceMap <body = g (float[A, B] r) => (float[A, B] s) { s = Neg (r) }> (q) "
         "y = ConcatFromSequence <axis = 0> (p)", "each tensor"),
    ],
)  # fmt: skip
def test_what_repeats_a_graph_says_what_does_the_same(body, why):
    text = f'<ir_version: 9, opset_import: ["": 18]> g (float[3, 4] x) => (float[A, B] y) {{ {body} }}'
    with pytest.raises(dml.ModelError, match=rf"it repeats a graph for {why} .*; anydml runs .* instead"):
        backend.prepare(onnx.parser.parse_model(text))


def test_loops_that_never_end_are_refused():
    text = GRAPHS["a loop while"].replace("Less (i, most)", "Identity (c)")
    with pytest.raises(dml.ModelError, match="the model's loops come to more than 100000 nodes"):
        backend.prepare(model_of(text))


def test_an_empty_optional_value():
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [3]))
    value = helper.make_value_info("x", kind)
    nodes = [helper.make_node("OptionalHasElement", ["x"], ["y"]), helper.make_node("Identity", ["x"], ["z"])]
    results = [helper.make_tensor_value_info("y", TensorProto.BOOL, []), helper.make_value_info("z", kind)]
    prepared = backend.prepare(helper.make_model(helper.make_graph(nodes, "g", [value], results), ir_version=10))
    has, same = prepared.run({"x": None})
    assert has.dtype == bool
    assert not has
    assert same is None
    has, same = prepared.run({"x": X[0, :3]})
    assert has
    assert np.array_equal(same, X[0, :3])
    with pytest.raises(dml.ModelError, match="shape"):
        prepared.run({"x": X})
    get = helper.make_graph([helper.make_node("OptionalGetElement", ["x"], ["y"])], "g", [value], [value])
    get.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, [3]))
    with pytest.raises(dml.ModelError, match="its input is empty"):
        backend.prepare(helper.make_model(get, ir_version=10)).run({"x": None})


@pytest.mark.parametrize("seed", range(40))
def test_caches(seed):
    rng = np.random.default_rng([51, seed])
    shape = [int(n) for n in rng.integers(1, 5, int(rng.integers(2, 5)))]
    axis = int(rng.integers(1, len(shape)))
    count = int(rng.integers(0, shape[axis] + 1))
    cache, update = rng.random(shape), rng.random([count if k == axis else n for k, n in enumerate(shape)])
    mode = ("linear", "circular")[seed % 2]
    first = rng.integers(0, shape[axis] + 3 if seed % 2 else shape[axis] - count + 1, shape[0])
    expected = cache.copy()
    for at in np.ndindex(update.shape):
        to = [*at]
        to[axis] = (to[axis] + first[at[0]]) % shape[axis]
        expected[tuple(to)] = update[at]
    node = helper.make_node(
        "TensorScatter", ["c", "u", "i"], ["y"], mode=mode, axis=axis - len(shape) * int(rng.integers(0, 2))
    )
    (result,) = backend.run_node(node, [cache, update, first])
    assert np.array_equal(result, expected)
    if mode == "linear" and count:
        with pytest.raises(dml.ModelError, match="the update must fit into past_cache"):
            backend.run_node(node, [cache, update, first + shape[axis]])


def test_bits_of_other_sizes():
    for to in (TensorProto.INT16, TensorProto.INT8, TensorProto.STRING):
        node = helper.make_node("BitCast", ["x"], ["y"], to=to)
        with pytest.raises(dml.ModelError, match="BitCast"):
            backend.run_node(node, [X])


@pytest.mark.parametrize(
    "given", ["int8", "uint8", "int16", "uint16", "float16", "int32", "uint32", "float32", "int64"]
)
def test_bits_of_constants_are_those_of_the_array(given):
    """Constants are computed ahead, element by element."""
    bits = np.random.default_rng(0).integers(0, 256, 8 * np.dtype(given).itemsize, np.uint8)
    array = bits.view(given)
    for to in map(np.dtype, ("i1", "u1", "i2", "u2", "f2", "i4", "u4", "f4", "i8", "u8", "f8")):
        if to.itemsize != array.itemsize:
            continue
        kind = helper.np_dtype_to_tensor_dtype(to)
        nodes = [
            helper.make_node("Transpose", ["c"], ["t"], perm=[1, 0]),
            helper.make_node("BitCast", ["t"], ["b"], to=kind),
            helper.make_node("Reshape", ["b", "s"], ["y"]),
        ]
        constants = [numpy_helper.from_array(array.reshape(2, 4), "c"), numpy_helper.from_array(np.array([8]), "s")]
        graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", kind, [8])], constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=10)
        expected = array.reshape(2, 4).T.reshape(-1).view(to)
        (result,) = backend.run_model(model, [])
        np.testing.assert_array_equal(result, expected)
        slimmed = slim(model).model
        np.testing.assert_array_equal(backend.run_model(slimmed, [])[0], expected)
        assert prove(model, slimmed, runs=False).verdict == "proved"
