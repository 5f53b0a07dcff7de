"""Symbolic sizes beside bounds, other sizes and one: slimmed models give what the originals give in ONNX Runtime."""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest

from anydml.slim import slim

BEGIN = '<ir_version: 8, opset_import: ["": 18]>\n'
MODELS = {
    "bound": """g (float[N,4] x) => (float[P,4] y) <int64[1] s={0}, int64[1] e={512}, int64[1] a={0}> {
        p = Slice(x, s, e, a)  y = Relu(p) }""",
    "other size": """g (float[N,4] x, float[M,4] z) => (float[P,4] y) <int64[1] s={0}, int64[1] a={0}> {
        e = Shape<start=0, end=1>(z)  p = Slice(x, s, e, a)  y = Relu(p) }""",
    "least": """g (float[N,4] x) => (float[P,4] y) <int64[1] s={0}, int64[1] a={0}, int64[1] most={1000}> {
        n = Shape<start=0, end=1>(x)  e = Min(n, most)  p = Slice(x, s, e, a)  y = Relu(p) }""",
    "twice": """g (float[N,4] x) => (float[P,4] y)
        <int64[1] s={1}, int64[1] e={99}, int64[1] s2={0}, int64[1] e2={-1}, int64[1] a={0}> {
        p = Slice(x, s, e, a)  q = Slice(p, s2, e2, a)  r = Slice(q, s, e, a)  y = Relu(r) }""",
    "last of first": """g (float[N,4] x) => (float[P,4] y)
        <int64[1] s={0}, int64[1] e={5}, int64[1] s2={-2}, int64[1] e2={100}, int64[1] a={0}> {
        p = Slice(x, s, e, a)  q = Slice(p, s2, e2, a)  y = Relu(q) }""",
    "tiled": """g (float[N] x) => (float[P] y) <int64[1] t={3}, int64[1] s={0}, int64[1] e={4}, int64[1] a={0}> {
        p = Tile(x, t)  q = Slice(p, s, e, a)  y = Relu(q) }""",
    "joined": """g (float[N] x, float[M] z) => (float[P] y) <int64[1] s={0}, int64[1] e={2}, int64[1] a={0}> {
        p = Concat<axis=0>(x, z)  q = Slice(p, s, e, a)  y = Relu(q) }""",
    "all but the last": """g (float[N,4] x) => (float[P,4] y) <float[1,4] z = {5, 6, 7, 8}, int64[1] s={0}> {
        p = Concat<axis=0>(z, x)  e = Shape<start=0, end=1>(x)  q = Slice(p, s, e, s)  y = Relu(q) }""",
}
SIZES = [1, 2, 3, 4, 5, 6, 98, 100, 101, 213, 300, 511, 513, 1001]


@pytest.mark.parametrize("text", MODELS.values(), ids=[*MODELS])
def test_results_are_the_same_for_every_size(text):
    model = onnx.parser.parse_model(BEGIN + text)
    new = slim(model).model
    names = [value.name for value in model.graph.input]
    rank = len(model.graph.input[0].type.tensor_type.shape.dim)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    first, second = (
        onnxruntime.InferenceSession(each.SerializeToString(), options, providers=["CPUExecutionProvider"])
        for each in (model, new)
    )
    for sizes in itertools.product(SIZES, repeat=len(names)):
        feeds = {
            name: np.arange(1, size * 4 ** (rank - 1) + 1, dtype=np.float32).reshape(size, *[4] * (rank - 1)) * (k + 1)
            for k, (name, size) in enumerate(zip(names, sizes, strict=True))
        }
        for a, b in zip(first.run(None, feeds), second.run(None, feeds), strict=True):
            np.testing.assert_array_equal(a, b, str(sizes))


def test_ends_near_that_of_a_size_with_a_name_are_counted_from_it():
    """In the original, N + 1 rows are joined before N of them are taken."""
    found = slim(onnx.parser.parse_model(BEGIN + MODELS["all but the last"]))
    assert [op.op_type for op in found.model.graph.node] == ["Slice", "Concat", "Relu"]


@pytest.mark.parametrize("shape", ["M,3,N", "M,1,N,4", "2,M,N", "M,N", "N,4,3"])
@pytest.mark.parametrize("first", [1, 2])
@pytest.mark.parametrize("last", [0, 1, 2])
def test_what_is_flattened_may_be_empty(shape, first, last):
    text = f"""g (float[{shape}] x) => (float[A,B] z) {{
        a = Flatten <axis = {first}> (x) b = Transpose <perm = [1, 0]> (a) z = Flatten <axis = {last}> (b) }}"""
    model = onnx.parser.parse_model(BEGIN + text)
    both = [
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"])
        for each in (model, slim(model).model)
    ]
    for sizes in itertools.product([0, 2, 3], repeat=2):
        named = dict(zip("MN", sizes, strict=True))
        x = np.zeros([named[size] if size in named else int(size) for size in shape.split(",")], np.float32)
        x.flat = range(x.size)
        (wanted,), (found,) = (session.run(None, {"x": x}) for session in both)
        np.testing.assert_array_equal(found, wanted, str(named), strict=True)


@pytest.mark.parametrize("shape", ["N,16,H,W", "N,16,H,W,D"])
def test_tensors_may_have_many_sizes_with_names(shape):
    """Sizes near 2²⁰ along each axis would be more elements than a tensor can have."""
    text = f"""g (float[{shape}] x) => (float[{shape.replace("16", "K")}] y)
        <int64[2] n = {{8, 8}}, int64[1] s = {{0}}, int64[1] e = {{4}}, int64[1] a = {{1}}> {{
        p = Relu(x)  q = Neg(x)  a1, b = Split <axis = 1> (p, n)  d = Slice(q, s, e, a)
        c = Concat <axis = 1> (a1, d)  y = Concat <axis = 1> (c, q) }}"""
    model = onnx.parser.parse_model(BEGIN + text)
    found = slim(model)
    assert [node.op_type for node in found.model.graph.node].count("Concat") == 1
    x = np.random.default_rng(0).standard_normal([2, 16, 3, 4, 5][: len(shape.split(","))], np.float32)
    for each in (model, found.model):
        session = onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"])
        (result,) = session.run(None, {"x": x})
        expected = np.concatenate([np.maximum(x, 0)[:, :8], -x[:, :4], -x], 1)
        np.testing.assert_array_equal(result, expected)


def test_what_is_cropped_is_of_its_own_sizes_where_nothing_is_taken_of_it():
    """Where nothing of it is read, only its shape tells that its ends were those of one size."""
    text = """g (int64[M,1,1] x) => (int64[A,B] y, int64[C,D] z)
        <int64[2] s = {1, -1}, int64[1] n = {5}, int64[1] o = {1}, int64[2] e = {-9, -9}, int64[2] f = {3, -9},
        int64[2] a = {0, 1}> {
        p = Reshape (x, s) q = CenterCropPad <axes = [1]> (p, n) y = Slice (q, e, f, a)
        z = Transpose <perm = [1, 0]> (p) }"""
    model = onnx.parser.parse_model(BEGIN + text)
    sessions = [
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"])
        for each in (model, slim(model).model)
    ]
    for size in (1, 2, 5, 6, 211, 223, 300):
        x = np.arange(size).reshape(size, 1, 1)
        for a, b in zip(*(session.run(None, {"x": x}) for session in sessions), strict=True):
            np.testing.assert_array_equal(b, a, strict=True)


def test_products_of_sizes_that_are_not_known_are_left_to_runtimes():
    text = "g (float[1] x) => (float[1] y) { p = ReduceProd <axes = [0]> (x) y = Neg (p) }"
    model = onnx.parser.parse_model(BEGIN.replace("18", "17") + text)
    assert [node.op_type for node in slim(model).model.graph.node] == ["ReduceProd", "Neg"]
