"""Bound work that comes often is one step of compiled code, which refuses what the long way refuses."""

from types import SimpleNamespace

import numpy as np
import pytest
from refused import f32

import anydml as dml
from anydml.engines.cpu import loader
from anydml.engines.cpu.loader import LOADER
from anydml.memory import numpy_struct

pytestmark = [
    pytest.mark.usefixtures("own_plans"),
    pytest.mark.skipif(not numpy_struct.IS_KNOWN, reason="another Python keeps arrays elsewhere"),
]

X = np.random.default_rng(0).integers(0, 255, (6, 10, 12), np.uint8).view(np.float32).reshape(6, 10, 3)


@pytest.fixture
def without_threads(monkeypatch):
    """Kernels are loaded by whoever asks for them."""
    here = SimpleNamespace(
        start_new_thread=lambda run, arguments: run(*arguments), allocate_lock=loader._thread.allocate_lock
    )
    monkeypatch.setattr(loader, "_thread", here)


def same(results, expected):
    return all(
        result.shape == array.shape and result.tobytes() == array.tobytes()
        for result, array in zip(results, expected, strict=True)
    )


@pytest.mark.parametrize("kind", ["split", "gather", "rows"])
def test_bound_work_that_comes_often(kind):
    x = X[:, :, 0].copy()
    if kind == "split":
        desc = dml.SplitOperatorDesc(f32(6, 10), [f32(6, 4), f32(6, 6)], 1)
        inputs, outputs = [x], [np.zeros((6, 4), np.float32), np.zeros((6, 12), np.float32)[:, ::2]]
        expected = lambda: [x[:, :4], x[:, 4:]]  # noqa: E731
    elif kind == "rows":
        desc = dml.SplitOperatorDesc(f32(6, 10), [f32(2, 10), f32(4, 10)], 0)
        inputs, outputs = [x], [np.zeros((2, 10), np.float32), np.zeros((4, 10), np.float32)]
        expected = lambda: [x[:2], x[2:]]  # noqa: E731
    else:
        indices = np.array([[3, 99, -1, 0]])
        desc = dml.GatherOperatorDesc(f32(6, 10), dml.TensorDesc("INT64", [1, 4]), f32(4, 10), 0, 1)
        inputs, outputs = [x, indices], [np.zeros((4, 10), np.float32)]
        expected = lambda: [x[[3, 5, 5, 0]]]  # noqa: E731
    bound = dml.Device("cpu").compile_operator(desc).bind(inputs, outputs)
    for _ in range(40):
        bound.dispatch()
    assert LOADER.settle(120)
    for _ in range(3):
        x += 1
        bound.dispatch()
        assert same(outputs, expected())
    for output in outputs:
        before = [each.copy() for each in outputs]
        x += 1
        output.flags.writeable = False
        with pytest.raises(dml.BindingError, match="is read-only"):
            bound.dispatch()
        assert same(outputs, before), "nothing was written"
        output.flags.writeable = True
    bound.dispatch()
    assert same(outputs, expected())


@pytest.mark.parametrize("size", [1, 300, 100_000])
def test_a_bound_operator_loads_its_kernels_where_there_is_one_thread(without_threads, size):
    x, out = np.arange(4 * size, dtype=np.int32), np.zeros(4 * size, np.int32)
    tensor = dml.TensorDesc("INT32", x.shape)
    desc = dml.Slice1OperatorDesc(tensor, tensor, [0], x.shape, [-1])
    bound = dml.Device().compile_operator(desc).bind([x], [out])
    for _ in range(40):
        out[...] = 0
        bound.dispatch()
        assert np.array_equal(out, x[::-1])
    out.flags.writeable = False
    with pytest.raises(dml.BindingError, match="read-only"):
        bound.dispatch()
