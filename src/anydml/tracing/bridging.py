"""Calls of a fused function on NumPy views of other libraries' arrays (see `arrays.native_arrays`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.arrays.native_arrays import BRIDGES
from anydml.arrays.receive import adapter_of
from anydml.tracing.structure import leaves, map_leaves

NO_VIEWS: Any = object()
"""Returned if the arguments have no such views."""


def call_on_views(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a fused function on NumPy views of its arguments; return `NO_VIEWS` if an argument has no view."""
    like: Any = arguments[0] if arguments else None
    if type(like) in BRIDGES and not keywords:
        bridge = BRIDGES[type(like)]
        views = bridge.views(arguments)
        if views is not None:
            return _in_library(function(*views), like)
    all_leaves = leaves((arguments, keywords))
    like = next((leaf for leaf in all_leaves if type(leaf) in BRIDGES), None)
    if like is None:
        return NO_VIEWS
    views = BRIDGES[type(like)].views([leaf for leaf in all_leaves if isinstance(leaf, np.ndarray) or adapter_of(leaf)])
    if views is None:
        return NO_VIEWS
    remaining = iter(views)
    positional, named = map_leaves(
        (arguments, keywords), lambda leaf, _: next(remaining) if type(leaf) is type(like) else leaf, ""
    )
    return _in_library(function(*positional, **named), like)


def _in_library(results: Any, like: Any) -> Any:
    give = BRIDGES[type(like)].give
    if type(results) is np.ndarray:
        return give([results], like)[0]
    arrays = [leaf for leaf in leaves(results) if type(leaf) is np.ndarray]
    library_arrays = iter(give(arrays, like))
    return map_leaves(results, lambda leaf, _: next(library_arrays) if type(leaf) is np.ndarray else leaf, "")
