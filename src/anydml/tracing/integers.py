"""Sizes, counts and places that a function gives: integers, which may be open."""

from __future__ import annotations

import operator
from typing import Any


def whole(number: Any) -> Any:
    """An integer.

    Raises:
        TypeError: it is none.
    """
    return operator.index(number)


def wholes(numbers: Any) -> list[Any]:
    """Integers, given as a list or as one.

    Raises:
        TypeError: one of them is none.
    """
    return [*map(whole, numbers)] if is_list(numbers) else [whole(numbers)]


def is_list(numbers: Any) -> bool:
    """Whether there may be several numbers; one may also be an array of no dimensions."""
    return hasattr(numbers, "__len__") and getattr(numbers, "ndim", 1) != 0
