"""Small graphs run a second time without composing; and compose wherever something depends on elements."""

import random
import threading

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from anydml.onnx import backend, program, replay

from .random_nodes import MAKERS, model_of


def graph(text, **defaults):
    """A model of a text, with initializers."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> g {text}')
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in defaults.items())
    return model


@pytest.fixture
def composed(monkeypatch):
    """How many runs were composed."""
    runs = []
    made = program.Running

    def counted(*arguments):
        runs.append(arguments)
        return made(*arguments)

    monkeypatch.setattr(program, "Running", counted)
    return runs


SPLIT = "(float[N, 12] x) => (float[A, B] a, float[C, D] b) { a, b = Split <axis = 1, num_outputs = 2> (x) }"


def test_a_second_run_composes_nothing(composed):
    prepared = backend.prepare(graph(SPLIT))
    for number in range(4):
        x = np.random.default_rng(number).random((8, 12), np.float32)
        a, b = prepared.run([x])
        assert np.array_equal(np.concatenate([a, b], 1), x)
        assert prepared.program.programs == 1
        a[...] = b[...] = 0
    assert len(composed) == 1
    for other in (np.ones((5, 12), np.float32), np.ones((8, 24), np.float32)[:, ::2]):
        for _ in range(2):
            assert prepared.run([other])[0].shape == (len(other), 6)
    assert len(composed) == 3
    with pytest.raises(program.ModelError, match="float64"):
        prepared.run([np.ones((8, 12))])


def test_several_steps_and_what_the_model_has(composed):
    text = """(float[N, M] x) => (float[A, B] z, float[C, D] w) {
        joined = Concat <axis = 0> (x, c)
        sizes = Shape (x)
        two = Concat <axis = 0> (minus, one)
        flat = Reshape (joined, two)
        z = ScatterElements <axis = 0> (flat, at, ones)
        w = Transpose (z)
    }"""
    own = {
        "c": np.arange(6, dtype=np.float32).reshape(2, 3),
        "minus": np.array([-1]),
        "one": np.array([1]),
        "at": np.array([[0], [2]]),
        "ones": np.ones((2, 1), np.float32),
    }
    prepared = backend.prepare(graph(text, **own))
    for number in range(3):
        x = np.random.default_rng(number).random((4, 3), np.float32)
        z, w = prepared.run([x])
        expected = np.concatenate([x, own["c"]]).reshape(-1, 1)
        expected[[0, 2]] = 1
        assert np.array_equal(z, expected)
        assert np.array_equal(w, expected.T)
        assert prepared.program.programs == 2
    assert len(composed) == 1


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


def test_what_is_kept_is_bounded():
    prepared = backend.prepare(graph(SPLIT))
    for count in range(1, replay.MOST_REPLAYS + 20):
        prepared.run([np.ones((count, 12), np.float32)])
    assert len(prepared.program._replays._kept) == replay.MOST_REPLAYS
    prepared.run([np.ones((replay.MOST_BYTES // 48 + 1, 12), np.float32)])
    assert all(len(key[0][1]) == 2 and key[0][1][0] < 1000 for key in prepared.program._replays._kept)


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
