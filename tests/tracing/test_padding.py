"""Padding that repeats what is there, once or again and again: against NumPy and PyTorch."""

import functools
import itertools
import random

import numpy as np
import pytest
from how_many import how_many

import anydml as dml

CASES = how_many(40)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap"])
def test_numpys_pad(mode):
    rng = random.Random(mode)
    for _ in range(CASES):
        shape = [rng.randint(1, 6) for _ in range(rng.randint(1, 3))]
        widths = [(rng.choice([0, 1, 2, 5, 17]), rng.choice([0, 1, 2, 5, 13])) for _ in shape]
        x = np.arange(np.prod(shape)).reshape(shape)
        found = dml.fuse(lambda x, widths=widths: np.pad(x, widths, mode=mode))(x)
        np.testing.assert_array_equal(found, np.pad(x, widths, mode=mode), f"{shape} {widths}", strict=True)


def test_an_empty_axis_has_nothing_to_repeat():
    fused = dml.fuse(lambda x: np.pad(x, 1, mode="edge"))
    with pytest.raises(dml.FuseError, match="empty axis 0"):
        fused(np.empty((0, 2)))
    with pytest.raises(ValueError, match="empty axis 0"):
        np.pad(np.empty((0, 2)), 1, mode="edge")


@pytest.mark.parametrize("mode", ["replicate", "reflect", "circular"])
def test_pytorchs_pad(mode):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    rng, compared = random.Random(mode), 0
    for _ in range(CASES):
        shape = [2, 2, *(rng.randint(1, 6) for _ in range(rng.randint(1, 2)))]
        counts = [rng.choice([-2, -1, 0, 1, 2, 3]) for _ in range(2 * (len(shape) - 2))]
        x = torch.arange(float(np.prod(shape))).reshape(shape)
        try:
            wanted = torch.nn.functional.pad(x, counts, mode=mode)
            found = dml.fuse(lambda x, counts=counts: torch.nn.functional.pad(x, counts, mode=mode))(x)
        except (RuntimeError, dml.FuseError):
            # PyTorch also takes some that leave nothing to repeat, and makes up elements.
            continue
        assert torch.equal(found, wanted), (shape, counts)
        compared += 1
    assert compared > CASES / 4


@pytest.mark.parametrize("mode", ["replicate", "reflect", "circular", "constant"])
def test_pytorchs_pad_takes_as_many_counts(mode):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    for rank, count, width in itertools.product(range(1, 7), range(9), (0, 1)):
        x = torch.arange(3**rank).reshape((3,) * rank)
        pad = functools.partial(torch.nn.functional.pad, pad=(width,) * count, mode=mode)
        fused = dml.fuse(lambda x, pad=pad: pad(x))
        try:
            expected = pad(x)
        except (RuntimeError, NotImplementedError):
            with pytest.raises(dml.FuseError, match=f"pad has {count} counts"):
                fused(x)
        else:
            assert torch.equal(fused(x), expected)
