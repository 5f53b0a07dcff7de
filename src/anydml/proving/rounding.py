"""The difference of arrays of floats that runtimes may round differently."""

from __future__ import annotations

import math

import numpy as np

from anydml.onnx.graph_values import Array


def max_ulps(first: Array, second: Array) -> float:
    """Return the largest difference of two arrays, in units in the last place of their largest number.

    Below the normal numbers, a unit is the smallest number above 0.

    Args:
        first: an array of floats.
        second: an array of the same dtype and shape.

    Returns:
        The difference; infinite if an infinity or NaN is in one of them only.
    """
    a, b = (array.astype(np.float64) for array in (first, second))
    is_finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(a[~is_finite], b[~is_finite], equal_nan=True):
        return math.inf
    a, b = a[is_finite], b[is_finite]
    info = np.finfo(first.dtype)
    largest = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0), float(info.tiny))
    with np.errstate(over="ignore"):
        return float(np.abs(a - b).max(initial=0) / largest / float(info.eps))
