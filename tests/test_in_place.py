"""Scatters whose `out` is the array itself: the updates alone are written, as NumPy's assignments do."""

import numpy as np
import pytest
from odd_arrays import random_array, same

import anydml as dml

LAYOUTS = {
    "packed": lambda x: x,
    "transposed": lambda x: x.T,
    "backwards": lambda x: x[::-1],
    "steps": lambda x: np.repeat(x, 2, 0)[::2],
}


def put(x, indices, updates, axis=None):
    """In place, by one assignment after the other."""
    for at in np.ndindex(*(indices.shape if axis is not None else indices.shape[:-1])):
        to = [*at]
        if axis is not None:
            to[axis] = indices[at]
        x[tuple(to if axis is not None else indices[at])] = updates[at]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f4", "u1", "D", "U3", "O"])
@pytest.mark.parametrize("shape", [(6,), (5, 4), (300, 70)], ids=str)
def test_as_assignments(shape, dtype, layout):
    rng = np.random.default_rng([len(shape), shape[0]])
    for _ in range(3):
        x = LAYOUTS[layout](random_array(rng, np.dtype(dtype), shape))
        expected = x.copy()
        # Some places are there more than once: the last stays.
        indices = rng.integers(-len(x), len(x), (7, 1))
        updates = random_array(rng, np.dtype(dtype), (7, *x.shape[1:]))
        put(expected, indices, updates)
        assert dml.scatter_nd(x, indices, updates, out=x) is x
        same(np.ascontiguousarray(x), expected)
        axis = int(rng.integers(x.ndim))
        sizes = [min(3, n) for n in x.shape]
        indices = rng.integers(-x.shape[axis], x.shape[axis], sizes)
        updates = random_array(rng, np.dtype(dtype), sizes)
        put(expected, np.where(indices < 0, indices + x.shape[axis], indices), updates, axis)
        assert dml.scatter(x, indices, updates, axis, out=x) is x
        same(np.ascontiguousarray(x), expected)
        # Nothing to write.
        dml.scatter_nd(x, np.zeros((0, 1), int), x[:0].copy(), out=x)
        same(np.ascontiguousarray(x), expected)


def test_outside_is_refused_or_skipped():
    x = np.arange(4.0)
    with pytest.raises(IndexError, match="scatter: index 4 in indices"):
        dml.scatter(x, [0, 4], [7.0, 8.0], out=x)
    assert x.tolist() == [0, 1, 2, 3]
    dml.scatter(x, [0, 4], [7.0, 8.0], out_of_range="skip", out=x)
    assert x.tolist() == [7, 1, 2, 3]


@pytest.mark.parametrize("size", [10, 100_000])
def test_other_overlaps_are_refused(size):
    x = np.arange(float(size))
    whole = x.view(np.int64)
    before, one = x.copy(), np.zeros((1, 1), int)
    calls = {
        "out overlaps x": lambda: dml.scatter_nd(x[1:], one, np.ones(1), out=x[:-1]),
        "scatter: out overlaps x": lambda: dml.scatter(x[::-1], one[0], np.ones(1), out=x),
        "out overlaps updates": lambda: dml.scatter_nd(x, one, x[:1], out=x),
        "out overlaps indices": lambda: dml.scatter(whole, whole[:1], np.ones(1, int), out=whole),
    }
    for message, call in calls.items():
        with pytest.raises(dml.BindingError, match=message):
            call()
        assert np.array_equal(x, before)
    x.flags.writeable = False
    with pytest.raises(dml.BindingError, match="out is read-only"):
        dml.scatter_nd(x, one, np.ones(1), out=x)


def test_tensors():
    torch = pytest.importorskip("torch")
    x = torch.arange(12.0).reshape(3, 4)
    expected, version = x.clone(), x._version
    expected[[1, -1]] = torch.tensor([[5.0], [6.0]])
    updates = torch.tensor([[5.0], [6.0]]).expand(2, 4)
    assert dml.scatter_nd(x, torch.tensor([[1], [-1]]), updates, out=x) is x
    assert torch.equal(x, expected)
    assert x._version > version
    view = x.T
    assert dml.scatter(view, torch.tensor([[2]]), torch.tensor([[9.0]]), out=view) is view
    assert x[0, 2] == 9
