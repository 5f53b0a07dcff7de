"""What notebooks show of things that `anydml.explain` explains: it says how, and nothing below it has to import it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_EXPLAIN: list[Callable[..., Any]] = []
"""What `shown_by` was given."""


def shown_by(explain: Callable[..., Any]) -> None:
    """Have things shown by a function of them, whose results have ``_repr_html_``."""
    _EXPLAIN[:] = [explain]


def page(thing: Any, **options: Any) -> str | None:
    """The page of a thing, as HTML; None where nobody has said how it is shown."""
    for explain in _EXPLAIN:
        text: str = explain(thing, **options)._repr_html_()
        return text
    return None
