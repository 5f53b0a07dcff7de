"""Coordinates of elements that are not zero, by compiled code, or by NumPy where that does not know the elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.core import finding
from anydml.memory.results import empty
from anydml.strides import each_once

Array = np.ndarray[Any, Any]

SIGNS = {("f", 2): 1 << 15, ("f", 4): 1 << 31, ("f", 8): 1 << 63, ("c", 8): 1 << 63 | 1 << 31}
"""Bits that make no zero a number: a float's sign, by kind and bytes of a type."""

EVERY = (1 << 64) - 1


def argwhere(x: Array, dtype: np.dtype[Any] = np.dtype(np.int64)) -> Array:  # noqa: B008
    """The coordinates of all elements that are not zero, a row each, in row-major order.

    Args:
        x: of any shape and dtype.
        dtype: of the coordinates: INT64 or UINT32.
    """
    if 0 in x.strides and x.size and x.dtype.kind not in "biufc":
        x = np.broadcast_to(_flags(each_once(x)), x.shape)
    if finding is not None and x.ndim and x.dtype.kind in "biufc":
        numbers, kept = _words(x)
        found: Array = finding.coordinates(numbers, kept, dtype)
        return found
    # NumPy gives a view of columns: results are rows of their own.
    return np.argwhere(x).astype(dtype, "C")


def _flags(x: Array) -> Array:
    """Which elements are not zero, whatever they are."""
    flags = np.zeros(x.shape, np.bool_)
    flags[x.nonzero()] = True
    return flags


def _words(x: Array) -> tuple[Array, int]:
    """What is looked at for an array: it, or flags of its elements, packed; and which bits of each count."""
    kind, size = x.dtype.kind, x.dtype.itemsize
    if x.flags.c_contiguous and x.dtype.isnative and size in (1, 2, 4, 8):
        if kind in "biu":
            return x, EVERY
        if sign := SIGNS.get((kind, size)):
            return x, EVERY & ~sign
    flags = empty(x.shape, np.dtype(np.bool_))
    # NaNs that signal are numbers like others.
    with np.errstate(invalid="ignore"):
        return np.not_equal(x, 0, out=flags), EVERY
