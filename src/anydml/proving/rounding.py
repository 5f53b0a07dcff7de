"""The difference of arrays of floats that runtimes may round differently."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

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


def constant_ulps(first: Array, second: Array) -> float:
    """Return the largest difference of two constants, in units in the last place of their largest number that differs.

    The units of small numbers are smaller (see `_units`), so that huge numbers beside them hide no difference.

    Args:
        first: an array of floats.
        second: an array of the same dtype and shape.

    Returns:
        The difference; infinite if an infinity or NaN is in one of them only.
    """
    differs = (first != second) & ~(np.isnan(first) & np.isnan(second))
    a, b = (np.abs(array[differs].astype(np.float64)) for array in (first, second))
    if not (np.isfinite(a) & np.isfinite(b)).all():
        return math.inf
    largest = np.maximum(a, b).max(initial=0)
    with np.errstate(over="ignore"):
        off = np.abs(first[differs].astype(np.float64) - second[differs].astype(np.float64))
        return float((off / _units(np.minimum(a, b), largest, first.dtype)).max(initial=0))


def nearest(array: Array, others: Sequence[Array], max_ulps: float) -> tuple[Array, float]:
    """Return an array of floats with the nearest numbers of others, whatever their signs, and how far these are off.

    Args:
        array: the array.
        others: arrays of its dtype.
        max_ulps: the largest difference; numbers without one so near stay. In units in the last place of the array's
            largest number that is in none of the others, or of the largest number of the other array if that is
            smaller; see also `_units`.
    """
    finite = [np.abs(other[np.isfinite(other)].astype(np.float64)) for other in others]
    # Of equal numbers, `unique` finds the first: that of the array with the largest numbers.
    finite = sorted((other for other in finite if other.size), key=np.max, reverse=True)
    if not finite:
        return array, 0.0
    known, places = np.unique(np.concatenate(finite), return_index=True)
    owners = np.searchsorted(np.cumsum([other.size for other in finite]), places, "right")
    largest = np.array([other.max() for other in finite])[owners]
    numbers = np.abs(array.astype(np.float64))
    above = np.searchsorted(known, numbers).clip(1, max(1, known.size - 1))
    below = above - 1
    above = above.clip(0, known.size - 1)
    places = np.where(known[above] - numbers < numbers - known[below], above, below)
    near = known[places]
    unmatched = numbers[np.isfinite(numbers) & (near != numbers)].max(initial=0)
    units = _units(np.minimum(near, numbers), np.minimum(largest[places], unmatched), array.dtype)
    off = np.abs(near - numbers) / units
    is_near = off <= max_ulps
    result = np.where(is_near, np.copysign(near, array), array).astype(array.dtype)
    return result, float(np.max(off, where=is_near, initial=0.0))


def _units(sizes: Array, largest: Array, dtype: np.dtype[Any]) -> Array:
    """Return the units in which differences of numbers count: the last place of the largest number beside them.

    Functions such as sine are off by units of 1 even where they are near 0. Above that, a unit is in the last quarter
    of a number's own digits, at most. Below the normal numbers, it is the smallest number above 0.
    """
    info = np.finfo(dtype)
    eps = float(info.eps)
    with np.errstate(over="ignore"):
        own = np.maximum(1, sizes * eps**-0.25)
    return np.asarray(np.maximum(np.minimum(largest, own), float(info.tiny)) * eps)
