"""Calls of a fused function on NumPy views of other libraries' arrays (see `arrays.quick`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.arrays.quick import BRIDGES
from anydml.arrays.receive import adapter_of
from anydml.tracing.structure import leaves, rebuilt

MISSED: Any = object()
"""Returned if the arguments have no such views."""


def bridged(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Call a fused function on NumPy views of its arguments; return `MISSED` if there are none."""
    like: Any = arguments[0] if arguments else None
    if type(like) in BRIDGES and not keywords:
        bridge = BRIDGES[type(like)]
        views = bridge.views(arguments)
        if views is not None:
            return _given(function(*views), like)
    all_leaves = leaves((arguments, keywords))
    like = next((leaf for leaf in all_leaves if type(leaf) in BRIDGES), None)
    if like is None:
        return MISSED
    views = BRIDGES[type(like)].views([leaf for leaf in all_leaves if isinstance(leaf, np.ndarray) or adapter_of(leaf)])
    if views is None:
        return MISSED
    remaining = iter(views)
    positional, named = rebuilt(
        (arguments, keywords), lambda leaf, _: next(remaining) if type(leaf) is type(like) else leaf, ""
    )
    return _given(function(*positional, **named), like)


def _given(results: Any, like: Any) -> Any:
    give = BRIDGES[type(like)].give
    if type(results) is np.ndarray:
        return give([results], like)[0]
    arrays = [leaf for leaf in leaves(results) if type(leaf) is np.ndarray]
    passed = iter(give(arrays, like))
    return rebuilt(results, lambda leaf, _: next(passed) if type(leaf) is np.ndarray else leaf, "")
