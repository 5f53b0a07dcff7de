"""Bands of diagonals as boxes: every element of the band once, and none beside it."""

import itertools
import math

import numpy as np
import pytest

from anydml.moves import Fill
from anydml.operators.registry import FUNCTIONS
from anydml.tensor import Layout


def boxes(height, width, first, end):
    """The moves that fill diagonals of a matrix of bytes."""
    matrix = Layout.packed((height, width), 1)
    made = FUNCTIONS["diagonal_matrix"].lower([matrix], [], [matrix], (None, first, end))
    return [move for move in made.moves if isinstance(move.source, Fill)]


def counted(height, width, first, end):
    """How often each element of a matrix is in a box of a band."""
    counts = np.zeros(height * width, int)
    for move in boxes(height, width, first, end):
        to = move.destination
        places = np.array([np.dot(at, to.strides) for at in itertools.product(*map(range, move.sizes))], int)
        assert ((places + to.offset >= 0) & (places + to.offset < counts.size)).all()
        np.add.at(counts, places + to.offset, 1)
    return counts.reshape(height, width)


@pytest.mark.parametrize("height, width", [*itertools.product(range(1, 6), repeat=2), (13, 7), (7, 13), (16, 16)])
def test_every_band(height, width):
    diagonals = np.arange(width) - np.arange(height)[:, None]
    ends = [-100, *range(-height - 1, width + 2), 100]
    for first, end in itertools.combinations_with_replacement(ends, 2):
        expected = (first <= diagonals) & (diagonals < end)
        np.testing.assert_array_equal(counted(height, width, first, end), expected, f"{first} to {end}")


def test_there_are_few_boxes():
    for size in (2**16, 2**16 - 1, 2**32 - 1):
        found = boxes(size, size, -(2**40), 0)
        assert sum(math.prod(move.sizes) for move in found) == size * (size - 1) // 2
        assert len(found) <= 40 * 40
