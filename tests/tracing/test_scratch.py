"""Intermediate elements may use a result's memory only if they fit: a result may be just the first of them."""

import numpy as np
import pytest

import anydml as dml

X = np.arange(35.0).reshape(5, 7)
MARK = -7.0

PROGRAMS = {
    "tril": lambda x, i: np.tril(x)[:2],
    "triu": lambda x, i: np.triu(x, 1)[:3],
    "take": lambda x, i: np.take(x, i, 0).T.reshape(-1)[:5],
    "take of joined": lambda x, i: np.take(np.concatenate([x, x[::-1]]), i, 0).reshape(-1)[:5],
    "joined": lambda x, i: np.concatenate([x.T, x.T]).reshape(-1)[:5],
    "padded": lambda x, i: np.pad(x, 2, mode="reflect").reshape(-1)[:5],
    "rolled": lambda x, i: np.roll(x, (1, 2), (0, 1)).reshape(-1)[:5],
    "diagonal": lambda x, i: np.tril(np.pad(x, 1))[:1],
    "all": lambda x, i: np.tril(x),
    "two": lambda x, i: (np.tril(x)[:2], np.tril(x)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_written_beyond_a_result(name):
    function = PROGRAMS[name]
    fused, indices = dml.fuse(function), np.array([3, 1, 0, 2])
    expected = function(X, indices)
    several = expected if isinstance(expected, tuple) else (expected,)
    for _ in range(2):
        # Traced by the first call, run by the compiled core in the second.
        memory = [np.full(each.size + 4096, MARK) for each in several]
        out = tuple(buffer[: each.size].reshape(each.shape) for buffer, each in zip(memory, several, strict=True))
        fused(X, indices, out=out if isinstance(expected, tuple) else out[0])
        for buffer, each in zip(memory, several, strict=True):
            assert np.array_equal(buffer[: each.size], each.ravel())
            assert (buffer[each.size :] == MARK).all()
