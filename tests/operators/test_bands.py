"""Bands of diagonals as boxes: every element of the band once, and none beside it."""

import itertools
import math

import numpy as np
import pytest

from anydml.core.bands import band


def counted(height, width, first, end):
    """How often each element of a matrix is in a box of a band."""
    counts = np.zeros((height, width), int)
    for box in band(height, width, first, end):
        for at in itertools.product(*map(range, box.sizes)):
            row, column = (
                start + sum(c * step[k] for c, step in zip(at, box.steps, strict=True))
                for k, start in enumerate((box.row, box.column))
            )
            assert row >= 0 <= column
            counts[row, column] += 1
    return counts


@pytest.mark.parametrize("height, width", [*itertools.product(range(1, 6), repeat=2), (13, 7), (7, 13), (16, 16)])
def test_every_band(height, width):
    diagonals = np.arange(width) - np.arange(height)[:, None]
    ends = [-100, *range(-height - 1, width + 2), 100]
    for first, end in itertools.product(ends, repeat=2):
        expected = (first <= diagonals) & (diagonals < end)
        np.testing.assert_array_equal(counted(height, width, first, end), expected, f"{first} to {end}")


def test_there_are_few_boxes():
    for size in (2**16, 2**16 - 1, 2**32 - 1):
        boxes = [*band(size, size, -(2**40), 0)]
        assert sum(math.prod(box.sizes) for box in boxes) == size * (size - 1) // 2
        assert len(boxes) <= 40 * 40
