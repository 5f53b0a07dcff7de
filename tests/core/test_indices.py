"""Indices of every type, near the ends of their axes and of their type: against what Python's integers say."""

import numpy as np
import pytest
from call_ways import counted

import anydml as dml

pytest.importorskip("anydml.core.rules", reason="nothing is compiled here")

SIZE = 5


def inside(index, dtype):
    return -SIZE <= int(index) < SIZE if np.dtype(dtype).kind == "i" else int(index) < SIZE


@pytest.mark.parametrize("dtype", ["i4", "i8", "u4", "u8"])
@pytest.mark.parametrize("step", [1, 2, -1])
@pytest.mark.parametrize("count", [1, 3, 8, 9, 40, 1000])
def test_an_index_outside_is_refused_wherever_it_is(dtype, step, count):
    rng = np.random.default_rng(count)
    x = np.arange(SIZE * 3).reshape(SIZE, 3)
    ends = np.iinfo(dtype)
    odd = {ends.min, ends.max, ends.min + 1, ends.max - SIZE, ends.max // 2 + 1, ends.max // 2, SIZE, SIZE - 1, 0}
    odd |= set() if ends.min == 0 else {-SIZE, -SIZE - 1, -1, ends.min + SIZE}
    for one in odd:
        indices = np.zeros(abs(step) * count, dtype)[::step][:count]
        indices[...] = rng.integers(0, SIZE, count)
        indices[rng.integers(count)] = one
        for axis, lines in ((0, x), (1, np.asfortranarray(x.T))):
            clamped = [min(max(int(i) + SIZE * (int(i) < 0), 0), SIZE - 1) for i in indices]
            expected = np.take(lines, clamped, axis)
            with counted() as done:
                np.testing.assert_array_equal(dml.gather(lines, indices, axis, out_of_range="clamp"), expected)
            assert done
            if inside(one, dtype):
                np.testing.assert_array_equal(dml.gather(lines, indices, axis), expected)
            else:
                with pytest.raises(IndexError, match=str(one)):
                    dml.gather(lines, indices, axis)


@pytest.mark.parametrize("dtype", ["u1", "f2", "f4", "c8", "c16", "V3"])
@pytest.mark.parametrize("count", range(10))
def test_few_indices_pick_columns(dtype, count):
    """Short columns are interleaved, whatever lies between them and in whatever order."""
    rng = np.random.default_rng(count)
    for shape in ((7, 5), (64, 4), (300, 3), (2, 9, 4), (3, 70, 2), (11,), (5, 1, 1)):
        size = np.dtype(dtype).itemsize
        x = rng.integers(0, 256, (*shape[:-1], shape[-1] * size), np.uint8).view(dtype)
        for view in (x, x[::-1], np.asfortranarray(x), x[..., ::-1]):
            axis = int(rng.integers(view.ndim))
            indices = rng.integers(-view.shape[axis], view.shape[axis], count)
            expected = np.take(view, indices, axis)
            # By bytes: what is drawn has numbers that are none.
            assert dml.gather(view, indices, axis).tobytes() == expected.tobytes()
            out = np.zeros(expected.shape[::-1], dtype).T
            assert dml.gather(view, indices, axis, out=out) is out
            assert out.tobytes() == expected.tobytes()


WAYS = [
    lambda x, indices, out: dml.gather(x, indices, 0, out=out),
    lambda x, indices, out: dml.gather_nd(x, indices[:, None], out=out),
    lambda x, indices, out: dml.gather_elements(
        np.broadcast_to(x, (len(indices), *x.shape)),
        np.repeat(indices, x.shape[1]).reshape(-1, 1, x.shape[1]),
        1,
        out=None if out is None else out[:, None],
    )[:, 0],
    lambda x, indices, out: dml.fuse(dml.gather)(x, indices, out=out),
]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 48, 64, 96, 128, 256, 1000])
def test_rows_of_every_length(size):
    """One index that is outside is found wherever it stands, and nothing of the caller's is written."""
    rng = np.random.default_rng(size)
    for count in (9, 300, 5000):
        rows = int(rng.integers(1, 400))
        # Destinations begin anywhere.
        start = int(rng.integers(0, 65))
        flat = rng.integers(0, 256, rows * size + start, np.uint8)
        room = np.full(count * size + start, 7, np.uint8)
        x, out = flat[start:].reshape(rows, size), room[start:].reshape(count, size)
        dtype = rng.choice(["i4", "i8", "u4", "u8"])
        indices = rng.integers(-rows if dtype[0] == "i" else 0, rows, count).astype(dtype)
        expected = x[indices.astype(np.int64)]
        for given in (indices, np.repeat(indices, 2)[::2]):
            for call in WAYS:
                np.testing.assert_array_equal(call(x, given, None), expected)
                out.fill(7)
                np.testing.assert_array_equal(call(x, given, out), expected)
                assert (room[:start] == 7).all()
        out.fill(7)
        indices[int(rng.integers(count))] = outside = rows + int(rng.integers(1000))
        for call in WAYS:
            for to in (None, out):
                with pytest.raises(IndexError, match=str(outside)):
                    call(x, indices, to)
        assert (out == 7).all()
