"""Sizes in operators' rules: lists of integers, and arithmetic without comparisons of open sizes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import add, mul
from typing import Any

from anydml.moves.open_numbers import are_open, has_zero, larger
from anydml.symbols import is_symbol

Sizes = tuple[int, ...]


class Integers:
    """Integers of a rule: ``at[k]`` for each k below ``count``. Compiled, they are numbers in the call's memory."""

    __slots__ = ("at", "count")

    def __init__(self, numbers: Sequence[int]) -> None:
        self.at = tuple(numbers)
        self.count = len(self.at)


class Sizing:
    """Arithmetic of sizes: the base class of the makers of results."""

    def ints(self, *numbers: int) -> Integers:
        """Return a list of integers that a rule computes."""
        return Integers(numbers)

    def count(self, x: Any) -> int:
        """Return the number of x's elements."""
        return math.prod(x.sizes)

    def volume(self, sizes: Integers) -> int:
        """Return the number of elements of these sizes."""
        return math.prod(sizes.at)

    def total(self, numbers: Integers) -> int:
        """Return the sum of numbers."""
        return sum(numbers.at)

    def moving(self, x: Any, axis: int, position: int) -> Integers:
        """Return x's axes in order, except that one is moved to position `position`."""
        other_axes = [k for k in range(len(x.sizes)) if k != axis]
        return Integers((*other_axes[:position], axis, *other_axes[position:]))

    def is_empty(self, x: Any) -> bool:
        """Whether x is known to have no elements."""
        return has_zero(x.sizes)

    def product(self, a: Integers, b: Integers) -> Integers:
        """Return the products of numbers, one by one."""
        return Integers(tuple(map(mul, a.at, b.at)))

    def sum(self, a: Integers, b: Integers) -> Integers:
        """Return the sums of numbers, one by one."""
        return Integers(tuple(map(add, a.at, b.at)))

    def sizes(self, x: Any) -> Integers:
        """Return x's sizes."""
        return Integers(x.sizes)

    def ones(self, x: Any) -> Integers:
        """Return a size of 1 for each axis of x."""
        return Integers((1,) * len(x.sizes))

    def resized(self, x: Any, axis: int, size: int) -> Integers:
        """Return x's sizes with `size` along an axis."""
        return Integers((*x.sizes[:axis], size, *x.sizes[axis + 1 :]))

    def inserted(self, x: Any, axis: int, size: int) -> Integers:
        """Return x's sizes with `size` inserted before an axis."""
        return Integers((*x.sizes[:axis], size, *x.sizes[axis:]))

    def wrapped(self, number: int, size: int) -> int:
        """Return ``number % size``; 0 if the size is 0."""
        if (type(number) is int and not number) or is_symbol(number) or is_symbol(size):
            # PyTorch's symbols only need the results' sizes.
            return number
        if are_open(number, size):
            return number % larger(1, size)  # type: ignore[no-any-return]
        if 0 <= number < size:
            return number
        return number + size if -size <= number < 0 else number % size if size else 0
