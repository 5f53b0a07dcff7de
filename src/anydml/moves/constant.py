"""Constants of programs: arrays, and lazily computed arrays, so that explaining a program takes no memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.tensor import packed_strides

Array = np.ndarray[Any, Any]


class LazyConstant:
    """A contiguous array whose elements are computed when first read.

    Args:
        shape: the sizes of the array.
        dtype: the dtype of its elements.
        maker: computes them.

    Examples:
        >>> from anydml import moves
        >>> places = moves.LazyConstant((1 << 40,), "int64", lambda: np.arange(1 << 40))
        >>> places.nbytes
        8796093022208
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any, maker: Callable[[], Array]) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)
        self._make = maker
        self._made: Array | None = None

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in bytes, one per axis, in row-major order without gaps."""
        return tuple(step * self.dtype.itemsize for step in packed_strides(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, whether they have been computed or not."""
        size: int = self.dtype.itemsize
        return math.prod(self.shape) * size

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self._made is None:
            self._made = self._make()
        return self._made if dtype is None else self._made.astype(dtype, copy=bool(copy))


Constant = Array | LazyConstant
"""A constant's elements: has shape, dtype, strides and nbytes, and converts with `numpy.asarray`."""


def as_bytes(constant: Constant) -> Constant:
    """Return a constant as a one-dimensional array of bytes."""
    if isinstance(constant, LazyConstant):
        return LazyConstant((constant.nbytes,), np.uint8, lambda: np.asarray(constant).reshape(-1).view(np.uint8))
    return np.ascontiguousarray(constant).reshape(-1).view(np.uint8)
