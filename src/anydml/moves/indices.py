"""What an index stands for: wrapped once if it is negative, then clamped to its axis; and NumPy's `take` by such."""

from __future__ import annotations

from typing import Any

import numpy as np

Positions = np.ndarray[Any, np.dtype[np.int64]]

TAKE_MODES = {
    dtype: "raise" if dtype.kind == "i" else "clip"
    for dtype in map(np.dtype, ("int32", "int64", "uint32"))
    if np.can_cast(dtype, np.intp)
}
"""Indices that `take` reads as they are, and how: it wraps a negative one once, as we do, unless it may clip it."""


def resolve(indices: np.ndarray[Any, Any], size: int) -> Positions:
    """The coordinates that indices stand for: negative ones of a signed type wrap once, then all are clamped.

    Args:
        indices: integers of any type and shape.
        size: length of the axis, at least 1.

    Returns:
        An INT64 array of the same shape with values in [0, size−1]. INT64_MIN gives 0, UINT64_MAX gives size−1.

    Examples:
        >>> from anydml import moves
        >>> moves.resolve(np.array([1, -1, 99]), size=4)
        array([1, 3, 3])
    """
    wide = wrapped(indices, size)
    np.maximum(wide, 0, out=wide)
    np.minimum(wide, size - 1, out=wide)
    return wide


def wrapped(indices: np.ndarray[Any, Any], size: int) -> Positions:
    """The same before clamping: what lies outside the axis is below 0, or `size` and more.

    Returns:
        An INT64 array, the caller's own; unsigned indices above INT64_MAX are `size`.
    """
    if indices.dtype == np.uint64:
        return np.asarray(np.minimum(indices, np.uint64(size)).astype(np.int64))
    wide: Positions = np.asarray(indices.astype(np.int64))
    if indices.dtype.kind == "i":
        # The sign bit, spread, is −1 or 0.
        wide += (wide >> 63) & size
    return wide


def is_outside(indices: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where indices, once wrapped, lie outside an axis of `size`."""
    # A negative number, read as an unsigned one, is larger than any axis.
    outside: np.ndarray[Any, np.dtype[np.bool_]] = wrapped(indices, size).view(np.uint64) >= np.uint64(size)
    return outside


def take(x: Any, indices: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """NumPy's `take`, by indices that stand for coordinates as `resolve` says.

    Args:
        x: array that is contiguous, or small: of others, NumPy makes a copy.
        indices: INT32, INT64, UINT32 or UINT64, in native byte order.
        axis: has elements, if there are indices.
    """
    mode = TAKE_MODES.get(indices.dtype)
    if mode is None:
        indices, mode = resolve(indices, x.shape[axis]), "clip"
    try:
        taken: np.ndarray[Any, Any] = x.take(indices, axis, None, mode)
    except IndexError:
        # One is outside.
        taken = x.take(resolve(indices, x.shape[axis]), axis, None, "clip")
    return taken
