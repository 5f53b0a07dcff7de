"""Generators of random numbers behind objects that are too many to compare in each call."""

from __future__ import annotations

import gc
import types
from collections.abc import Collection
from typing import Any

from anydml.tracing.categories import category_of, is_of_a_library
from anydml.tracing.names_in_code import names_of

MAX_SEARCHED = 200_000
"""Maximum number of objects that are searched for generators."""


def generators_behind(values: Collection[Any]) -> list[Any]:
    """Return the generators among objects, their items and attributes, and in functions among them."""
    found: list[Any] = []
    visited: dict[int, Any] = {}
    waiting: list[Collection[Any]] = [values]
    while waiting and len(visited) < MAX_SEARCHED:
        objects = waiting.pop()
        # Most large containers hold numbers or texts.
        if all(category_of(class_) in _WITHOUT_GENERATORS for class_ in {*map(type, objects)}):
            continue
        for value in objects:
            category = category_of(type(value))
            if category in _WITHOUT_GENERATORS or id(value) in visited:
                continue
            visited[id(value)] = value
            if category == "generator":
                found.append(value)
            else:
                waiting.append(_referents_of(value, category))
    return found


_WITHOUT_GENERATORS = frozenset(("buffer", "module", "plain", "tensor"))


def _referents_of(value: Any, category: str) -> Collection[Any]:
    if category == "array":
        return value.ravel().tolist() if value.dtype.hasobject else ()
    if isinstance(value, types.FunctionType):
        if is_of_a_library(value):
            return ()
        variables = [value.__globals__.get(name) for name in names_of(value.__code__)]
        defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        return [*variables, *defaults, *gc.get_referents(*(value.__closure__ or ()))]
    if isinstance(value, type):
        return () if is_of_a_library(value) else [*vars(value).values()]
    return gc.get_referents(value)
