"""Fills and choices by kernels: NumPy's results, no byte beside them, with and without non-temporal stores."""

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import engine, plan
from anydml.moves import Move, simplify
from anydml.moves.fills import without_fills

DTYPES = ["u1", "<i2", "<f4", "<f8", "<c16", "V3", "V12", "V32", "V64"]


@pytest.fixture(params=[False, True], ids=["cached", "streamed"])
def by_kernels(request, monkeypatch):
    """Kernels for the smallest work."""
    monkeypatch.setattr(engine, "SMALL_BYTES", 0)
    monkeypatch.setattr(plan, "most_cached", lambda: -1 if request.param else 1 << 40)


def random_array(rng, shape, dtype):
    dtype = np.dtype(dtype)
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).copy()


def window_of(rng, whole, shape):
    """A window of an array, which may run backwards."""
    starts = [rng.integers(0, large - size + 1) for large, size in zip(whole.shape, shape, strict=True)]
    window = whole[tuple(slice(start, start + size) for start, size in zip(starts, shape, strict=True))]
    return window[..., ::-1] if rng.random() < 0.2 else window


def random_shape(rng):
    return tuple(rng.choice([1, 2, 5, 33, 64, 130], size=rng.integers(1, 4)).tolist()[:2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_fills_write_every_element_and_nothing_else(dtype, by_kernels):
    rng = np.random.default_rng(1)
    for _ in range(12):
        shape = random_shape(rng)
        whole = random_array(rng, [size + rng.integers(0, 4) for size in shape], dtype)
        value = random_array(rng, (1,), dtype)[0]
        expected, found = whole.copy(), whole.copy()
        state = rng.bit_generator.state
        window_of(rng, expected, shape)[...] = value
        rng.bit_generator.state = state
        dml.fill(np.empty(shape, dtype), value, out=window_of(rng, found, shape))
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_one_element_each(dtype, by_kernels):
    rng = np.random.default_rng(4)
    for rank in (1, 2, 3):
        for width in (1, 16, 130, 700, 9000):
            shape = (*rng.integers(1, 7, rank).tolist(), width)
            whole = random_array(rng, [size + rng.integers(0, 4) for size in shape], dtype)
            x = random_array(rng, [2 * size for size in shape[:-1]], dtype)[(slice(None, None, -2),) * rank]
            source = np.broadcast_to(x[..., np.newaxis], shape)
            expected, found = whole.copy(), whole.copy()
            expected[tuple(map(slice, shape))] = source
            dml.copy(source, found[tuple(map(slice, shape))])
            assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_choices_are_numpys_whatever_is_broadcast(dtype, by_kernels):
    rng = np.random.default_rng(2)
    for _ in range(12):
        shape = random_shape(rng)
        some = [tuple(1 if rng.random() < 0.2 else size for size in shape) for _ in range(3)]
        condition = rng.integers(0, 2, some[0]).astype(rng.choice(["?", "u1", "i1"]))
        x, y = (random_array(rng, each, dtype)[..., :: rng.choice([1, -1])] for each in some[1:])
        expected = np.where(condition, x, y)
        whole = random_array(rng, [size + rng.integers(0, 4) for size in expected.shape], dtype)
        right = whole.copy()
        state = rng.bit_generator.state
        window_of(rng, right, expected.shape)[...] = expected
        rng.bit_generator.state = state
        dml.where(condition, x, y, out=window_of(rng, whole, expected.shape))
        assert whole.tobytes() == right.tobytes()


def test_a_choice_is_one_pass_and_what_comes_between_makes_it_two():
    shape = [300, 300]
    tensors = [dml.TensorDesc("UINT8", shape), *[dml.TensorDesc("INT32", shape)] * 3]
    program = dml.ElementWiseIfOperatorDesc(*tensors).program()
    whole, masked = program.moves
    assert [step.kernel for step in plan.plan(simplify((whole, masked)), 0)] == ["select"]
    part = Move((100, 300), *masked[1:])
    assert [step.kernel for step in plan.plan(simplify((whole, part)), 0)] == ["rows", "in_line"]


@pytest.mark.parametrize("steps", [(1, 1), (2, 2), (1, 3), (-2, 4), (3, -9), (12, 1)])
def test_what_lies_around_a_slice_is_filled_once(steps, by_kernels):
    rng = np.random.default_rng(3)
    for _ in range(6):
        counts = rng.integers(1, 9, 2)
        window = [
            int((n - 1) * abs(step) + rng.integers(1, abs(step) + 1)) for n, step in zip(counts, steps, strict=True)
        ]
        starts = rng.integers(0, 3, 2).tolist()
        sizes = [start + size + int(rng.integers(0, 12)) for start, size in zip(starts, window, strict=True)]
        x = random_array(rng, tuple(counts.tolist()), "i4")
        expected = np.zeros(sizes, "i4")
        inside = tuple(slice(start, start + size) for start, size in zip(starts, window, strict=True))
        expected[inside][tuple(slice(None, None, step) for step in steps)] = x
        out = np.full(sizes, -1, "i4")
        dml.slice_grad(x, sizes, starts, window, steps, out=out)
        np.testing.assert_array_equal(out, expected)
        tensors = [dml.TensorDesc("INT32", [*map(int, array.shape)]) for array in (x, expected)]
        desc = dml.SliceGradOperatorDesc(*tensors, starts, window, list(steps))
        program = desc.program()
        assert [*program.problems()] == []
        assert sum(move.bytes_written for move in program.moves) == expected.nbytes
        assert sum(move.bytes_written for move in without_fills(program, by_elements=True).moves) == expected.nbytes


def test_equal_numbers_of_other_bits_or_types_are_told_apart():
    from anydml.engines.cpu.compiler import import_kernels
    from anydml.engines.cpu.loader import LOADER

    import_kernels()
    x = np.empty(40, np.float64)
    for value in (0.0, 0, -0.0, 1.0, True, 1, float("nan"), np.float32(1)):
        for _ in range(40):
            dml.fill(x, value)
        LOADER.settle(60)
        for other in (value, 0.0, -0.0, 0, 1, 1.0, True):
            assert dml.fill(x, other).tobytes() == np.full(40, other, np.float64).tobytes()
