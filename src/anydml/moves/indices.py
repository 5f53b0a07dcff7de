"""What an index stands for: wrapped once if it is negative, then clamped to its axis; and NumPy's `take` by such."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anydml.strides import each_once

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


def are_inside(indices: np.ndarray[Any, Any], size: int) -> bool:
    """Whether no index, once wrapped, lies outside an axis of `size`: by the smallest and the largest, in no memory."""
    once = each_once(indices)
    return not once.size or (int(once.min()) >= (-size if once.dtype.kind == "i" else 0) and once.max() < size)


def is_outside(indices: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where indices, once wrapped, lie outside an axis of `size`."""
    # A negative number, read as an unsigned one, is larger than any axis.
    outside: np.ndarray[Any, np.dtype[np.bool_]] = wrapped(indices, size).view(np.uint64) >= np.uint64(size)
    return outside


def take(x: Any, indices: np.ndarray[Any, Any], axis: int, refused_by: str | None = None) -> np.ndarray[Any, Any]:
    """NumPy's `take`, by indices that stand for coordinates as `resolve` says.

    Args:
        x: array that is contiguous, or small: of others, NumPy makes a copy.
        indices: INT32, INT64, UINT32 or UINT64, in native byte order.
        axis: has elements, if there are indices.
        refused_by: what errors call the function that refuses indices outside; None where they are clamped.

    Raises:
        IndexError: an index is refused.
    """
    mode = TAKE_MODES.get(indices.dtype)
    if mode is None:
        return _taken(x, indices, axis, refused_by)
    try:
        taken: np.ndarray[Any, Any] = x.take(indices, axis, None, "raise" if refused_by else mode)
        return taken
    except IndexError:
        # One is outside.
        pass
    return _taken(x, indices, axis, refused_by)


def _taken(x: Any, indices: np.ndarray[Any, Any], axis: int, refused_by: str | None) -> np.ndarray[Any, Any]:
    size = x.shape[axis]
    if refused_by and (outside := is_outside(indices, size)).any():
        raise outside_of(refused_by, int(indices[outside][0]), "indices", size)
    taken: np.ndarray[Any, Any] = x.take(resolve(indices, size), axis, None, "clip")
    return taken


def outside_of(name: str, index: int, field: str, size: int) -> IndexError:
    """The error for an index that lies outside its axis, wherever that is found.

    Args:
        name: what errors call the program.
        index: itself.
        field: what errors call the indices.
        size: of the axis.
    """
    error = IndexError(f"{name}: index {index} in {field} is out of range for an axis of size {size}")
    error.outside = name, index, field, size  # type: ignore[attr-defined]  # for `as_signed`
    return error


def as_signed(error: IndexError, fields: Mapping[str, int]) -> IndexError:
    """The same error, of an index that was read as an unsigned one and is none.

    Args:
        error: of `outside_of`, or another, which is given as it is.
        fields: what errors call such indices, and their bits.
    """
    name, index, field, size = getattr(error, "outside", ("", 0, "", 0))
    bits = fields.get(field)
    return error if bits is None else outside_of(name, index - (index >> (bits - 1) << bits), field, size)
