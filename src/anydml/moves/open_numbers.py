"""Comparisons of sizes that may be open (see `anydml.tracing`), without a decision that later calls must share.

Of an integer everything is known, of an open size only what `are_same` finds; what `larger` and `smaller` return is
an open size again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def are_same(one: Any, other: Any) -> bool:
    """Whether two numbers are equal in all calls, as far as is known."""
    if one is other:
        return True
    if type(one) is int or type(other) is int:
        return type(one) is type(other) and one == other
    return one.place == other.place if hasattr(one, "place") and hasattr(other, "place") else bool(one == other)


def is_one(size: Any) -> bool:
    """Whether a size is known to be 1 (as of `symbols`, which PyTorch's compiler has to read)."""
    return type(size) is int and size == 1


def is_none(size: Any) -> bool:
    """Whether a size is known to be 0."""
    return type(size) is int and size == 0


def are_none(sizes: Iterable[Any]) -> bool:
    """Whether one of several sizes is known to be 0."""
    for size in sizes:  # noqa: SIM110  # a generator takes longer
        if type(size) is int and size == 0:
            return True
    return False


def value_of(number: Any) -> Any:
    """Return the value in the traced call."""
    return number if type(number) is int else getattr(number, "value", number)


def pinned(number: Any) -> Any:
    """Return an open size as an integer, which later calls must share, and any other number as it is."""
    return int(number) if hasattr(number, "scope") else number


def is_clamped(*numbers: Any) -> bool:
    """Whether numbers must be compared by `larger` and `smaller` where possible, since calls differ in the outcome."""
    for number in numbers:  # noqa: SIM110  # a generator takes longer
        if type(number) is not int and getattr(number, "is_clamped", False):
            return True
    return False


def larger(one: Any, other: Any) -> Any:
    """Return the larger of two numbers."""
    if type(one) is int and type(other) is int:
        return max(one, other)
    return other.larger(one) if type(one) is int else one.larger(other)


def smaller(one: Any, other: Any) -> Any:
    """Return the smaller of two numbers."""
    if type(one) is int and type(other) is int:
        return min(one, other)
    return -larger(-one, -other)
