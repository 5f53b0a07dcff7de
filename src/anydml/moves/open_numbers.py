"""Comparisons of sizes that may be open (see `anydml.tracing`), without a decision that later calls must share.

Integers are compared. Of open sizes, only `are_same` knows which are equal; `larger` and `smaller` return open sizes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def are_same(x: Any, y: Any) -> bool:
    """Whether two numbers are equal in all calls, as far as is known."""
    if x is y:
        return True
    if type(x) is int or type(y) is int:
        return type(x) is type(y) and x == y
    return x.place == y.place if hasattr(x, "place") and hasattr(y, "place") else bool(x == y)


def is_one(size: Any) -> bool:
    """Whether a size is known to be 1 (as of `symbols`, which PyTorch's compiler has to read)."""
    return type(size) is int and size == 1


def is_zero(size: Any) -> bool:
    """Whether a size is known to be 0."""
    return type(size) is int and size == 0


def has_zero(sizes: Iterable[Any]) -> bool:
    """Whether one of several sizes is known to be 0."""
    for size in sizes:  # noqa: SIM110  # a generator takes longer
        if type(size) is int and size == 0:
            return True
    return False


def value_of(number: Any) -> Any:
    """Return the value in the traced call."""
    return number if type(number) is int else getattr(number, "traced_value", number)


def pinned(number: Any) -> Any:
    """Return an open size as an integer, which later calls must share, and any other number as it is."""
    return int(number) if hasattr(number, "scope") else number


def are_open(*numbers: Any) -> bool:
    """Whether one of several numbers is open, so that they are compared by `larger` and `smaller`."""
    for number in numbers:  # noqa: SIM110  # a generator takes longer
        if type(number) is not int and hasattr(number, "larger"):
            return True
    return False


def larger(x: Any, y: Any) -> Any:
    """Return the larger of two numbers."""
    if type(x) is int and type(y) is int:
        return max(x, y)
    return y.larger(x) if type(x) is int else x.larger(y)


def smaller(x: Any, y: Any) -> Any:
    """Return the smaller of two numbers."""
    if type(x) is int and type(y) is int:
        return min(x, y)
    return y.smaller(x) if type(x) is int else x.smaller(y)
