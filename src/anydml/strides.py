"""Whether what strides lead to shares memory: two coordinates of one tensor, or two arrays. Nothing is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

OVERLAP_WORK = 100_000
"""Steps that one exact overlap test may take."""


def each_once(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array without what strides of 0 repeat: such dimensions have size 1."""
    if all(array.strides):
        return array
    return array[tuple([slice(None) if stride else slice(1) for stride in array.strides])]


def has_overlap(sizes: Sequence[int], strides: Sequence[int], element_size: int = 1) -> bool:
    """Whether two coordinates of a strided tensor share memory.

    Exact, but for strides too hard to decide: those count as sharing. Strides may have either sign.

    Args:
        sizes: one a dimension.
        strides: one a dimension, in the unit of `element_size`.
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
    # Two coordinates share an element when a nonzero difference of coordinates has offset 0; its first nonzero entry
    # can be taken positive, so NumPy's exact solver is asked once per dimension. The views are never read.
    element = np.zeros(1, np.dtype((np.void, element_size)))
    for first in range(len(dimensions)):
        stride, size = dimensions[first]
        rest = dimensions[first + 1 :]
        shape, steps = [n for _, n in rest], [s for s, _ in rest]
        view = np.lib.stride_tricks.as_strided(element, [size, *shape], [stride, *steps], writeable=False)
        if shares_memory(view[1:], view[:1]):
            return True
    return False


def shares_memory(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays share a byte. Exact, but for strides too hard to decide: those count as sharing."""
    try:
        return np.shares_memory(a, b, max_work=OVERLAP_WORK)  # type: ignore[arg-type]  # any bound is allowed
    except np.exceptions.TooHardError:
        return True
