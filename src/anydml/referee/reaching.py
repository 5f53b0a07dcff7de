"""Functions for all forms of cases: operators with rules to break, and draws that reach missing features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from anydml.errors import ModelError

T = TypeVar("T")

FILLED = 0.2
"""Share of an operator's cases that are kept for what the others have not reached."""

TRIES = 40


def draw_missing(
    draw: Callable[[], T], features: Callable[[T], Iterable[str]], missing: set[str], number: int, count: int
) -> T:
    """Draw one of some cases; of the last fifth of them, one that has a feature that is missing, if some tries find it.

    Args:
        draw: draws a case.
        features: returns the features of a case.
        missing: the features that were not reached; those of this case are removed.
        number: its number.
        count: the number of the operator's cases.
    """
    tries = TRIES if number >= count * (1 - FILLED) and missing else 1
    for _ in range(tries):
        drawn = draw()
        reached = {*features(drawn)}
        if missing & reached:
            break
    missing -= reached
    return drawn


def with_rules(names: Sequence[str], rules: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return the operators that have a rule to break.

    Raises:
        ModelError: the operator has no cases.
    """
    names_left = [name for name in names if rules[name]]
    if not names_left:
        raise ModelError(f"no rule of {', '.join(names)} can be broken", rule="name another operator, or none for all")
    return names_left
