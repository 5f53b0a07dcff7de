"""Allocation of results in host memory, as NumPy arrays that own it.

Without the compiled core, `numpy.empty` allocates them, and freed memory is not cached.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.core import memory as core
from anydml.fields import integer
from anydml.memory.limits import whole_memory
from anydml.text import count_noun

CACHE_FRACTION = 16
"""The default limit of cached memory is the total memory divided by this."""

ASSUMED_MEMORY = 8 << 30
"""Total memory in bytes that is assumed if the system does not report it."""

_new: Callable[[tuple[int, ...], np.dtype[Any]], np.ndarray[Any, Any]] = np.empty if core is None else core.empty


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Return a new packed array.

    Raises:
        MemoryError: there is not enough memory.
    """
    try:
        return _new(shape, dtype)
    except MemoryError:
        size = count_noun(math.prod(shape) * dtype.itemsize, "byte")
        raise MemoryError(f"there is no memory for an array of shape {shape} and dtype {dtype}: {size}") from None


def default_limit() -> int:
    """Return the default limit of cached memory, in bytes."""
    return (whole_memory() or ASSUMED_MEMORY) // CACHE_FRACTION


if core is not None:
    core.set_limit(default_limit())


def empty_cache() -> None:
    """Return cached memory of former results to the system. Results that are in use keep theirs.

    Examples:
        >>> dml.empty_cache()
    """
    if core is not None:
        core.release_blocks()


def set_cache_limit(size: int) -> None:
    """Limit the memory that is cached for new results.

    New results of 256 KiB and more, in host memory, reuse the memory of results that were freed. Memory that is not
    reused for some seconds is returned to the system.

    Args:
        size: bytes, at least 0; 0 turns the cache off. The default is a sixteenth of the memory.

    Raises:
        TypeError: `size` is not an integer.
        ValueError: `size` is negative.

    Examples:
        >>> dml.set_cache_limit(64 << 20)
    """
    max_bytes = integer("set_cache_limit", "size", size)
    if max_bytes < 0:
        raise ValueError(f"set_cache_limit: size is {max_bytes}, but must be 0 or more")
    if core is not None:
        core.set_limit(max_bytes)
