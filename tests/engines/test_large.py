"""Work that is too large for one step: many elements, long rows, and every pattern that could have its own kernel."""

import concurrent.futures
import itertools

import numpy as np
import pytest

import anydml as dml

ELEMENTS = ["u1", "u2", "u4", "u8", "D", "V3", "V12"]
RNG_SEED = 99


def random_bytes(rng, dtype, *shape):
    """An array of random bytes."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    return rng.integers(0, 256, count * dtype.itemsize, np.uint8).view(dtype).reshape(shape)


def same(result, expected):
    assert (result.dtype, result.shape) == (expected.dtype, expected.shape)
    # By halves of a word, so that no value is compared as a number.
    assert np.ascontiguousarray(result).tobytes() == np.ascontiguousarray(expected).tobytes()


every_element = pytest.mark.parametrize("dtype", ELEMENTS)


@pytest.mark.parametrize(
    "shape, axis, sizes, dtype",
    [
        *[((300_001,), 0, [100_000, 1, 200_000], dtype) for dtype in ("u1", "V12")],
        *[((70_000, 3), 1, [1, 1, 1], dtype) for dtype in ELEMENTS],
        *[((50_000, 6), 1, [1, 2, 3], dtype) for dtype in ("u1", "u4", "V3")],
        *[((3_000, 100), 1, [33, 33, 34], dtype) for dtype in ("u2", "D")],
        *[((9, 40_000), 0, [2, 3, 4], dtype) for dtype in ("u1", "u8")],
        *[((100, 7, 300), 1, [3, 4], dtype) for dtype in ("u4", "V3")],
        *[((20_000, 16), 1, [1] * 16, dtype) for dtype in ("u1", "u4")],
    ],
)
def test_split_and_join(shape, axis, sizes, dtype):
    x = random_bytes(np.random.default_rng(RNG_SEED), dtype, *shape)
    for source in (x, x[::-1], np.asfortranarray(x)):
        parts = dml.split(source, sizes, axis)
        for part, expected in zip(parts, np.split(source, np.cumsum(sizes)[:-1], axis), strict=True):
            same(part, expected)
        same(dml.join(parts, axis), source)


@pytest.mark.parametrize(
    "dtype, shape",
    [
        *itertools.product(ELEMENTS, [(300_000,), (600, 500)]),
        *itertools.product(["u1", "u4", "V3"], [(60, 50, 100), (100_000, 3)]),
    ],
)
def test_slices(dtype, shape):
    x = random_bytes(np.random.default_rng(RNG_SEED), dtype, *shape)
    zeros = [0] * x.ndim
    for signs in itertools.product(*[(1, -1, 2, -3)] * min(x.ndim, 2)):
        steps = (*signs, *[-1] * (x.ndim - len(signs)))
        same(dml.slice1(x, zeros, shape, steps), x[tuple(np.s_[::step] for step in steps)])
    for steps in ((1,) * x.ndim, (3,) * x.ndim):
        sizes = [1 + (n - 2) // step for n, step in zip(shape, steps, strict=True)]
        expected = x[tuple(np.s_[1::step] for step in steps)]
        same(dml.slice(x, [1] * x.ndim, sizes, steps), expected)


@every_element
@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1)])
def test_transposed(dtype, order):
    x = random_bytes(np.random.default_rng(RNG_SEED), dtype, 61, 67, 71)
    same(dml.join([x.transpose(order)]), x.transpose(order))
    out = np.zeros([x.shape[d] for d in np.argsort(order)], x.dtype).transpose(order)
    dml.join([x], out=out)
    same(out, x)


@every_element
@pytest.mark.parametrize(
    "shape, axis, count, index_type",
    [
        ((5_000,), 0, 150_000, "i8"),
        ((5_000,), 0, 150_000, "u4"),
        ((2_000, 64), 0, 3_000, "i4"),
        ((300, 3), 0, 70_000, "u8"),
        ((40, 3_000), 1, 4_000, "i8"),
        ((9, 50_000), 0, 5, "u4"),
    ],
)
def test_gather(dtype, shape, axis, count, index_type):
    rng = np.random.default_rng(RNG_SEED)
    x = random_bytes(rng, dtype, *shape)
    size = shape[axis]
    indices = rng.integers(0 if index_type[0] == "u" else -size, size, count).astype(index_type)
    hostile = rng.integers(0, count, 20)
    indices[hostile[:10]] = np.iinfo(index_type).max
    indices[hostile[10:]] = np.iinfo(index_type).min
    clamped = [min(max(int(i) + size if i < 0 else int(i), 0), size - 1) for i in indices]
    expected = np.take(x, clamped, axis)
    for source, given in ((x, indices), (np.asfortranarray(x), np.repeat(indices, 2)[::2])):
        same(dml.gather(source, given, axis, out_of_range="clamp"), expected)
    out = np.zeros((*expected.shape, 2), x.dtype)[..., 1]
    same(dml.gather(x, indices, axis, out_of_range="clamp", out=out), expected)


def test_desc_with_padding_keeps_every_padding_byte():
    x = random_bytes(np.random.default_rng(RNG_SEED), "u4", 1_000, 300)
    strided = dml.TensorDesc("UINT32", [1_000, 100], [256, 2])
    desc = dml.SplitOperatorDesc(dml.TensorDesc("UINT32", [1_000, 300]), [strided] * 3, 1)
    outputs = [random_bytes(np.random.default_rng(i), "u1", strided.size_in_bytes) for i in range(3)]
    expected = [y.copy() for y in outputs]
    for k, y in enumerate(expected):
        np.ndarray((1_000, 100), np.uint32, y, 0, (1024, 8))[...] = x[:, 100 * k : 100 * (k + 1)]
    dml.Device().compile_operator(desc).bind([x], outputs).dispatch()
    for y, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(y, wanted)


def test_addresses_beyond_32_bits():
    # A stride of 0 makes a tensor of 2^34 elements out of three.
    x = np.broadcast_to(np.array([5, 6, 7], np.uint8), (2**34, 3))
    assert dml.slice(x, [2**33, 0], [2, 3]).tolist() == [[5, 6, 7]] * 2
    assert dml.slice1(x, [0, 0], [2**34, 3], [-(2**33), -2]).tolist() == [[7, 5]] * 2
    far = np.array([2**33, -1, 2**63 - 1, -(2**63)])
    assert dml.gather(x, far, out_of_range="clamp")[:, 1].tolist() == [6] * 4
    # And this one really walks: 2^32 elements lie between the rows that are read.
    base = np.zeros((3, 2**31), np.uint8)
    base[2, -1] = 9
    assert dml.slice1(base, [0, 0], base.shape, [-2, -(2**31)]).tolist() == [[9], [0]]
    assert dml.gather(base, [2**31 - 1], 1).tolist() == [[0], [0], [9]]


def test_threads_share_nothing():
    rng = np.random.default_rng(RNG_SEED)
    jobs = [random_bytes(rng, "u4", 20_000 if i % 2 else 30, 3) for i in range(40)]
    order = rng.permutation(30)

    def work(x):
        joined = dml.join(dml.split(x, [1, 2], 1), 1)
        return joined, dml.slice1(x, [0, 0], x.shape, [-1, -1]), dml.gather(x, order)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, jobs * 5))
    for x, (joined, reversed_, picked) in zip(jobs * 5, results, strict=True):
        same(joined, x)
        same(reversed_, x[::-1, ::-1])
        same(picked, x[order])
