"""HTML of explainable objects, for notebooks. `anydml.explain` registers itself here; no lower module imports it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_EXPLAIN: list[Callable[..., Any]] = []
"""The function registered by `shown_by`, if any."""


def shown_by(explain: Callable[..., Any]) -> None:
    """Register the function that explains an object; its results must have ``_repr_html_``."""
    _EXPLAIN[:] = [explain]


def page(thing: Any, **options: Any) -> str | None:
    """Return an object's explanation as HTML, or None if no function is registered."""
    for explain in _EXPLAIN:
        text: str = explain(thing, **options)._repr_html_()
        return text
    return None
