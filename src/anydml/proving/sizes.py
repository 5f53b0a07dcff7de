"""Sizes as polynomials in the names of dimensions: an equality of polynomials holds for all values of the names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

DERIVED_NAME = "\n"
"""The prefix of names of sizes that are not dimensions; names in models contain no line breaks."""

Product = tuple[str, ...]
"""A product of names, sorted; a name may occur several times."""


class Polynomial:
    """A polynomial with integer coefficients that is not constant; equal ones are equal for all values of the names.

    Attributes:
        parts: each product of names and its coefficient, which is not 0; sorted.
    """

    __slots__ = ("_hash", "parts")

    def __init__(self, parts: tuple[tuple[Product, int], ...]) -> None:
        self.parts = parts
        self._hash = hash(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.parts == other.parts

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Any) -> Size:
        return _make([*self.parts, *products_of(other)])

    def __mul__(self, other: Any) -> Size:
        if type(other) is int and other:
            return self if other == 1 else Polynomial(tuple((names, count * other) for names, count in self.parts))
        return _make(
            ((*sorted((*names, *other_names)),), count * times)
            for names, count in self.parts
            for other_names, times in products_of(other)
        )

    def __sub__(self, other: Any) -> Size:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Size:
        return _make([*self.__neg__().parts, *products_of(other)])

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple((names, -count) for names, count in self.parts))

    def __radd__(self, other: Any) -> Size:
        return self.__add__(other)

    def __rmul__(self, other: Any) -> Size:
        return self.__mul__(other)

    def __str__(self) -> str:
        products = (("*".join(names), count) for names, count in reversed(self.parts))
        return " + ".join(
            text if count == 1 and text else f"{count}*{text}" if text else str(count) for text, count in products
        )

    __repr__ = __str__


Size = int | Polynomial

Sizes = tuple[Size, ...]


def name(text: str) -> Polynomial:
    """Return the size that a name stands for."""
    return Polynomial((((text,), 1),))


def products_of(size: Any) -> Sequence[tuple[Product, int]]:
    """Return the products of names that a size is a sum of, with coefficients; the empty product is the constant."""
    return size.parts if isinstance(size, Polynomial) else [((), int(size))]


def _make(parts: Iterable[tuple[Product, int]]) -> Size:
    terms: dict[Product, int] = {}
    for names, count in parts:
        terms[names] = terms.get(names, 0) + count
    products = tuple(sorted((names, count) for names, count in terms.items() if count))
    if not products:
        return 0
    return products[0][1] if len(products) == 1 and not products[0][0] else Polynomial(products)


def product(sizes: Iterable[Size]) -> Size:
    """Return the product of sizes."""
    number: int = 1
    total: Size = 1
    for size in sizes:
        if isinstance(size, int):
            number *= size
        else:
            total = size * total
    return total * number


def exact_quotient(size: Size, by: Size) -> Size | None:
    """Return the quotient of two sizes that divide without remainder for all values of the names; None for others."""
    if size == by:
        return 1
    if by == 0:
        return None
    if isinstance(size, int) and isinstance(by, int):
        return None if size % by else size // by
    names, count = _leading(by)
    undivided, terms = size, list[tuple[Product, int]]()
    while undivided != 0:
        factor, times = _leading(undivided)
        remaining = [*factor]
        for factor_name in names:
            if factor_name not in remaining:
                return None
            remaining.remove(factor_name)
        if times % count or len(terms) == MAX_PARTS:
            return None
        terms.append((tuple(remaining), times // count))
        undivided = undivided - _make([terms[-1]]) * by
    return _make(terms)


MAX_PARTS = 64
"""Maximum number of products in a quotient."""


def _leading(size: Size) -> tuple[Product, int]:
    """Return the last product of a size in an order that multiplication keeps."""
    parts = products_of(size)
    if len(parts) == 1:
        return parts[0]
    return max(parts, key=lambda part: (len(part[0]), part[0]))


def lower_bound(size: Size) -> int | None:
    """Return a lower bound of a size, given that names of dimensions are at least 1; None if there is none."""
    total = 0
    for names, count in products_of(size):
        low = count
        for factor_name in names:
            minimum = lower_bound_of(factor_name)
            if minimum is None or count < 0:
                return None
            low *= minimum
        total += low
    return total


def lower_bound_of(factor_name: str) -> int | None:
    """Return a lower bound, at least 0, of the value of a name; None if there is none."""
    if isinstance(factor_name, Quotient):
        low = lower_bound(factor_name.above)
        return (
            None
            if low is None or low < 0 or not isinstance(factor_name.by, int) or factor_name.by < 0
            else low // factor_name.by
        )
    # A size that depends on elements may be 0.
    return 0 if factor_name.startswith(DERIVED_NAME) else 1


def differ(first: Size, second: Size) -> bool:
    """Whether two sizes certainly differ for all values of the names."""
    gap: Size = first - second
    if isinstance(gap, int):
        return gap != 0
    return any((lower_bound(difference) or 0) > 0 for difference in (gap, -gap))


class Quotient(str):
    """The name of a quotient that is rounded down.

    Attributes:
        above: the dividend.
        by: the divisor.
    """

    __slots__ = ("above", "by")

    above: Size
    by: Size

    def __new__(cls, above: Size, by: Size) -> Quotient:
        """Make the name."""
        quotient = super().__new__(cls, f"{DERIVED_NAME}({above})//({by})")
        quotient.above, quotient.by = above, by
        return quotient


def quotient(size: Size, by: Size) -> Size:
    """Return the quotient of two sizes, rounded down; if it is not a polynomial, a new name stands for it."""
    if isinstance(size, int) and isinstance(by, int):
        return size // by
    exact = exact_quotient(size, by)
    if exact is not None:
        return exact
    integer_part: Size = 0
    if isinstance(by, int) and by > 0:
        # The part that divides without remainder is left out of the name, so that equal quotients have equal names.
        integer_part = _make([(names, count // by) for names, count in products_of(size)])
        size = size - integer_part * by
        variable_terms = [(names, count) for names, count in products_of(size) if names]
        if len(variable_terms) == 1 and variable_terms[0][1] == len(variable_terms[0][0]) == 1:
            (inner,) = variable_terms[0][0]
            if isinstance(inner, Quotient) and isinstance(inner.by, int) and inner.by > 0:
                remainder: Size = size - name(inner)
                return integer_part + quotient(inner.above + inner.by * remainder, inner.by * by)
    return integer_part + name(Quotient(size, by))


def axis_of(axis: int, rank: int) -> int | None:
    """Return the number of an axis, which may be negative; None if there is no such axis."""
    return axis % rank if -rank <= axis < rank else None


def are_sizes(sizes: Sequence[Size]) -> bool:
    """Whether numbers are at least 0 for all values of the names."""
    return all((low := lower_bound(size)) is not None and low >= 0 for size in sizes)


def may_fit(first: Sizes, second: Sizes) -> bool:
    """Whether shapes may broadcast to each other, as far as their constant sizes tell."""
    pairs = zip(first[::-1], second[::-1], strict=False)
    return all(not (isinstance(a, int) and isinstance(b, int)) or 1 in (a, b) or a == b for a, b in pairs)


def never_fit(first: Sizes, second: Sizes) -> bool:
    """Whether shapes do not broadcast to each other for any values of the names."""
    pairs = zip(first[::-1], second[::-1], strict=False)
    return any(differ(a, b) and differ(a, 1) and differ(b, 1) for a, b in pairs)


def surely_fit(first: Sizes, second: Sizes) -> bool:
    """Whether shapes broadcast to each other for all values of the names."""
    return all(1 in (a, b) or a == b for a, b in zip(first[::-1], second[::-1], strict=False))


def broadcast(first: Sizes, second: Sizes) -> Sizes:
    """Return the shape that two shapes broadcast to."""
    rank = max(len(first), len(second))
    pairs = zip(*((1,) * (rank - len(sizes)) + sizes for sizes in (first, second)), strict=True)
    return tuple(_broadcast(a, b) for a, b in pairs)


def _broadcast(first: Size, second: Size) -> Size:
    if first in (1, second):
        return second
    if second == 1:
        return first
    # If one size is a number other than 1, it is the result.
    for sizes in (first, second):
        if isinstance(sizes, int):
            return sizes
    small, large = sorted((str(first), str(second)))
    return name(f"{DERIVED_NAME}larger({small}, {large})")


def evaluate(size: Size, values: Mapping[str, int]) -> int | None:
    """Return the value of a size for values of names; None if a name has none."""
    total = 0
    for names, count in products_of(size):
        name_values = [number for size_name in names if (number := _value(size_name, values)) is not None]
        if len(name_values) < len(names):
            return None
        total += count * math.prod(name_values)
    return total


def _value(size_name: str, values: Mapping[str, int]) -> int | None:
    """Return the value of a name; None if it has none."""
    if not isinstance(size_name, Quotient):
        return values.get(size_name)
    above, by = evaluate(size_name.above, values), evaluate(size_name.by, values)
    return None if above is None or not by else above // by


def variables(size: Size) -> list[Size]:
    """Return the factors of a size without numbers: names, quotients, and at most one sum."""
    parts = products_of(size)
    if isinstance(size, int):
        return []
    counts = [Counter(names) for names, _ in parts]
    shared = counts[0]
    for factors in counts[1:]:
        shared = shared & factors
    remaining: list[Size] = [name(factor) for factor in shared]
    if len(parts) > 1:
        divisor = math.gcd(*(count for _, count in parts))
        rests = (tuple(sorted((factors - shared).elements())) for factors in counts)
        remaining.append(
            _make((variables_left, count // divisor) for variables_left, (_, count) in zip(rests, parts, strict=True))
        )
    return remaining


def names_of(size: Size) -> set[str]:
    """Return all names that a size depends on, including the names in dividends and divisors of quotients."""
    found_names = set[str]()
    for factor in {factor for names, _ in products_of(size) for factor in names}:
        found_names |= names_of(factor.above) | names_of(factor.by) if isinstance(factor, Quotient) else {factor}
    return found_names
