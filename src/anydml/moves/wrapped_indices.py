"""Indices: negative ones are wrapped once, then all are clamped to the axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anydml.strides import each_once

Positions = np.ndarray[Any, np.dtype[np.int64]]


def resolve(indices: np.ndarray[Any, Any], size: int) -> Positions:
    """Return the coordinates of indices: negative ones of a signed type wrap once, then all are clamped.

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
    """Wrap indices without clamping: an index out of range becomes negative, or `size` or more.

    Returns:
        A new INT64 array; unsigned indices above INT64_MAX become `size`.
    """
    if indices.dtype == np.uint64:
        return np.asarray(np.minimum(indices, np.uint64(size)).astype(np.int64))
    wide: Positions = np.asarray(indices.astype(np.int64))
    if indices.dtype.kind == "i":
        # The arithmetic shift gives −1 for negative indices and 0 for others.
        wide += (wide >> 63) & size
    return wide


def are_inside(indices: np.ndarray[Any, Any], size: int) -> bool:
    """Whether all indices, once wrapped, are in range: decided by the least and the greatest, without a copy."""
    once = each_once(indices)
    return not once.size or (int(once.min()) >= (-size if once.dtype.kind == "i" else 0) and once.max() < size)


def is_outside(indices: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a mask of the indices that, once wrapped, are out of range."""
    # A negative number reinterpreted as unsigned exceeds any size.
    outside: np.ndarray[Any, np.dtype[np.bool_]] = wrapped(indices, size).view(np.uint64) >= np.uint64(size)
    return outside


def index_range(size: int, least: int | None = None) -> str:
    """Return the rule that indices of an axis obey: ``"indices must be -3 to 2"``; the least is −size by default."""
    first = -size if least is None else least
    return f"indices must be {first} to {size - 1}" if size else "the axis is empty, so there must be no indices"


def out_of_range(index: object, size: int, least: int | None = None, axis: str = "an axis") -> str:
    """Return what errors say of an index, and the rule that it breaks."""
    return f"index {index} is out of range for {axis} of size {size}: {index_range(size, least)}"


def outside_of(name: str, index: int, field: str, size: int, least: int | None = None) -> IndexError:
    """Return the error for an index out of range.

    Args:
        name: the program's name.
        index: the index.
        field: the name of the indices.
        size: the axis' size.
        least: the least index, where negative ones do not count from the end.
    """
    error = IndexError(f"{name}: {out_of_range(f'{index} in {field}', size, least)}")
    error.outside = name, index, field, size  # type: ignore[attr-defined]  # for `as_signed`
    return error


def as_signed(error: IndexError, fields: Mapping[str, int]) -> IndexError:
    """Correct the error of a signed index that was read as unsigned.

    Args:
        error: an error of `outside_of`; any other is returned unchanged.
        fields: bits of such indices, by the names of the fields.
    """
    name, index, field, size = getattr(error, "outside", ("", 0, "", 0))
    bits = fields.get(field)
    return error if bits is None else outside_of(name, index - (index >> (bits - 1) << bits), field, size, 0)
