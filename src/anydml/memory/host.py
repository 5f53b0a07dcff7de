"""Addresses of arrays in host memory, and views of that memory by byte offset and byte strides."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_WORDS = {dtype.itemsize: dtype for dtype in map(np.dtype, ("u1", "u2", "u4", "u8", "c16"))}


class _Owned(ctypes.c_char * sys.maxsize):  # type: ignore[misc]  # the base is made at run time
    """A ctypes array of all memory from an address on, which keeps the owner of that memory alive."""

    __slots__ = ("owner",)


ANYWHERE = 1 << 20
"""The address of arrays without elements: for address 0, NumPy would allocate memory."""


def array_at(
    address: int, owner: Any, shape: Sequence[int], dtype: np.dtype[Any], strides: Sequence[int] | None = None
) -> Array:
    """Return a NumPy array over memory of another library. The caller guarantees that the memory is valid.

    Args:
        address: address of the first element.
        owner: owner of the memory, kept alive; `owner_of` returns it.
        shape: one size per dimension.
        dtype: dtype of the elements.
        strides: one per dimension, in bytes; None if packed.
    """
    dimensions = () if strides is None or 0 in shape else zip(shape, strides, strict=True)
    before = sum((size - 1) * -min(step, 0) for size, step in dimensions)
    memory = _Owned.from_address(address - before or ANYWHERE)
    memory.owner = owner
    return np.ndarray(shape, dtype, memory, before, strides)


def owner_of(array: Array) -> Any:
    """Return the owner of an array that `array_at` made."""
    return array.base.owner  # type: ignore[union-attr]  # it is an _Owned


def address_of(array: Array) -> int:
    """Return the address of an array's first element."""
    address: int = array.__array_interface__["data"][0]
    return address


def element_dtype(size: int) -> np.dtype[Any]:
    """Return a dtype of `size` bytes that NumPy copies bit for bit."""
    return _WORDS.get(size) or np.dtype((np.void, size))


def window(array: Array, offset: int, sizes: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return a view of memory `offset` bytes from an array's first element. The caller guarantees its bounds."""
    view = array_at(address_of(array) + offset, array, sizes, dtype, strides)
    view.flags.writeable = array.flags.writeable
    return view
