"""Selection of cases of all forms: draws that reach missing features, and operators with rules to break."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from anydml.errors import ModelError

T = TypeVar("T")

FILLED = 0.2
"""Share of an operator's cases that are drawn for features that the others have not reached."""

TRIES = 40
"""Maximum number of draws for a missing feature."""


def draw_missing(
    draw: Callable[[], T], features: Callable[[T], Iterable[str]], missing: set[str], case_number: int, count: int
) -> T:
    """Draw a case. The last cases of an operator, a share of `FILLED`, get a missing feature if `TRIES` draws find one.

    Args:
        draw: draws a case.
        features: returns the features of a case.
        missing: the features that no case has reached yet; those of this case are removed.
        case_number: the number of this case, from 0.
        count: the number of the operator's cases.
    """
    tries = TRIES if case_number >= count * (1 - FILLED) and missing else 1
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
