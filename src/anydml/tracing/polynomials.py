"""Polynomials over numbered variables, with integers or fractions as coefficients."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

Terms = dict[tuple[int, ...], Any]
"""Coefficients by monomial: the sorted numbers of its variables; the constant term has none."""

Key = frozenset[tuple[tuple[int, ...], Any]]


def add_term(terms: Terms, numbers: tuple[int, ...], factor: Any) -> None:
    """Add a term to a polynomial, in place."""
    total = plain(terms.get(numbers, 0) + factor)
    if total:
        terms[numbers] = total
    else:
        terms.pop(numbers, None)


def product(terms: Terms, others: Terms) -> Terms:
    """Return the product of two polynomials."""
    found: Terms = {}
    for numbers, factor in terms.items():
        for more, by in others.items():
            add_term(found, tuple(sorted(numbers + more)), factor * by)
    return found


def is_constant(terms: Terms) -> bool:
    """Whether a polynomial has no variables."""
    return not terms or (len(terms) == 1 and () in terms)


def plain(number: Any) -> Any:
    """Convert a fraction that is an integer to `int`."""
    return number.numerator if type(number) is Fraction and number.denominator == 1 else number


def key_of(terms: Mapping[tuple[int, ...], Any]) -> Key:
    """Return a hashable key that identifies a polynomial."""
    return frozenset(terms.items())


def normal(terms: Terms) -> tuple[Terms, Any, Any]:
    """Write a polynomial as ``scale · primitive + constant``; return primitive, scale and constant."""
    rest = {m: c for m, c in terms.items() if m}
    sign = -1 if rest[min(rest)] < 0 else 1
    if all(type(factor) is int for factor in rest.values()):
        common = math.gcd(*rest.values()) * sign
        return {m: c // common for m, c in rest.items()} if common != 1 else rest, common, terms.get((), 0)
    factors = [Fraction(c) for c in rest.values()]
    scale = sign * Fraction(math.gcd(*(f.numerator for f in factors)), math.lcm(*(f.denominator for f in factors)))
    return {m: plain(c / scale) for m, c in rest.items()}, scale, terms.get((), 0)


def divided(terms: Terms, by: Terms) -> Terms | None:
    """Divide a polynomial by a monomial; None unless it is exact with integer coefficients."""
    if len(by) != 1:
        return None
    ((numbers, factor),) = by.items()
    found: Terms = {}
    for own, times in terms.items():
        left = list(own)
        for number in numbers:
            if number not in left:
                return None
            left.remove(number)
        quotient = plain(Fraction(times) / factor)
        if type(quotient) is not int:
            return None
        found[tuple(left)] = quotient
    return found
