"""Views by NumPy's indexing beside views of memory."""

import numpy as np

from anydml.memory.host import indexed_window, window


def views_of(rng):
    """An array of numbers from 0, and a random view of it."""
    shape = [int(n) for n in rng.integers(1, 5, int(rng.integers(1, 4)))]
    x = np.arange(np.prod(shape)).reshape(shape)
    view = x[tuple(slice(int(rng.integers(0, n)), None, int(rng.choice([1, 1, 2]))) for n in shape)]
    view = view.transpose(rng.permutation(view.ndim))
    if rng.random() < 0.3 and view.shape[0] > 1:
        view = np.broadcast_to(view, (2, *view.shape))
    if rng.random() < 0.4:
        axis = int(rng.integers(view.ndim))
        for size in range(2, view.shape[axis] + 1):
            if view.shape[axis] % size == 0:
                view = view.reshape(*view.shape[:axis], size, -1, *view.shape[axis + 1 :])
                break
    if rng.random() < 0.3:
        view = np.flip(view, int(rng.integers(view.ndim)))
    return x, view


def test_indexed_windows_are_windows():
    rng, count = np.random.default_rng(7), 0
    for _ in range(3000):
        x, view = views_of(rng)
        if rng.random() < 0.3:
            # The array is reversed: its first element has the highest address.
            x = np.flip(x)
        if not np.shares_memory(x, view) and view.size:
            continue
        offset = (view.__array_interface__["data"][0] - x.__array_interface__["data"][0]) if view.size else 0
        result = indexed_window(x, offset, view.shape, view.strides)
        if result is None:
            continue
        count += 1
        np.testing.assert_array_equal(result, window(x, offset, view.shape, view.strides, x.dtype))
        assert np.shares_memory(x, result) or not view.size
    assert count > 2500


def test_a_window_outside_the_array_is_none():
    x = np.arange(6).reshape(2, 3)
    for offset, sizes, strides in (0, (3,), (24,)), (8, (2, 3), (24, 8)), (4, (1,), (8,)), (48, (1,), (8,)):
        assert indexed_window(x, offset, sizes, strides) is None, (offset, sizes, strides)
