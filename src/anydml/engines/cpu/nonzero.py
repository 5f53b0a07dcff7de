"""Coordinates of elements that are not zero, by compiled code, or by NumPy for dtypes that it does not support."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.core import nonzero_search
from anydml.memory.results import empty
from anydml.strides import each_once

Array = np.ndarray[Any, Any]


def argwhere(x: Array, dtype: np.dtype[Any] = np.dtype(np.int64)) -> Array:  # noqa: B008
    """Return the coordinates of all elements that are not zero, one row per element, in row-major order.

    Args:
        x: array of any shape and dtype.
        dtype: dtype of the coordinates: INT64 or UINT32.
    """
    if 0 in x.strides and x.size and x.dtype.kind not in "biufc":
        # Each element once: NumPy would look at all.
        once = each_once(x)
        flags = np.zeros(once.shape, np.bool_)
        flags[once.nonzero()] = True
        x = np.broadcast_to(flags, x.shape)
    if nonzero_search is not None and x.ndim and (x.dtype.kind in "biufc" or x.dtype.isbuiltin == 2):
        coordinates: Array | None = nonzero_search.nonzero(x, dtype)
        if coordinates is None:
            # Signaling NaNs must not warn.
            with np.errstate(invalid="ignore"):
                flags = np.not_equal(x, 0, out=empty(x.shape, np.dtype(np.bool_)))
            coordinates = nonzero_search.nonzero(flags, dtype)
        return coordinates
    # NumPy returns a transposed view; results must be contiguous.
    return np.argwhere(x).astype(dtype, "C")
