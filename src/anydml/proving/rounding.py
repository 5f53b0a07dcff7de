"""The difference of arrays of floats that runtimes may round differently."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


def nearest(array: Array, others: Sequence[Array], max_ulps: float) -> tuple[Array, float]:
    """Return an array of floats with the nearest numbers of others, whatever their signs, and how far these are off.

    Args:
        array: the array.
        others: arrays of its dtype.
        max_ulps: the largest difference; numbers without one so near stay. In units in the last place of the array's
            largest number.
    """
    if not others:
        return array, 0.0
    known = np.unique(np.abs(np.concatenate([other.reshape(-1) for other in others]).astype(np.float64)))
    numbers = np.abs(array.astype(np.float64))
    above = np.searchsorted(known, numbers).clip(1, max(1, known.size - 1))
    below = above - 1
    above = above.clip(0, known.size - 1)
    near = np.where(known[above] - numbers < numbers - known[below], known[above], known[below])
    largest = float(numbers[np.isfinite(numbers)].max(initial=float(np.finfo(array.dtype).tiny)))
    off = np.abs(near - numbers) / largest / float(np.finfo(array.dtype).eps)
    is_near = off <= max_ulps
    result = np.where(is_near, np.copysign(near, array), array).astype(array.dtype)
    return result, float(off[is_near].max(initial=0))
