"""Addresses of arrays in host memory, and views of that memory by byte offset and byte strides."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_WORDS = {dtype.itemsize: dtype for dtype in map(np.dtype, ("u1", "u2", "u4", "u8", "c16"))}


class _OwnedMemory(ctypes.c_char * sys.maxsize):  # type: ignore[misc]  # the base is made at run time
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
    memory = _OwnedMemory.from_address(address - before or ANYWHERE)
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


def indexed_window(array: Array, offset: int, sizes: Sequence[int], strides: Sequence[int]) -> Array | None:
    """Return the same view as `window`, made by NumPy's indexing, since NumPy views no memory as references.

    Returns:
        The view, or None if NumPy's slices and divisions of axes do not make it.
    """
    if 0 in sizes:
        return np.empty(sizes, array.dtype)
    # Reversed and broadcast axes are replaced by the same elements with positive strides.
    offset -= sum((n - 1) * min(stride, 0) for n, stride in zip(array.shape, array.strides, strict=True))
    array = array[(..., *(slice(None, None, -1 if step < 0 else 1) if step else slice(1) for step in array.strides))]
    axes = [k for k in np.argsort(array.strides)[::-1].tolist() if array.shape[k] > 1]
    starts, used, order = [0] * array.ndim, dict[int, tuple[int, int]](), list[int | None]()
    remaining = offset
    for k in axes:
        starts[k], remaining = divmod(remaining, array.strides[k])
    if remaining or any(not 0 <= starts[k] < array.shape[k] for k in axes):
        return None

    def step_along(k: int, size: int, stride: int) -> int:
        """Return a dimension's step along axis k; 0 if it leaves the axis or falls between its elements."""
        step, between = divmod(stride, array.strides[k])
        return 0 if between or not 0 <= starts[k] + (size - 1) * step < array.shape[k] else step

    for size, stride in zip(sizes, strides, strict=True):
        axis = None
        if size > 1 and stride:
            fitting = [k for k in axes if step_along(k, size, stride)]
            axis = next((k for k in fitting if k not in used), None)
            if axis is None:
                if not fitting:
                    return None
                return _divided_window(array, offset, sizes, strides, fitting[-1], starts[fitting[-1]])
            used[axis] = step_along(axis, size, stride), size
        order.append(axis)
    index: list[Any] = [...]
    for k, start in enumerate(starts):
        step, size = used.get(k, (1, 1))
        end = start + size * step
        index.append(slice(start, end if end >= 0 else None, step) if k in used else start)
    positions = {k: position for position, k in enumerate(sorted(used))}
    view = array[tuple(index)].transpose([positions[k] for k in order if k is not None])
    view = view[(..., *(np.newaxis if k is None else slice(None) for k in order))]
    return view if view.shape == (*sizes,) else np.broadcast_to(view, sizes)


def _divided_window(
    array: Array, offset: int, sizes: Sequence[int], strides: Sequence[int], axis: int, start: int
) -> Array | None:
    """Return the `indexed_window` for several dimensions along one axis, after the axis is divided into two."""
    unit, count = array.strides[axis], array.shape[axis]
    along = [(stride // unit, size) for size, stride in zip(sizes, strides, strict=True) if not stride % unit]
    step, size = max(((step, size) for step, size in along if step > 1 < size and step * size <= count), default=(0, 0))
    low = start - start % max(step, 1)
    if not step or low + size * step > count:
        return None
    part = array[(*[slice(None)] * axis, slice(low, low + size * step))]
    shape = (*array.shape[:axis], size, step, *array.shape[axis + 1 :])
    return indexed_window(part.reshape(shape), offset - low * unit, sizes, strides)
