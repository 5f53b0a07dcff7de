"""Memory of new results in host memory: NumPy's arrays, which own it.

Where the compiled core is missing, they are `numpy.empty`'s, and no memory waits to be used again.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.core import memory as core
from anydml.memory.limits import whole_memory
from anydml.text import counted

SHARE = 16
"""What waits to be used takes at most this part of the memory, where nobody says how much."""

MEMORY = 8 << 30
"""Bytes of memory where the system does not say."""

HUGE = 4 << 20
"""Bytes from which memory is asked for in huge pages, as NumPy does."""

_new: Callable[[tuple[int, ...], np.dtype[Any]], np.ndarray[Any, Any]] = np.empty if core is None else core.empty


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A new packed array.

    Raises:
        MemoryError: the system does not give so much.
    """
    try:
        return _new(shape, dtype)
    except MemoryError:
        size = counted(math.prod(shape) * dtype.itemsize, "byte")
        raise MemoryError(f"there is no memory for an array of shape {shape} and dtype {dtype}: {size}") from None


def ask_for_huge_pages(address: int, size: int) -> None:
    """Have large new memory come in huge pages where the system has them: its first touch costs less.

    Args:
        address: of memory that was not touched yet.
        size: in bytes.
    """
    if core is not None and size >= HUGE:
        core.ask_for_huge_pages(address, size)


def default_limit() -> int:
    """Bytes that wait at most where nobody says how many."""
    return (whole_memory() or MEMORY) // SHARE


if core is not None:
    core.set_limit(default_limit())


def empty_cache() -> None:
    """Give memory that waits for new results back to the system; results that are in use keep theirs.

    Examples:
        >>> dml.empty_cache()
    """
    if core is not None:
        core.give_back()


def set_cache_limit(size: int) -> None:
    """Let memory that waits for new results take so many bytes at most.

    New results of 256 KiB and more, in host memory, take the memory of results that are no longer used. What waits
    longer than some seconds is given back to the system.

    Args:
        size: bytes, at least 0; 0 turns this off. The default is a sixteenth of the memory.

    Raises:
        TypeError: it is no integer.
        ValueError: it is below 0.

    Examples:
        >>> dml.set_cache_limit(64 << 20)
    """
    try:
        number = operator.index(size)
    except TypeError:
        raise TypeError(f"set_cache_limit: {size!r} is no number of bytes, such as 64 << 20") from None
    if number < 0:
        raise ValueError(f"set_cache_limit: {number} bytes; 0 keeps none, and there are no fewer")
    if core is not None:
        core.set_limit(number)
