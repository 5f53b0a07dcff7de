"""The open sizes of a trace: its variables, and the guards on them (see `sizes`)."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from anydml.tracing.polynomials import Key, Terms, add_term, divided, is_constant, key_of, normal, plain, product
from anydml.tracing.sizes import Size

INFINITE = math.inf

MOST_TERMS = 12
"""Most terms of a polynomial: adding up thousands of sizes would take quadratic time."""


class Derived(NamedTuple):
    """A computed variable: the floored quotient of two polynomials, their maximum, or a polynomial itself."""

    kind: str
    whole: Size | int
    by: Size | int | None = None


class Fact:
    """What is known of a polynomial without constant term: an interval, and excluded values."""

    __slots__ = ("high", "low", "not_equal", "terms")

    def __init__(self, terms: Terms, low: Any, high: Any) -> None:
        self.terms, self.low, self.high = terms, low, high
        self.not_equal: set[int] = set()


class Scope:
    """The open sizes of one trace.

    Attributes:
        values: the variables' values in the traced call.
        given: numbers of the variables that are arguments, in order.
        derived: numbers and definitions of the computed variables, in order.
        facts: guards that the decisions so far rely on.
        divisors: guards of divisibility: polynomials and their divisors.
        equal: substitutions of variables by polynomials in variables without a substitution.
        pins: descriptions of the pinned sizes and of the lines that needed them.
    """

    def __init__(self) -> None:
        self.values: list[int] = []
        self.given: list[int] = []
        self.derived: list[tuple[int, Derived]] = []
        self.facts: dict[Key, Fact] = {}
        self.divisors: dict[tuple[Key, int], Size] = {}
        self.equal: dict[int, Terms] = {}
        self.pins: dict[str, None] = {}
        self._least: list[Any] = []
        self._users: dict[int, set[int]] = {}
        self._sums: dict[Key, Size] = {}
        self._quotients: dict[tuple[Any, Any], Size] = {}
        self._extremes: dict[frozenset[Key], Size] = {}

    def variable(self, value: int, least: Any = -INFINITE) -> Any:
        """Add a variable for the next number of a call, which is at least `least`."""
        self.given.append(len(self.values))
        return self._variable(value, least)

    def _variable(self, value: int, least: Any) -> Size:
        self.values.append(value)
        self._least.append(least)
        return Size(self, {(len(self.values) - 1,): 1}, value)

    def size(self, terms: Terms, value: int) -> Any:
        """Return a polynomial as an open size, or as an integer if it is constant."""
        terms = self._folded(terms)
        if is_constant(terms):
            return value
        if len(terms) > MOST_TERMS:
            return self._named(terms, value)
        return Size(self, terms, value)

    def _named(self, terms: Terms, value: int) -> Size:
        """Replace a long polynomial by a new variable."""
        key = key_of(terms)
        found = self._sums.get(key)
        if found is None:
            least, _ = self._bounds(terms)
            found = self._sums[key] = self._variable(value, least)
            self.derived.append((len(self.values) - 1, Derived("is", Size(self, terms, value))))
        return found

    def quotient(self, whole: Any, by: Any) -> Any:
        """Divide with rounding down. The division is exact if the terms divide, or if the values do, with a guard."""
        if type(by) is not int:
            exact = divided(whole.terms, by.terms) if type(whole) is Size else None
            if exact is None or by == 0:
                return self._floor(whole, by)
            return self.size(exact, whole.value // by.value)
        if not by:
            raise ZeroDivisionError("integer division or modulo by zero")
        even = {m: c // by for m, c in whole.terms.items() if c % by == 0}
        odd = {m: c for m, c in whole.terms.items() if c % by}
        if not odd or (len(odd) == 1 and type(odd.get(())) is int):
            # The rest of the constant is less than 1.
            if odd and odd[()] // by:
                even[()] = odd[()] // by
            return self.size(even, whole.value // by)
        if whole.value % by == 0:
            self.divisors.setdefault((key_of(whole.terms), by), whole)
            return self.size({m: plain(Fraction(c) / by) for m, c in whole.terms.items()}, whole.value // by)
        return self._floor(whole, by)

    def _floor(self, whole: Any, by: Any) -> Size:
        key: Any = tuple(key_of(each.terms) if type(each) is Size else each for each in (whole, by))
        found = self._quotients.get(key)
        if found is None:
            if by == 0:
                raise ZeroDivisionError("integer division or modulo by zero")
            found = self._variable(_value(whole) // _value(by), -INFINITE)
            self.derived.append((len(self.values) - 1, Derived("floor", whole, by)))
            self._quotients[key] = found
            if type(by) is int and type(whole) is Size and by > 0:
                # A remainder lies between 0 and the divisor.
                terms, scale, constant = normal((whole - found * by).terms)
                low, high = sorted((Fraction(-constant) / scale, Fraction(by - 1 - constant) / scale))
                self.facts.setdefault(key_of(terms), Fact(terms, math.ceil(low), math.floor(high)))
                least = self._bounds(*normal(whole.terms))[0]
                self._least[-1] = least if least == -INFINITE else math.floor(least / by)
        return found

    def extreme(self, sizes: Sequence[Size], is_least: bool = False) -> Any:
        """Return the maximum, or minimum, of open sizes, without a guard on which one it is."""
        if is_least:
            return -self.extreme([-size for size in sizes])
        each_once = {key_of(size.terms): size for size in sizes}
        key = frozenset(each_once)
        if key not in self._extremes:
            self._extremes[key] = self._extreme([*each_once.values()])
        return self._extremes[key]

    def _extreme(self, sizes: Sequence[Size]) -> Size:
        found, *others = sizes
        for size in others:
            bounds = [self._bounds(*normal(each.terms)) for each in (found, size)]
            self.derived.append((len(self.values), Derived("larger", found, size)))
            found = self._variable(max(found.value, size.value), max(low for low, _ in bounds))
            self.facts[key_of(found.terms)] = Fact(found.terms, -INFINITE, max(high for _, high in bounds))
        for size in sizes:
            over = found - size
            if type(over) is Size:
                terms, scale, constant = normal(over.terms)
                least = Fraction(-constant) / scale
                low, high = (math.ceil(least), INFINITE) if scale > 0 else (-INFINITE, math.floor(least))
                self.facts.setdefault(key_of(terms), Fact(terms, low, high))
        return found

    def is_zero(self, size: Size) -> bool:
        """Whether a polynomial is 0; adds a guard if this does not hold for all calls."""
        folded = self._folded(size.terms)
        if is_constant(folded):
            return not folded.get((), 0)
        terms, scale, constant = normal(folded)
        at = Fraction(-constant) / scale
        if at.denominator != 1:
            return False
        key, place = key_of(terms), int(at)
        low, high = self._known(key, terms)
        fact = self.facts.get(key)
        if not low <= place <= high or (fact is not None and place in fact.not_equal):
            return False
        if low == high:
            return True
        fact = self.facts.setdefault(key, Fact(terms, -INFINITE, INFINITE))
        if size.value == 0:
            fact.low = fact.high = place
            self._equate(terms, place)
            return True
        if place == low:
            fact.low = place + 1
        elif place == high:
            fact.high = place - 1
        else:
            fact.not_equal.add(place)
        return False

    def is_negative(self, size: Size) -> bool:
        """Whether a polynomial is negative; adds a guard if this does not hold for all calls."""
        folded = self._folded(size.terms)
        if is_constant(folded):
            return bool(folded.get((), 0) < 0)
        terms, scale, constant = normal(folded)
        at, value = (Fraction(number - constant) / scale for number in (0, size.value))
        if scale > 0:
            return self._is_at_most(terms, math.ceil(at) - 1, value)
        return not self._is_at_most(terms, math.floor(at), value)

    def _is_at_most(self, terms: Terms, bound: int, value: Fraction) -> bool:
        """Whether a polynomial without constant term, which has this value in the traced call, is at most a number."""
        key = key_of(terms)
        low, high = self._known(key, terms)
        if high <= bound or low > bound:
            return bool(high <= bound)
        fact = self.facts.setdefault(key, Fact(terms, -INFINITE, INFINITE))
        if value <= bound:
            fact.high = min(fact.high, bound)
        else:
            fact.low = max(fact.low, bound + 1)
        return value <= bound

    def pinned(self, size: Size, why: str = "") -> int:
        """Pin a size to its value in this call, by a guard. `why` is the reason, by default a line of the caller."""
        folded = self._folded(size.terms)
        if not is_constant(folded):
            terms, _, _ = normal(folded)
            low, high = self._known(key_of(terms), terms)
            if low != high:
                self.pins.setdefault(
                    f"traced anew for other sizes, since {why or f'{_caller()} needs the number {size.value}'}"
                )
            self.is_zero(size - size.value)
        return size.value

    def _folded(self, terms: Terms) -> Terms:
        """Apply all substitutions to a polynomial."""
        if not any(number in self.equal for numbers in terms for number in numbers):
            return terms
        found: Terms = {}
        for numbers, factor in terms.items():
            total: Terms = {(): factor}
            for number in numbers:
                total = product(total, self.equal.get(number, {(number,): 1}))
            for own, by in total.items():
                add_term(found, own, by)
        return found

    def _equate(self, terms: Terms, place: int) -> None:
        """Substitute a variable of a polynomial whose value has become known."""
        for numbers, factor in sorted(terms.items(), reverse=True):
            if len(numbers) == 1 and abs(factor) == 1 and sum(numbers[0] in each for each in terms) == 1:
                rest = {each: -by * factor for each, by in terms.items() if each != numbers}
                add_term(rest, (), place * factor)
                self._stand_for(numbers[0], rest)
                return

    def _stand_for(self, number: int, rest: Terms) -> None:
        self.equal[number] = rest
        for other in self._users.pop(number, ()):
            self._use(other, self._folded(self.equal[other]))
        self._use(number, rest)

    def _use(self, number: int, terms: Terms) -> None:
        """Record a substitution, and the variables in it, whose own substitutions will change it."""
        self.equal[number] = terms
        for numbers in terms:
            for each in numbers:
                self._users.setdefault(each, set()).add(number)

    def _known(self, key: Key, terms: Terms) -> tuple[Any, Any]:
        """Return the interval of a polynomial without constant term."""
        low, high = self._bounds(terms)
        fact = self.facts.get(key)
        return (low, high) if fact is None else (max(low, fact.low), min(high, fact.high))

    def _bounds(self, terms: Terms, scale: Any = 1, constant: Any = 0) -> tuple[Any, Any]:
        """Return the interval of a polynomial by interval arithmetic on its variables."""
        low = high = constant
        for numbers, factor in terms.items():
            least, most = 1, 1
            for number in numbers:
                below, above = self._variable_bounds(number)
                if below < 0:
                    return -INFINITE, INFINITE
                least *= below
                most = 0 if 0 in (most, above) else most * above
            factor = factor * scale  # noqa: PLW2901
            if factor < 0:
                least, most = most, least
            low += factor * least if least else 0
            high += factor * most if most else 0
        return low, high

    def _variable_bounds(self, number: int) -> tuple[Any, Any]:
        fact = self.facts.get(frozenset([((number,), 1)]))
        least = self._least[number]
        return (least, INFINITE) if fact is None else (max(least, fact.low), fact.high)


def _value(size: Any) -> int:
    return size.value if type(size) is Size else size


def _caller() -> str:
    """Return the file and line of the traced function, or of a function outside this package that it called."""
    frame: Any = sys._getframe(2)
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in ("anydml", "numpy", "einops"):
        frame = frame.f_back
    return "a call" if frame is None else f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"
