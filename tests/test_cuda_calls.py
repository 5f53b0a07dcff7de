"""What calls by windows on a GPU describe, on NumPy's engine, which needs no Triton."""

import numpy as np
import pytest
from cuda_calls import WINDOW

from anydml.functions.call_plans import call


@pytest.mark.parametrize(
    ("starts", "shape", "steps", "spots"),
    [
        ((2, 0), (3, 2), (-1, 2), np.s_[::-1, ::2]),
        ((1, 3), (2, 4), (1, -1), np.s_[1:, ::-1]),
        ((0, 0), (3, 0), (1, 1), np.s_[:, :0]),
    ],
)
def test_a_window_begins_at_its_first_coordinate(starts, shape, steps, spots):
    x = np.arange(12).reshape(3, 4)
    (found,) = call("slice", WINDOW, (x,), (starts, shape, steps), None, None)
    np.testing.assert_array_equal(found, x[spots], strict=True)
