"""Tapes: lists of steps that compute a call's open sizes and check its guards.

A tape has registers: the variables first, then one per step. The compiled core runs the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from anydml.tracing.polynomials import Terms
from anydml.tracing.scope import Scope
from anydml.tracing.sizes import Size

CONSTANT, ADD, MULTIPLY, FLOOR, GIVEN, AT_LEAST, AT_MOST, DIFFERS, DIVIDES, LARGER = range(10)
"""Kinds of steps. `GIVEN` is a number that a call provides later; the next four are guards, which give no number."""

WORD = 1 << 63

Step = tuple[int, int, int]


class Tape:
    """The steps for all guards of a trace, and for the sizes that are requested.

    Args:
        scope: the scope of the finished trace.

    Attributes:
        given: number of registers that a call provides.
        steps: kind and two register numbers; the first of `CONSTANT` and the second of a guard are numbers themselves.
    """

    def __init__(self, scope: Scope) -> None:
        self.given = len(scope.given)
        self.steps: list[Step] = []
        self._places = {number: place for place, number in enumerate(scope.given)}
        self._found: dict[Any, int] = {}
        self._scope, self._next = scope, 0
        for fact in scope.facts.values():
            register = self._polynomial(fact.terms)
            # Compiled code rejects numbers of more than 64 bits anyway.
            if fact.low >= -WORD:
                self.steps.append((AT_LEAST, register, int(fact.low)))
            if fact.high < WORD:
                self.steps.append((AT_MOST, register, int(fact.high)))
            self.steps += [(DIFFERS, register, number) for number in sorted(fact.not_equal)]
        for (_, by), size in scope.divisors.items():
            self.steps.append((DIVIDES, self._polynomial(size.terms), by))

    def register(self, size: Any) -> int:
        """Return the register of a size; add its steps if necessary."""
        return self._polynomial(size.terms) if type(size) is Size else self._step(CONSTANT, size, 0)

    def later(self, sizes: Sequence[Any]) -> list[int]:
        """Add registers for variables that a call provides later, such as its results' strides."""
        for size in sizes:
            ((number,),) = size.terms
            self._places[number] = self.given + len(self.steps)
            self.steps.append((GIVEN, 0, 0))
        return [*range(self.given + len(self.steps) - len(sizes), self.given + len(self.steps))]

    def run(self, found: list[int], steps: Sequence[Step]) -> bool:
        """Run steps, appending to the registers; return False if a guard fails."""
        for kind, a, b in steps:
            number = 0
            if kind == CONSTANT:
                number = a
            elif kind == ADD:
                number = found[a] + found[b]
            elif kind == MULTIPLY:
                number = found[a] * found[b]
            elif kind == FLOOR:
                if not found[b]:
                    return False
                number = found[a] // found[b]
            elif kind == LARGER:
                number = max(found[a], found[b])
            elif (
                (kind == AT_LEAST and found[a] < b)
                or (kind == AT_MOST and found[a] > b)
                or (kind == DIFFERS and found[a] == b)
                or (kind == DIVIDES and found[a] % b)
            ):
                return False
            found.append(number)
        return True

    def _step(self, kind: int, a: int, b: int) -> int:
        """Return the register of a step; equal steps share one."""
        found = self._found.get((kind, a, b))
        if found is None:
            self.steps.append((kind, a, b))
            found = self._found[kind, a, b] = self.given + len(self.steps) - 1
        return found

    def _polynomial(self, terms: Terms) -> int:
        divisor = 1
        if not all(type(factor) is int for factor in terms.values()):
            divisor = math.lcm(*(factor.denominator for factor in terms.values()))
        total: int | None = None
        for numbers, factor in terms.items():
            found: int | None = None
            for number in numbers:
                own = self._variable(number)
                found = own if found is None else self._step(MULTIPLY, found, own)
            by = factor if divisor == 1 else int(Fraction(factor) * divisor)
            if found is None:
                found = self._step(CONSTANT, by, 0)
            elif by != 1:
                found = self._step(MULTIPLY, found, self._step(CONSTANT, by, 0))
            total = found if total is None else self._step(ADD, total, found)
        if total is None:
            return self._step(CONSTANT, 0, 0)
        return total if divisor == 1 else self._step(FLOOR, total, self._step(CONSTANT, divisor, 0))

    def _variable(self, number: int) -> int:
        while number not in self._places:
            # Computed variables depend only on earlier ones.
            own, (kind, whole, by) = self._scope.derived[self._next]
            self._next += 1
            found = self.register(whole)
            if kind != "is":
                found = self._step(FLOOR if kind == "floor" else LARGER, found, self.register(by))
            self._places[own] = found
        return self._places[number]
