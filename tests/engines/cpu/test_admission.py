"""Special kernels are compiled where that pays, and only so many; without them the work is done all the same."""

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import admission
from anydml.engines.cpu.kernels import interleave
from anydml.functions.calling import PLANS


@pytest.fixture
def compiled(monkeypatch):
    """Patterns whose kernels are asked for, from nothing."""
    patterns = []
    load = interleave.interleave_kernel
    monkeypatch.setattr(interleave, "interleave_kernel", lambda spec: patterns.append(spec) or load(spec))
    PLANS.clear()
    yield patterns
    PLANS.clear()


X = np.random.default_rng(0).integers(0, 255, (9000, 16)).astype(np.uint8)
SIZES = [5, 4, 7]


def check(sizes=SIZES, x=X):
    for part, expected in zip(dml.split(x, sizes, axis=1), np.split(x, np.cumsum(sizes)[:-1], 1), strict=True):
        np.testing.assert_array_equal(part, expected)


def test_a_pattern_that_comes_once_is_not_compiled(compiled):
    check()
    assert not compiled
    check()
    assert len(compiled) == 1
    check()
    assert len(compiled) == 1


def test_a_pattern_counts_whatever_the_number_of_rows(compiled):
    check()
    check(x=X[:8000])
    assert len(compiled) == 1


def test_large_work_and_bound_operators_do_not_wait(compiled, monkeypatch):
    monkeypatch.setattr(admission, "LARGE", X.nbytes)
    check()
    assert len(compiled) == 1
    monkeypatch.undo()
    tensors = [dml.TensorDesc("UINT8", (9000, size)) for size in SIZES]
    desc = dml.SplitOperatorDesc(dml.TensorDesc("UINT8", X.shape), tensors, 1)
    assert "interleave" in str(dml.Device().compile_operator(desc))


def test_there_are_only_so_many(compiled, monkeypatch):
    monkeypatch.setattr(admission, "MOST", 2)
    for first in range(2, 8):
        for _ in range(3):
            check([first, 16 - first])
    assert len(compiled) == 2
    assert len(admission._admitted) == 2


def test_what_was_asked_for_once_is_forgotten_in_time(compiled, monkeypatch):
    monkeypatch.setattr(admission, "REMEMBERED", 3)
    asked = admission.Admission(patient=True)
    for number in range(100):
        assert not asked.allows(f"pattern {number}", 1)
        assert len(admission._asked) <= 3
    assert asked.postponed


@pytest.mark.parametrize("size", [5, 7, 24, 40])
def test_odd_elements_and_lookups_need_no_kernel_of_their_own(size, compiled, monkeypatch):
    monkeypatch.setattr(admission, "MOST", 0)
    rng = np.random.default_rng(size)
    x = rng.integers(0, 255, (90, 130, 5 * size), np.uint8).view(f"V{size}")
    result = dml.slice1(x, [0] * 3, x.shape, [1, -1, 2])
    assert result.tobytes() == x[:, ::-1, ::2].tobytes()
    out = np.zeros((90, 130, 6), x.dtype)
    dml.slice(x, [0] * 3, (90, 130, 3), (1, 1, 2), out=out[:, :, ::2])
    assert out.tobytes() == np.stack([x[:, :, ::2], np.zeros_like(x[:, :, :3])], 3).reshape(out.shape).tobytes()
    indices = rng.integers(-300, 300, 700)
    expected = np.take(x, np.clip(np.where(indices < 0, indices + 130, indices), 0, 129), 1)
    assert dml.gather(x, indices, 1).tobytes() == expected.tobytes()
