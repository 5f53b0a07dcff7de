"""Sizes, counts and places that a function gives: integers, which may be open."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from anydml.tracing.sizes import Size


def whole(number: Any) -> Any:
    """An integer of any library as one of Python's; open sizes stay open.

    Raises:
        TypeError: it is none.
    """
    return number if type(number) is Size else operator.index(number)


def wholes(numbers: Any) -> list[Any]:
    """Integers, given as a list or as one.

    Raises:
        TypeError: one of them is none.
    """
    return [*map(whole, numbers)] if is_list(numbers) else [whole(numbers)]


def known(numbers: Any) -> np.ndarray[Any, Any]:
    """Numbers as an array, which pins those that are open."""
    found = np.asarray(numbers)
    if found.dtype == object and all(type(each) in (int, Size) for each in found.flat):
        return np.asarray([int(each) for each in found.flat]).reshape(found.shape)
    return found


def is_list(numbers: Any) -> bool:
    """Whether there may be several numbers; one may also be an array of no dimensions."""
    return hasattr(numbers, "__len__") and getattr(numbers, "ndim", 1) != 0
