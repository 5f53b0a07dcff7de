"""Graphs are composed once for inputs of all sizes; and wherever elements decide, in each run."""

import random
import threading

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from anydml.onnx import backend, program, tracing

from .random_nodes import MAKERS, model_of


def graph(text, **defaults):
    """A model of a text, with initializers."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> g {text}')
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in defaults.items())
    return model


@pytest.fixture
def traces(monkeypatch):
    """One entry for each time that a graph was composed."""
    made = []

    def counted(trace):
        made.append(trace)
        return tracing.TracingContext(trace)

    monkeypatch.setattr(program, "TracingContext", counted)
    return made


SPLIT = "(float[N, 12] x) => (float[A, B] a, float[C, D] b) { a, b = Split <axis = 1, num_outputs = 2> (x) }"


def test_another_size_composes_nothing(traces):
    prepared = backend.prepare(graph(SPLIT))
    for number in range(4):
        x = np.random.default_rng(number).random((8 + number, 12), np.float32)
        a, b = prepared.run([x])
        assert np.array_equal(np.concatenate([a, b], 1), x)
        assert prepared.program.programs == 1
        a[...] = b[...] = 0
    assert len(traces) == 1
    for _ in range(2):
        assert prepared.run([np.ones((8, 24), np.float32)[:, ::2]])[0].shape == (8, 6)
    assert len(traces) == 1
    with pytest.raises(program.ModelError, match="float64"):
        prepared.run([np.ones((8, 12))])


HEADS = """(float[B, S, 12] x) => (float[A, C, D, E] z) {
    s = Shape (x) b = Gather <axis = 0> (s, zero) n = Gather <axis = 0> (s, one)
    sizes = Concat <axis = 0> (b, n, rest) apart = Reshape (x, sizes)
    z = Transpose <perm = [0, 2, 1, 3]> (apart)
}"""
POOLED = """(float[B, 2, N] x) => (float[A, C, D, E] z) {
    n = Shape <start = 2, end = 3> (x) half = Div (n, two) sizes = Concat <axis = 0> (keep, half, two)
    z = Reshape (x, sizes)
}"""
EXPANDED = """(float[N, 1] x, float[M] y) => (float[A, B] z) {
    n = Shape (y) sizes = Concat <axis = 0> (one, n) is_wild = Equal (sizes, minus)
    real = Where (is_wild, ones, sizes) z = Expand (x, real)
}"""
LAST = """(float[N, M] x) => (float[A] z) {
    n = Shape <end = 1> (x) before = Sub (n, one) row = Slice (x, before, n, zero, one) z = Squeeze (row, zero)
}"""
FILLED = """(float[N, M] x) => (float[A, B] z) {
    n = Shape (x) zeros = ConstantOfShape (n) z = Concat <axis = 0> (x, zeros)
}"""


def drawn(*shape):
    """Random elements."""
    return np.random.default_rng(sum(shape)).random(shape, np.float32)


ARITHMETIC = {
    "heads": (HEADS, lambda n: [drawn(2, n, 12)], lambda x: x.reshape(*x.shape[:2], 4, 3).transpose(0, 2, 1, 3)),
    "halves": (POOLED, lambda n: [drawn(3, 2, 2 * n)], lambda x: x.reshape(3, 2, -1, 2)),
    "expanded": (EXPANDED, lambda n: [drawn(n + 1, 1), drawn(n + 2)], lambda x, y: np.repeat(x, len(y), 1)),
    "last": (LAST, lambda n: [drawn(n, n + 2)], lambda x: x[-1]),
    "filled": (FILLED, lambda n: [drawn(n, n + 1)], lambda x: np.concatenate([x, np.zeros_like(x)])),
}
OWN = {"zero": [0], "one": [1], "two": [2], "rest": [4, -1], "keep": [-1, 2], "minus": [-1], "ones": [1, 1]}


@pytest.mark.parametrize("name", ARITHMETIC)
def test_shape_arithmetic_stays_open(traces, name):
    text, make, expected = ARITHMETIC[name]
    prepared = backend.prepare(graph(text, **{key: np.array(each) for key, each in OWN.items() if key in text}))
    for n in (3, 5, 2, 40):
        feeds = make(n)
        (z,) = prepared.run(feeds)
        assert np.array_equal(z, expected(*feeds))
    assert len(traces) == 1


COUNTED = """(float[N, M] x) => (float[A, B] y, float[C, D, E] z, int64[F] all, float[G, H] w) {
    n = Shape <end = 1> (x) count = Squeeze (n) twice = Mul (count, two)
    up = Range (nought, count, step)
    y = Gather (table, up)
    apart = Reshape (up, minus_one) tall = Unsqueeze (apart, one) wide = Concat <axis = 1> (tall, tall)
    z = Gather (table, wide)
    down = Range (count, nought, back) last = Slice (down, first, n) rest = Sub (nought, count)
    fromend = Range (rest, nought, step)
    all = Concat <axis = 0> (up, last, fromend)
    w = Gather <axis = 1> (x, columns)
}"""


@pytest.mark.parametrize("step", [1, 2, 3])
def test_numbers_that_count_are_slices(traces, step):
    """Positions, as decoders look them up: of nothing but sizes, in no memory."""
    initializers = {
        "nought": np.array(0), "two": np.array(2), "step": np.array(step), "back": np.array(-1),
        "minus_one": np.array([-1]), "one": np.array([1]), "first": np.array([1]), "columns": np.array([1, 0, 1]),
        "table": np.random.default_rng(0).random((40, 3), np.float32),
    }  # fmt: skip
    model = graph(COUNTED, **initializers)
    prepared, other = backend.prepare(model), onnxruntime.InferenceSession(model.SerializeToString())
    for n in (2, 7, 7, 12, 40):
        feeds = {"x": np.random.default_rng(n).random((n, n + 2), np.float32)}
        for result, expected in zip(prepared.run(feeds), other.run(None, feeds), strict=True):
            assert np.array_equal(result, expected)
    with pytest.raises(program.ModelError, match=r"node .*Gather.*(out of range|outside)"):
        prepared.run([np.ones((50, 4), np.float32)])


def test_positions_of_a_decoder_are_traced_once(traces):
    text = """(int64[B, S] ids) => (float[A, C, D] words, float[E, F, G] places) {
        n = Shape <start = 1, end = 2> (ids) count = Squeeze (n) at = Range (nought, count, step)
        row = Unsqueeze (at, front) words = Gather (table, ids) places = Gather (others, row)
    }"""
    initializers = {"nought": np.array(0), "step": np.array(1), "front": np.array([0])}
    initializers |= {name: np.random.default_rng(5).random((90, 8), np.float32) for name in ("table", "others")}
    prepared = backend.prepare(graph(text, **initializers))
    for n in (2, 3, 11, 64):
        ids = np.random.default_rng(n).integers(0, 90, (2, n))
        words, places = prepared.run([ids])
        assert np.array_equal(words, initializers["table"][ids])
        assert np.array_equal(places, initializers["others"][None, :n])
    assert len(traces) == 1


def test_numbers_that_are_inputs_stay_open(traces):
    prepared = backend.prepare(graph("(float[N] x, int64[1] a, int64[1] b) => (float[M] y) { y = Slice (x, a, b) }"))
    x = np.arange(50, dtype=np.float32)
    for a, b in ((3, 9), (1, 4), (7, 21)):
        assert np.array_equal(prepared.run([x, np.array([a]), np.array([b])])[0], x[a:b])
    assert len(traces) == 1


def test_what_the_model_has_is_written_over_in_one_program(traces):
    text = """(float[N, M] x) => (float[A, B] z, float[C, D] w) {
        joined = Concat <axis = 0> (x, c)
        two = Concat <axis = 0> (minus, one)
        flat = Reshape (joined, two)
        z = ScatterElements <axis = 0> (flat, at, ones)
        w = Transpose (z)
    }"""
    initializers = {
        "c": np.arange(6, dtype=np.float32).reshape(2, 3),
        "minus": np.array([-1]),
        "one": np.array([1]),
        "at": np.array([[0], [2]]),
        "ones": np.ones((2, 1), np.float32),
    }
    prepared = backend.prepare(graph(text, **initializers))
    for number in range(3):
        x = np.random.default_rng(number).random((4 + number, 3), np.float32)
        z, w = prepared.run([x])
        expected = np.concatenate([x, initializers["c"]]).reshape(-1, 1)
        expected[[0, 2]] = 1
        assert np.array_equal(z, expected)
        assert np.array_equal(w, expected.T)
        assert prepared.program.programs == 1
    assert len(traces) == 1


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_random_nodes_give_the_same_the_second_time(make):
    rng = random.Random(make.__name__ + "again")
    for _ in range(12):
        model, feeds = model_of(*make(rng))
        prepared = backend.prepare(model)
        for turn in range(3):
            # Other elements in the same places, of those that cannot be indices or sizes.
            given = {
                name: x + np.asarray(turn).astype(x.dtype) if x.dtype.kind == "f" and x.ndim else x.copy()
                for name, x in feeds.items()
            }
            if model.graph.node[0].op_type == "Resize":
                given |= {name: x for name, x in feeds.items() if name != "x0"}
            again = prepared.run(given)
            fresh = backend.prepare(model).run(given)
            assert all(np.array_equal(a, b) for a, b in zip(again, fresh, strict=True))


@pytest.mark.parametrize("indices", [[7], [-9, 1], [0, 3, -4], [2, -1]])
def test_constant_indices_outside_are_ignored_as_others_are(indices):
    """Few constants are evaluated while the graph is composed."""
    constants = {"i": np.array(indices), "depth": np.array(3), "both": np.array([0, 5])}
    model = graph(
        "(float[N] x) => (float[M] z, int64[A, B] y) { z = Identity (x) y = OneHot (i, depth, both) }", **constants
    )
    feeds = {"x": np.ones(2, np.float32)}
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    assert np.array_equal(backend.prepare(model).run(feeds)[1], expected[1])


def test_elements_that_decide_are_looked_at_each_time():
    prepared = backend.prepare(graph("(float[N] x, int64[K] shape) => (float[A, B] y) { y = Reshape (x, shape) }"))
    x = np.arange(6, dtype=np.float32)
    for shape in ([2, 3], [3, 2], [6, 1], [2, 3]):
        assert prepared.run([x, np.array(shape)])[0].shape == tuple(shape)
    prepared = backend.prepare(graph("(float[N] x, int64[K] i) => (float[A] y) { y = Gather (x, i) }"))
    for indices in ([0, 5], [1, -1]):
        assert np.array_equal(prepared.run([x, np.array(indices)])[0], x[indices])
    with pytest.raises(program.ModelError, match=r"out of range|outside"):
        prepared.run([x, np.array([0, 6])])


def test_one_array_for_two_inputs_does_not_stay_one():
    prepared = backend.prepare(graph("(float[N] x, float[N] y) => (float[A] z) { z = Concat <axis = 0> (x, y) }"))
    x, y = np.arange(3, dtype=np.float32), np.arange(3, 6, dtype=np.float32)
    assert prepared.run([x, x])[0].tolist() == [0, 1, 2, 0, 1, 2]
    for _ in range(3):
        assert prepared.run([x, y])[0].tolist() == [0, 1, 2, 3, 4, 5]
        assert prepared.run([y, y])[0].tolist() == [3, 4, 5, 3, 4, 5]


def test_results_are_nobody_elses():
    text = "(float[N] x) => (float[A] y, float[B] z) { y = Identity (x) z = Identity (x) }"
    prepared = backend.prepare(graph(text))
    x = np.arange(3, dtype=np.float32)
    for _ in range(3):
        y, z = prepared.run([x])
        assert not any(np.shares_memory(*pair) for pair in ((x, y), (x, z), (y, z)))


def test_threads_share_one_model():
    prepared = backend.prepare(graph(SPLIT))
    wrong = []

    def work(number):
        rng = np.random.default_rng(number)
        for _ in range(200):
            x = rng.random((int(rng.integers(1, 50)), 12), np.float32)
            if not np.array_equal(np.concatenate(prepared.run([x]), 1), x):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_log_sees_every_program():
    prepared = backend.prepare(graph(SPLIT))
    x, lines = np.ones((8, 12), np.float32), []
    prepared.run([x])
    prepared.program.run({"x": x}, lines.append)
    assert any("Program of" in line for line in lines)
