"""The moves of `slice_grad`, whose window may have no elements: each element of the result is written once."""

import itertools

import numpy as np
import pytest

from anydml.operators.registry import FUNCTIONS
from anydml.tensor import Layout

STEPS = (-9, -5, -2, -1, 1, 2, 3, 9, 12)


def drawn(rng):
    """The sizes of a random call's input, and its other arguments."""
    sizes = rng.integers(0, 7, int(rng.integers(1, 4))).tolist()
    offsets = [int(rng.integers(0, size + 1)) for size in sizes]
    window = [int(rng.integers(0, size - offset + 1)) for size, offset in zip(sizes, offsets, strict=True)]
    steps = rng.choice(STEPS, len(sizes)).tolist()
    most = [1 + (size - 1) // abs(step) if size else 0 for size, step in zip(window, steps, strict=True)]
    return tuple(int(rng.integers(0, size + 1)) for size in most), (sizes, offsets, window, steps)


@pytest.mark.parametrize("seed", range(10))
def test_each_element_is_written_once(seed):
    rng, function = np.random.default_rng(seed), FUNCTIONS["slice_grad"]
    for _ in range(100):
        shape, given = drawn(rng)
        found = function.infer("slice_grad", [shape], given)
        made = function.lower([Layout.packed(shape, 1)], [], [Layout.packed(given[0], 1)], found.parameters)
        written = []
        for move in made.moves:
            assert all(n > 0 for n in move.sizes)
            every = itertools.product(*map(range, move.sizes))
            written += [move.destination.offset + int(np.dot(c, move.destination.strides)) for c in every]
        assert sorted(written) == [*range(int(np.prod(given[0])))], (shape, given)
