"""Exact overlap tests: do two coordinates of a strided tensor, or two arrays, share memory? Elements are not read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

OVERLAP_WORK = 100_000
"""Maximum number of steps of one exact overlap test."""


def each_once(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a view in which dimensions of stride 0 have size 1, so that each element occurs once."""
    if all(array.strides):
        return array
    return array[tuple([slice(None) if stride else slice(1) for stride in array.strides])]


def in_words(integers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return integers in a type in which indices can be read: of 4 or 8 bytes, in native order; others become INT64."""
    dtype = integers.dtype
    wide = dtype.newbyteorder("=") if dtype.kind in "iu" and dtype.itemsize >= 4 else np.dtype(np.int64)
    return np.broadcast_to(each_once(integers).astype(wide), integers.shape)


def has_overlap(sizes: Sequence[int], strides: Sequence[int], element_size: int = 1) -> bool:
    """Whether two coordinates of a strided tensor share memory.

    Exact, except that strides too hard to decide count as sharing. Strides may be negative.

    Args:
        sizes: one per dimension.
        strides: one per dimension, in the unit of `element_size`.
        element_size: 1 where strides count elements; the element's bytes where they count bytes.
    """
    if 0 in sizes or not element_size:
        return False
    dimensions = sorted((abs(stride), size) for size, stride in zip(sizes, strides, strict=True) if size > 1)
    reach = element_size
    for stride, size in dimensions:
        if stride < reach:
            break
        reach += (size - 1) * stride
    else:
        return False
    if any(stride == 0 for stride, _ in dimensions):
        return True
    return _shares_an_element(dimensions, element_size)


def _shares_an_element(dimensions: list[tuple[int, int]], element_size: int) -> bool:
    # Two coordinates share an element if a nonzero difference of coordinates has offset 0. Its first nonzero entry can
    # be assumed positive, so NumPy's exact solver runs once per dimension. The views are never read.
    element = np.zeros(1, np.dtype((np.void, element_size)))
    for first in range(len(dimensions)):
        stride, size = dimensions[first]
        inner_dimensions = dimensions[first + 1 :]
        shape, steps = [n for _, n in inner_dimensions], [s for s, _ in inner_dimensions]
        view = np.lib.stride_tricks.as_strided(element, [size, *shape], [stride, *steps], writeable=False)
        if shares_memory(view[1:], view[:1]):
            return True
    return False


def shares_memory(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays share a byte. Exact, except that strides too hard to decide count as sharing."""
    bound: Any = OVERLAP_WORK  # types of NumPy 2.4 name two of all that are allowed
    try:
        return np.shares_memory(a, b, max_work=bound)
    except np.exceptions.TooHardError:
        return True
