"""Conversion of sizes, counts and positions to integers, which may be open."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from anydml.tracing.sizes import Size


def whole(number: Any) -> Any:
    """Convert an integer of any library to `int`; open sizes stay open.

    Raises:
        TypeError: `number` is not an integer.
    """
    return number if type(number) is Size else operator.index(number)


def wholes(numbers: Any) -> list[Any]:
    """Convert one integer, or a list of integers, to a list.

    Raises:
        TypeError: an item is not an integer.
    """
    return [*map(whole, numbers)] if is_list(numbers) else [whole(numbers)]


def known(numbers: Any) -> np.ndarray[Any, Any]:
    """Convert numbers to a NumPy array; open ones are pinned."""
    found = np.asarray(numbers)
    if found.dtype == object and all(type(each) in (int, Size) for each in found.flat):
        return np.asarray([int(each) for each in found.flat]).reshape(found.shape)
    return found


def is_list(numbers: Any) -> bool:
    """Whether an argument is a list of numbers; an array without dimensions is not."""
    return hasattr(numbers, "__len__") and getattr(numbers, "ndim", 1) != 0
