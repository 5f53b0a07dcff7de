"""Triangles in fused functions, by diagonals that are arguments."""

import numpy as np
import pytest

import anydml as dml

X = np.arange(1, 17).reshape(4, 4)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ["tril", "triu"])
def test_diagonals_may_lie_anywhere(name):
    own, numpys = getattr(dml, name), getattr(np, name)
    for fused in (dml.fuse(own), dml.fuse(lambda x, k: numpys(x, k=k))):
        for k in (0, 1, -1, 4, -4, 2**31, 2**32 - 1, 2**32, 2**40, -(2**32), -(2**32) - 1, -(2**40), 2):
            # NumPy's own compares indices of 32 bits.
            expected = numpys(X, max(min(k, 9), -9))
            np.testing.assert_array_equal(fused(X, k), expected, err_msg=f"{name} from {k}")
