"""Fills, choices, permutations, pictures and lookups by every set of kernels: NumPy's results, no byte beside them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import anydml as dml
from anydml import core
from anydml.moves.fills import without_fills

DTYPES = ["u1", "<i2", "<f4", "<f8", "<c16", "V3", "V12", "V32", "V64"]
SETS = ("v2", "v3", "v4")


@pytest.fixture(params=[(name, past) for name in SETS for past in (False, True)], ids=str)
def kernels(request):
    """Each instruction set that there is, with stores through the caches and past them, on three threads."""
    if core.program is None:
        pytest.skip("there is no compiled core")
    from anydml.core import moving

    name, past = request.param
    before = dml.get_num_threads()
    moving.choose_kernels(name, 0 if past else 1 << 60)
    dml.set_num_threads(3)
    if moving.instruction_set().endswith(name):
        yield
    dml.set_num_threads(before)
    found = moving.instruction_set()
    moving.choose_kernels()
    if not found.endswith(name):
        pytest.skip(f"this processor has no {name}")


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
def test_fills_write_every_element_and_nothing_else(dtype, kernels):
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
def test_rows_of_one_element_each(dtype, kernels):
    rng = np.random.default_rng(4)
    for rank, width in [(1, 9000), (2, 1), (2, 700), (3, 16), (3, 130)]:
        shape = (*rng.integers(1, 7, rank).tolist(), width)
        whole = random_array(rng, [size + rng.integers(0, 4) for size in shape], dtype)
        x = random_array(rng, [2 * size for size in shape[:-1]], dtype)[(slice(None, None, -2),) * rank]
        source = np.broadcast_to(x[..., np.newaxis], shape)
        expected, found = whole.copy(), whole.copy()
        expected[tuple(map(slice, shape))] = source
        dml.copy(source, found[tuple(map(slice, shape))])
        assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "shape", [(3, 2112, 320), (2, 131, 8, 40), (5, 48, 700), (2, 4160, 33), (1, 1100, 129)], ids=str
)
@pytest.mark.parametrize("dtype", ["u1", "<u2", "V3", "<f4", "<f8"])
def test_transposes_wherever_their_rows_begin(dtype, shape, kernels):
    size = np.dtype(dtype).itemsize
    x = random_array(np.random.default_rng(size), shape, dtype)
    view = np.moveaxis(x, -1, 1)
    for start in dict.fromkeys([0, size, 16, 40, 63]):
        for pitch in (view.shape[-1], -(-view.shape[-1] * size // 64) * 64 // size):
            memory = np.full(math.prod(view.shape[:-1]) * pitch * size + 192, 77, np.uint8)
            begin = -memory.ctypes.data % 64 + start
            part = memory[begin : begin + memory.size - 192].view(dtype).reshape(*view.shape[:-1], pitch)
            expected = memory.copy()
            there = expected[begin : begin + memory.size - 192].view(dtype).reshape(part.shape)
            there[..., : view.shape[-1]] = view
            dml.copy(view, out=part[..., : view.shape[-1]])
            assert memory.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_choices_are_numpys_whatever_is_broadcast(dtype, kernels):
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


@pytest.mark.parametrize("steps", [(1, 1), (2, 2), (1, 3), (-2, 4), (3, -9), (12, 1)])
def test_what_lies_around_a_slice_is_filled_once(steps):
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
        assert sum(move.bytes_written for move in without_fills(program).moves) == expected.nbytes


def test_equal_numbers_of_other_bits_or_types_are_told_apart():
    x = np.empty(40, np.float64)
    values = (0.0, 0, -0.0, 1.0, True, 1, float("nan"), np.float32(1))
    for value, other in itertools.product(values, repeat=2):
        dml.fill(x, value)
        assert dml.fill(x, other).tobytes() == np.full(40, other, np.float64).tobytes()


@st.composite
def views(draw):
    """A view whose axes are permuted, some of them stepped, reversed or repeated, and an output for it."""
    rank = draw(st.integers(2, 6))
    sizes = [1, 2, 3, 4, 5, 8, 16, 17, 31, 33, 64, 65, 90, 200]
    shape = [draw(st.sampled_from(sizes)) for _ in range(rank)]
    dtype = np.dtype(draw(st.sampled_from(["u1", "u2", "f4", "f8", "c16", "V3", "V6", "V12", "V5", "V24", "V64"])))
    assume(10 < math.prod(shape) * dtype.itemsize < 3_000_000)
    x = np.random.default_rng(rank).integers(0, 256, math.prod(shape) * dtype.itemsize, np.uint8)
    x = x.view(dtype).reshape(shape).transpose(draw(st.permutations(range(rank))))
    x = x[tuple(slice(None, None, draw(st.sampled_from([1, 1, 1, -1, 2, -3]))) for _ in shape)]
    if draw(st.integers(0, 7)) == 0:
        x = np.broadcast_to(x[:, None], (x.shape[0], 3, *x.shape[1:]))
    gaps = draw(st.sampled_from(["none", "none", "shifted", "between rows", "between elements"]))
    if gaps == "none":
        return x, np.zeros(x.shape, dtype)
    if gaps == "shifted":
        shift = draw(st.integers(0, 63))
        return x, np.zeros(x.nbytes + 64, np.uint8)[shift : shift + x.nbytes].view(dtype).reshape(x.shape)
    if gaps == "between rows":
        return x, np.zeros([size + 1 for size in x.shape], dtype)[tuple(slice(size) for size in x.shape)]
    return x, np.zeros([2 * size for size in x.shape], dtype)[tuple(slice(None, None, 2) for _ in x.shape)]


@settings(max_examples=60, deadline=None)
@given(views(), st.sampled_from([1, 2]))
def test_functions_move_what_numpy_moves(case, threads):
    x, out = case
    before = dml.get_num_threads()
    dml.set_num_threads(threads)
    try:
        dml.slice(x, (0,) * x.ndim, x.shape, out=out)
        assert out.tobytes() == x.tobytes()
        both = dml.join([x, x], axis=0)
        assert both.tobytes() == x.tobytes() * 2
        for part, expected in zip(dml.split(x, [1, x.shape[-1] - 1], axis=-1), (x[..., :1], x[..., 1:]), strict=True):
            assert part.tobytes() == expected.tobytes()
        order = np.arange(x.shape[0])[::-1] - 1
        assert dml.gather(x, order, 0).tobytes() == x[order].tobytes()
    finally:
        dml.set_num_threads(before)


X = np.random.default_rng(0).integers(0, 256, (90, 110, 4), np.uint8)
RGB = X[..., :3].copy()
WIDE = np.ascontiguousarray(X[:, :96]).view(np.float32)
VIEWS = {
    "RGB to BGR": (RGB, lambda x: x[..., ::-1]),
    "RGBA to BGR": (X, lambda x: x[..., 2::-1]),
    "a window of it, mirrored": (X, lambda x: x[3:50, 100:7:-1, 2::-1]),
    "words of 2 bytes": (X.view(np.uint16).reshape(-1, 3), lambda x: x[:, ::-1]),
    "pairs": (X.view(np.int32).reshape(-1, 2), lambda x: x[:, ::-1]),
    "small pictures mirrored": (X, lambda x: x[:, ::-1, :3]),
    "rows of 64 bytes": (WIDE.reshape(-1, 16), lambda x: x[:, ::-1]),
    "rows and columns of four": (WIDE.reshape(-1, 4, 4), lambda x: x.mT),
    "rows and columns of two": (X.reshape(-1, 2, 2), lambda x: x.transpose(0, 2, 1)),
    "channels by slices": (X, lambda x: np.concatenate([x[..., 2:3], x[..., :1], x[..., 1:2]], axis=-1)),
    "heads": (WIDE.reshape(-1, 3, 5, 4), lambda x: [p.swapaxes(1, 2) for p in np.split(x, 3, axis=1)]),
    "rows by index": (WIDE.reshape(-1, 4, 4), lambda x: x[[7, -1, 0, 7] * 30].transpose(1, 0, 2)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_fused_views(name, kernels):
    x, view = VIEWS[name]
    fused, expected = dml.fuse(view), view(x)
    for found in (fused(x), fused(x.copy())):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("channels", [slice(3), slice(2, None, -1)])
def test_alpha_stays(channels, kernels):
    seen = X.copy()
    dml.copy(RGB, out=seen[..., channels])
    np.testing.assert_array_equal(seen[..., channels], RGB)
    np.testing.assert_array_equal(seen[..., 3], X[..., 3])
