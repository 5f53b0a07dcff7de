"""Calls of fused functions in one step: found by shapes, refused where they do not fit, done as before then."""

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import compiler
from anydml.engines.cpu.launch import LOADER
from anydml.memory.numpy_struct import IS_KNOWN
from anydml.tracing import fused

pytestmark = pytest.mark.skipif(not IS_KNOWN, reason="another Python keeps arrays elsewhere")

X = np.random.default_rng(0).standard_normal((6, 10)).astype(np.float32)
I = np.array([5, 0, -6, 3])  # noqa: E741


def scattered(x, i):
    return np.flip(dml.scatter_nd(x, i.reshape(4, 1), x[:4]), 0)


CASES = {
    "one": (lambda x, i: x[:, ::-1], lambda x, i: x[:, ::-1]),
    "several": (lambda x, i: (x[:2], x[2:].T), lambda x, i: (x[:2], x[2:].T)),
    "indices": (lambda x, i: x[i], lambda x, i: x[i]),
    "indices of a part": (lambda x, i: x[1:, 2:5][i[1:2]], lambda x, i: x[1:, 2:5][i[1:2]]),
}


def warm(call):
    compiler.import_kernels()
    for _ in range(20):
        call()
    assert LOADER.settle(120)
    return call()


def libraries():
    yield "numpy", lambda array: array
    try:
        import torch
    except ImportError:
        return
    from anydml.memory.dlpack_struct import reader_of

    if reader_of(torch.Tensor):
        yield "torch", torch.from_numpy


def same(found, expected):
    pairs = zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    return all(np.array_equal(np.asarray(one), np.asarray(other)) for one, other in pairs)


@pytest.mark.parametrize("with_out", [False, True])
@pytest.mark.parametrize("library", [*libraries()], ids=lambda pair: pair[0])
@pytest.mark.parametrize("name", CASES)
def test_a_step_gives_what_the_function_gives(name, library, with_out, monkeypatch):
    _, of = library
    x, i = of(X), of(I)
    traced, meant = CASES[name]
    if library[0] == "torch":
        traced = {"one": lambda x, i: x.flip(1), "several": lambda x, i: (x[:2], x[2:].T)}.get(name, traced)
    function = dml.fuse(traced)
    out = None
    if with_out:
        expected = meant(X, I)
        made = [of(np.zeros(each.shape, X.dtype)) for each in (expected if name == "several" else [expected])]
        out = tuple(made) if name == "several" else made[0]
    warm(lambda: function(x, i, out=out))
    monkeypatch.setattr(fused, "Call", None)
    other = np.roll(X, 1)
    found = function(of(other), i, out=out)
    assert same(found, meant(other, I))
    assert out is None or found is out


@pytest.mark.parametrize("library", [*libraries()], ids=lambda pair: pair[0])
@pytest.mark.parametrize("bad", [6, -7, 1 << 40])
def test_a_step_refuses_indices_and_writes_nothing(library, bad):
    _, of = library
    function, out = dml.fuse(lambda x, i: x[i]), of(np.full((4, 10), 7, np.float32))
    warm(lambda: function(of(X), of(I), out=out))
    out[...] = 7
    with pytest.raises(IndexError, match=f"index {bad} in i is out of range for an axis of size 6"):
        function(of(X), of(np.array([0, 1, 2, bad])), out=out)
    assert (np.asarray(out) == 7).all()
    function(of(X), of(I[::-1].copy()), out=out)
    assert np.array_equal(np.asarray(out), X[I[::-1]])


def test_a_step_has_scratch_of_its_own(monkeypatch):
    function = dml.fuse(scattered)
    assert function.lower(X, I).scratch_bytes
    warm(lambda: function(X, I))
    monkeypatch.setattr(fused, "Call", None)
    for shift in range(3):
        x = np.roll(X, shift)
        expected = x.copy()
        expected[I] = x[:4]
        assert np.array_equal(function(x, I), expected[::-1])


def test_layouts_of_one_shape_have_a_step_each(monkeypatch):
    function = dml.fuse(lambda x: x[:, ::-1])
    arrays = [X, np.asfortranarray(X), X.astype(np.int64), np.repeat(X, 2, 1)[:, ::2]]
    warm(lambda: [function(x) for x in arrays])
    monkeypatch.setattr(fused, "Call", None)
    for x in arrays:
        result = function(x)
        assert np.array_equal(result, x[:, ::-1])
        assert result.dtype == x.dtype
