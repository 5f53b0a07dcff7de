"""What operators' rules are written in: annotations, and the mark by which they are found.

A rule is a function ``rule(make, *inputs, *numbers)`` that makes an operator's results from views of its inputs by the
verbs of `anydml.moves.verbs`. Inputs are a `View` each, or one list of them; numbers are `int64`, `Numbers`, or words.
The text is written so that it can also be compiled: numbers are compared only if they are known, and lists are read by
index.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from anydml.moves import verbs
from anydml.moves.verbs import Numbers

__all__ = ["Maker", "Numbers", "View", "Views", "int64", "rule"]

Maker: TypeAlias = verbs.Maker
View: TypeAlias = Any
Views: TypeAlias = Sequence[Any]
int64: TypeAlias = int

R = TypeVar("R", bound=Callable[..., None])


def rule(text: R) -> R:
    """Mark a function as an operator's rule."""
    return text
