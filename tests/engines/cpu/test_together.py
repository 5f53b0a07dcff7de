"""Steps that are too small to be shared one by one are shared together, and those that depend on each other are not."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anydml as dml
from anydml.engines.cpu import engine
from anydml.engines.cpu.together import grouped
from anydml.moves import Access, Move

KIB = 1 << 10
LEAST = 100


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 150)), max_size=30))
def test_every_step_is_in_one_group_in_order_and_groups_pay(given_steps):
    """Compared with a plain reading of what is asked for: neighbours of one stage, together where that pays."""
    steps = [SimpleNamespace(stage=stage, effort=effort) for stage, effort in sorted(given_steps, key=lambda s: s[0])]
    groups = grouped(steps, lambda effort: effort >= LEAST)
    assert [k for group, _ in groups for k in group] == [*range(len(steps))]
    for group, is_shared in groups:
        assert len({steps[k].stage for k in group}) == 1
        assert is_shared == (sum(steps[k].effort for k in group) >= LEAST)
        assert len(group) == 1 or all(steps[k].effort < LEAST for k in group)
    for (one, is_one), (other, is_other) in pairwise(groups):
        left, right = steps[one[-1]], steps[other[0]]
        if left.stage == right.stage and not is_one and not is_other:
            assert left.effort + right.effort < LEAST


@pytest.fixture
def shared_from_256(monkeypatch):
    monkeypatch.setattr(engine, "SHARED_BYTES", 256 * KIB)


def _rows(operand, count, gap):
    """Rows of 1000 bytes out of longer ones; `gap` tells boxes apart, so that each move is a step of its own."""
    return Move((count,), Access(0, operand * 200_000, (1000,)), Access(1, gap, (1100,)), 1000)


def test_many_small_steps_are_done_by_all_threads(shared_from_256):
    counts = [100 + k for k in range(12)]
    moves = [_rows(k, count, 5 * k) for k, count in enumerate(counts)]
    program = engine.program("many", moves)
    assert len(program.steps) == len(moves)
    assert program.shared
    source = np.random.default_rng(1).integers(0, 256, 300_000, np.uint8)
    for _ in range(3):
        target = np.full(12 * 200_000, 7, np.uint8)
        program.bind([target, source])()
        expected = np.full_like(target, 7)
        for k, count in enumerate(counts):
            window = np.lib.stride_tricks.as_strided(source[5 * k :], (count, 1000), (1100, 1))
            expected[k * 200_000 : k * 200_000 + 1000 * count] = window.reshape(-1)
        assert np.array_equal(target, expected)


def test_steps_that_depend_on_each_other_stay_in_order(shared_from_256):
    """Each copies what the one before has written, with a box of its own."""
    size = 70 * KIB
    moves = [
        Move((), Access(0, (k + 1) * size, ()), Access(0 if k else 1, k * size if k else 0, ()), size - 64 * k)
        for k in range(8)
    ]
    program = engine.program("chain", moves)
    assert not program.shared
    assert [step.stage for step in program.steps] == [*range(8)]
    source = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    for _ in range(3):
        target = np.zeros(9 * size, np.uint8)
        program.bind([target, source])()
        assert np.array_equal(target[8 * size : 9 * size - 448], source[: size - 448])


def test_a_function_of_many_small_parts(shared_from_256):
    rng = np.random.default_rng(1)
    parts = [rng.random((60, 150 + 7 * k), np.float32) for k in range(20)]
    expected = np.concatenate(parts, axis=1)
    out = np.zeros_like(expected)
    for _ in range(30):
        assert np.array_equal(dml.join(parts, 1), expected)
        out[...] = 0
        dml.join(parts, 1, out=out)
        assert np.array_equal(out, expected)
