"""Generators of random numbers behind objects that are too many to compare in each call."""

from __future__ import annotations

import gc
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.tracing.categories import category_of, is_of_a_library
from anydml.tracing.names_in_code import names_of

MAX_SEARCHED = 200_000
"""Maximum number of items of a container, and of objects behind such items, that are searched for generators."""


def generators_behind(values: Sequence[Any]) -> list[Any]:
    """Return the generators among objects, their items and attributes, and in functions among them."""
    found: list[Any] = []
    visited: dict[int, Any] = {}
    level, left = searchable(values), MAX_SEARCHED
    while level:
        new = {id(value): value for value in level if id(value) not in visited}
        visited.update(new)
        referents: list[Any] = []
        for value in new.values():
            category = category_of(type(value))
            if category == "generator":
                found.append(value)
            if left > 0:
                behind = _referents_of(value) if category in _SPECIAL else gc.get_referents(value)
                referents += behind[:left]
                left -= len(behind)
        level = searchable(referents)
    return found


def searchable(values: Sequence[Any]) -> list[Any]:
    """Return the objects that may be or have generators; most large containers hold numbers or texts."""
    categories = {class_: category_of(class_) for class_ in {*map(type, values)}}
    if _WITHOUT_GENERATORS.issuperset(categories.values()):
        return []
    return [value for value in values if categories[type(value)] not in _WITHOUT_GENERATORS]


_WITHOUT_GENERATORS = frozenset(("buffer", "module", "plain", "tensor"))
_SPECIAL = frozenset(("array", "class", "function", "generator"))
"""Categories of objects of which not all referents are searched."""


def _referents_of(value: Any) -> Sequence[Any]:
    if isinstance(value, np.ndarray):
        return value.ravel().tolist() if value.dtype.hasobject else ()
    if isinstance(value, types.FunctionType) and not is_of_a_library(value):
        variables = [value.__globals__.get(name) for name in names_of(value.__code__)]
        defaults = [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        return [*variables, *defaults, *gc.get_referents(*(value.__closure__ or ()))]
    if isinstance(value, types.BuiltinFunctionType):
        return [value.__self__]
    return [*vars(value).values()] if isinstance(value, type) and not is_of_a_library(value) else ()
