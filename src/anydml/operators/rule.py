"""Decorators and type annotations for operators' rules and for the checks that are compiled with them.

A rule is a function ``rule(maker, *inputs, *numbers)`` that makes an operator's results from views of its inputs by the
verbs of `anydml.moves.verbs`. Inputs are a `View` each, or one list of them; numbers are `int64`, `Integers`, or words.
The text is written so that it can also be compiled: numbers are compared only if they are known, and lists are read by
index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from anydml.errors import DescError
from anydml.moves import verbs
from anydml.moves.sizing import Integers
from anydml.operators import element
from anydml.symbols import holds

__all__ = [
    "FLAT",
    "DescError",
    "Integers",
    "Item",
    "Maker",
    "Text",
    "View",
    "Views",
    "call_check",
    "fill_around",
    "holds",
    "int64",
    "rule",
    "sized",
]

Maker: TypeAlias = verbs.Maker
View: TypeAlias = Any
Views: TypeAlias = Sequence[Any]
int64: TypeAlias = int
Item: TypeAlias = element.Element
Text: TypeAlias = str

FLAT = -1
"""The axis of rules that flatten."""

R = TypeVar("R", bound=Callable[..., Any])


def rule(text: R) -> R:
    """Mark a function as an operator's rule."""
    return text


def call_check(text: R) -> R:
    """Mark the check of a function on arrays that is compiled with its rule (see rule_sources).

    Its parameters are `name`, for errors, the arrays' shapes, and the other arguments; it returns the rule's numbers.
    Integers are compared by `holds`, since they may be open. Errors get their texts in Python.
    """
    return text


def sized(sizes: Sequence[int]) -> View:
    """Return a view that has only sizes, for rules that read no elements."""
    return verbs.View(tuple(sizes))


MAX_COLUMNS = 8
"""Maximum step along the last axis for which the gaps are filled column by column."""


@rule
def fill_around(maker: Maker, to: View, first: Integers, count: Integers, step: Integers, value: Item | None) -> None:
    """Fill the elements of a place outside a window, each once: per axis, its gaps, and the space on both sides."""
    for d in range(to.rank):
        start: int64 = first.at[d]
        size: int64 = count.at[d]
        by: int64 = step.at[d]
        if by != 1 and size <= 1:
            by = 1
        elif by < 0:
            start += (size - 1) * by
            by = -by
        end: int64 = start + (size - 1) * by + 1
        if by != 1 and by <= MAX_COLUMNS and d == to.rank - 1 and start + size * by <= to.sizes[d]:
            for k in range(1, by):
                maker.fill(maker.cut(to, d, start + k, size, by), value)
            end = start + size * by
        elif by != 1:
            gaps: View = maker.cut(to, d, start + 1, end - start - 1, 1)
            maker.fill(maker.slide(gaps, d, size - 1, by, by - 1, 1), value)
        maker.fill(maker.cut(to, d, 0, start, 1), value)
        maker.fill(maker.cut(to, d, end, to.sizes[d] - end, 1), value)
        to = maker.cut(to, d, start, size, by)
