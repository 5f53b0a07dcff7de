"""Lines of all lengths, whose last vectors are shorter, and scatters that threads share: results are NumPy's."""

import numpy as np
import pytest

import anydml as dml

LENGTHS = [*range(1, 140), (32 << 10) + 1, (32 << 10) + 13, (64 << 10) + 63]
BEHIND, MARK = 64, np.uint8(77)
"""Bytes on both sides of a result that must stay as they are, and their value."""


def numbered(shape, size):
    count = int(np.prod(shape))
    rows = np.random.default_rng(count + size).integers(0, 256, (count, size), np.uint8)
    return rows.reshape(-1).view(np.dtype((np.void, size))).reshape(shape)


def check(function, expected):
    memory = np.full(expected.nbytes + 2 * BEHIND, MARK)
    out = memory[BEHIND : BEHIND + expected.nbytes].view(expected.dtype).reshape(expected.shape)
    assert function(out).tobytes() == expected.tobytes()
    assert (memory[:BEHIND] == MARK).all()
    assert (memory[BEHIND + expected.nbytes :] == MARK).all()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16])
def test_lines_of_all_lengths(size):
    for length in LENGTHS:
        x = numbered((3, length), size)
        check(lambda out, x=x: dml.flip(x, 1, out=out), np.ascontiguousarray(x[:, ::-1]))
        times = max(1, length // 3)
        column = x[:, :3]
        check(lambda out, x=column, times=times: dml.repeat(x, times, 1, out=out), np.repeat(column, times, 1))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 8, 12, 16, 24, 40])
def test_scatters_that_threads_share(axis, size):
    drawn = np.random.default_rng(10 * size + axis)
    x, updates = numbered((23, 41, 57), size), numbered((31, 41, 57) if axis == 0 else (23, 41, 57), size)
    updates = updates if axis == 0 else updates.take(range(31), axis, mode="wrap")
    # Far more updates than places: the last one of each place wins.
    indices = drawn.integers(-9, 9, updates.shape)
    expected = x.copy()
    for k in range(31):
        at = [slice(None)] * 3
        at[axis] = slice(k, k + 1)
        np.put_along_axis(expected, indices[tuple(at)] % x.shape[axis], updates[tuple(at)], axis)
    check(lambda out: dml.scatter(x, indices, updates, axis, out=out), expected)
    found = np.take_along_axis(x, indices % x.shape[axis], axis)
    check(lambda out: dml.gather_elements(x, indices, axis, out=out), found)
