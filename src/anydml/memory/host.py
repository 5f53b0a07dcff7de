"""Addresses, and views of memory by byte offset and byte strides, whatever array owns it."""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_WORDS: dict[int, np.dtype[Any]] = {
    1: np.dtype("u1"),
    2: np.dtype("u2"),
    4: np.dtype("u4"),
    8: np.dtype("u8"),
    16: np.dtype("c16"),
}


class _Window:
    """Memory that an array owns, described to NumPy; keeps the owner alive."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, owner: Array, interface: dict[str, Any]) -> None:
        self._owner = owner
        self.__array_interface__ = interface


class _Owned(ctypes.c_char * sys.maxsize):  # type: ignore[misc]  # ctypes makes the base
    """All memory from an address on; keeps the owner alive."""

    __slots__ = ("owner",)


HUGE = 4 << 20
"""Bytes from which NumPy asks for huge pages, too."""


def array_at(
    address: int, owner: Any, shape: tuple[int, ...], dtype: np.dtype[Any], strides: tuple[int, ...] | None = None
) -> Array:
    """A NumPy array over memory of any library's, which it keeps alive. The caller answers for address and bounds.

    Args:
        address: of the first element.
        owner: what has the memory, given back by `owner_of`.
        shape: sizes, by dimension.
        dtype: of the elements.
        strides: in bytes, 0 or more, by dimension; None where the elements lie packed.
    """
    # At address 0 NumPy would take memory of its own.
    memory = _Owned.from_address(address or HUGE)
    memory.owner = owner
    return np.ndarray(shape, dtype, memory, 0, strides)


def owner_of(array: Array) -> Any:
    """The owner of an array that `array_at` made."""
    return array.base.owner  # type: ignore[union-attr]  # it is an _Owned


def ask_for_huge_pages(address: int, size: int) -> None:
    """Have large new memory come in huge pages where the system has them, as NumPy's does: its first touch costs less.

    Args:
        address: of memory that was not touched yet.
        size: in bytes.
    """
    if size < HUGE or (advise := _advise()) is None:
        return
    first, end = -(-address // mmap.PAGESIZE), (address + size) // mmap.PAGESIZE
    advise(first * mmap.PAGESIZE, (end - first) * mmap.PAGESIZE)


@cache
def _advise() -> Callable[[int, int], int] | None:
    """The system's madvise, asked for huge pages; None where it knows none."""
    if sys.platform != "linux":
        return None
    advise: Any = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    huge = mmap.MADV_HUGEPAGE
    return lambda address, size: advise(address, size, huge)


def address_of(array: Array) -> int:
    """The address of an array's first element."""
    address: int = array.__array_interface__["data"][0]
    return address


def element_dtype(size: int) -> np.dtype[Any]:
    """A dtype of `size` bytes that NumPy moves without looking inside."""
    return _WORDS.get(size) or np.dtype((np.void, size))


def window(array: Array, offset: int, sizes: Sequence[int], strides: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """A view of the memory `offset` bytes from an array's first element. The caller answers for its bounds."""
    if offset >= 0 and array.flags.c_contiguous and array.dtype.char in "Bbhilqefdg?HILQ":
        try:
            return np.ndarray(sizes, dtype, array, offset, strides)
        except ValueError:
            pass
    interface = {
        "version": 3,
        "data": (address_of(array) + offset, not array.flags.writeable),
        "shape": tuple(sizes),
        "strides": tuple(strides),
        "typestr": dtype.str,
    }
    return np.asarray(_Window(array, interface))
