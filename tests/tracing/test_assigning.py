"""Assignments of traced functions into arrays of their own: NumPy's results, or an error, and arguments as they were."""

import warnings

import numpy as np
import pytest
from how_many import how_many

import anydml as dml

X = np.arange(24.0).reshape(4, 6)


def key_of(rng, shape):
    """A basic key for a shape."""
    items = []
    for size in shape[: rng.integers(len(shape) + 1)]:
        kind = rng.integers(6)
        if kind == 0 and size:
            items.append(int(rng.integers(-size, size)))
        elif kind == 1:
            items.append(slice(None))
        elif kind == 2:
            items.append(slice(None, None, int(rng.choice([-2, -1, 2, 3]))))
        else:
            items.append(slice(*sorted(map(int, rng.integers(0, size + 1, 2)))))
    if rng.random() < 0.1:
        items.insert(int(rng.integers(len(items) + 1)), None)
    if rng.random() < 0.2:
        items.append(...)
    return tuple(items) if len(items) != 1 or rng.random() < 0.5 else items[0]


def random_function(rng):
    """A function that assigns, takes views and copies, and returns all that it has."""
    steps = rng.integers(1 << 30, size=int(rng.integers(3, 12)))

    def function(x, y):
        arrays = [x, y]
        for seed in steps:
            draw = np.random.Generator(np.random.PCG64(int(seed)))
            one = arrays[draw.integers(len(arrays))]
            kind = draw.integers(12)
            if kind == 0:
                arrays.append(np.zeros((*one.shape[:1], 3), x.dtype))
            elif kind == 1:
                arrays.append(np.full(one.shape, 7.0))
            elif kind == 2:
                arrays.append(one.copy())
            elif kind == 3:
                arrays.append(np.concatenate([one, one]) if one.ndim else np.stack([one, one]))
            elif kind == 4:
                arrays.append(one[key_of(draw, one.shape)])
            elif kind == 5 and one.ndim:
                arrays.append([one.T, one.reshape(-1), np.flip(one), np.squeeze(one)][draw.integers(4)])
            elif kind == 6:
                arrays.append(np.array([one, one]))
            elif kind == 7 and len(arrays) > 3:
                del arrays[draw.integers(2, len(arrays))]
            else:
                target = arrays[draw.integers(2, len(arrays))] if len(arrays) > 2 else one.copy()
                key = key_of(draw, target.shape)
                shape = target[key].shape
                if draw.random() < 0.3:
                    target[key] = float(draw.integers(100))
                else:
                    source = arrays[draw.integers(len(arrays))]
                    count = int(np.prod(shape))
                    flat = np.resize(source, count) if source.size else np.zeros(count)
                    target[key] = flat.reshape(shape)
                if len(arrays) == 2:
                    arrays.append(target)
        return arrays[2:]

    return function


@pytest.mark.parametrize("chunk", range(8))
def test_random_functions(chunk):
    done = refused = 0
    for number in range(how_many(400) // 8):
        rng = np.random.default_rng([chunk, number])
        function = random_function(rng)
        fused = dml.fuse(function)
        for _ in range(3):
            x, y = (rng.random(tuple(rng.integers(1, 5, 2))) for _ in range(2))
            before = x.copy(), y.copy()
            try:
                expected = [each.copy() for each in function(x, y)]
            except (ValueError, IndexError, TypeError):
                continue
            writes = not all(np.array_equal(one, other) for one, other in zip(before, (x, y), strict=True))
            x, y = before[0].copy(), before[1].copy()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)
                    found = fused(x, y)
            except dml.FuseError as error:
                assert "assign" in str(error), error
                refused += 1
            else:
                assert not writes, "an argument is written"
                for one, other in zip(found, expected, strict=True):
                    assert one.dtype == other.dtype
                    np.testing.assert_array_equal(one, other)
                done += 1
            assert np.array_equal(x, before[0])
            assert np.array_equal(y, before[1])
    print(done, refused)
    assert done > refused
