"""Arrays in calls without a trace: NumPy's joins of them are done by this package, which packs results at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.arrays.receive import ElementsAlone
from anydml.errors import AnydmlError
from anydml.functions import join, stack
from anydml.tracing.structure import map_leaves

MIN_JOINABLE_BYTES = 4096
"""Bytes of an array from which such views pay off: NumPy's functions are slower for subclasses."""


class Joinable(ElementsAlone):
    """A view of an array for which this package runs NumPy's `stack` and `concatenate`, if the result is the same.

    NumPy's results keep the memory layout of most of the arrays, and would have to be packed afterwards.
    """

    __slots__ = ()

    def __array_function__(self, function: Any, types: Any, arguments: Any, keywords: Any) -> Any:
        join_function = _JOIN_FUNCTIONS.get(function)
        joined = (
            None
            if join_function is None or keywords.keys() - {"axis"}
            else _join(join_function, *arguments, **keywords)
        )
        if joined is not None:
            return joined.view(Joinable)
        return super().__array_function__(function, types, arguments, keywords)


_JOIN_FUNCTIONS: dict[Any, Callable[..., Any]] = {np.stack: stack, np.concatenate: join}


def _join(function: Callable[..., Any], arrays: Any = None, axis: Any = 0, *other_arguments: Any) -> Any:
    """Join arrays of one dtype; return None if NumPy must join them, or raise the error."""
    if other_arguments or type(axis) is not int or type(arrays) not in (list, tuple) or not arrays:
        return None
    parts = [array.view(np.ndarray) if type(array) is Joinable else array for array in arrays]
    dtype = getattr(parts[0], "dtype", None)
    if dtype is None or dtype.kind not in "biufc" or not dtype.isnative:
        return None
    if any(type(part) is not np.ndarray or part.dtype != dtype for part in parts):
        return None
    try:
        return function(parts, axis)
    except AnydmlError:
        return None


def joinable_views(tree: Any, is_joined: bool, is_writeable: bool) -> Any:
    """Replace NumPy's arrays in a structure by views that this package joins, or that are read-only, or both.

    Lists and dicts are copied, so that the function may change them, as in a trace.
    """
    class_ = type(tree)
    if class_ is np.ndarray:
        return _view(tree, is_joined, is_writeable)
    if class_ is list or class_ is tuple:
        min_bytes = MIN_JOINABLE_BYTES if is_writeable else 0
        items = [
            item
            if type(item) in _NUMBER_TYPES or (type(item) is np.ndarray and item.nbytes < min_bytes)
            else joinable_views(item, is_joined, is_writeable)
            for item in tree
        ]
        return items if class_ is list else tuple(items)
    if isinstance(tree, (tuple, list, dict)):
        return map_leaves(tree, lambda leaf, _: _view(leaf, is_joined, is_writeable), "")
    return tree


_NUMBER_TYPES = frozenset((int, bool, float, type(None)))


def _view(leaf: Any, is_joined: bool, is_writeable: bool) -> Any:
    if type(leaf) is not np.ndarray:
        return leaf
    view = leaf.view(Joinable) if is_joined and leaf.nbytes >= MIN_JOINABLE_BYTES else leaf
    if not is_writeable:
        view = view.view()
        view.flags.writeable = False
    return view


def as_plain_array(array: Any) -> Any:
    """Return the array of which a result is the only view, or a view of NumPy's own class."""
    base = array.base
    if type(base) is np.ndarray and base.flags.owndata and base.shape == array.shape and base.strides == array.strides:
        return base
    return array.view(np.ndarray)
