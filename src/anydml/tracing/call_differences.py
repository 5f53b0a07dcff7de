"""Differences of calls that share no trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.arrays.receive import adapter_of
from anydml.text import count_noun
from anydml.tracing.short_integers import kind_of
from anydml.tracing.structure import argument_names

Selection = tuple[list[Any], list[tuple[str, Any]]]
"""The properties of arguments that select a call's traces: of positional arguments, and of keyword arguments."""


def selection_of(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Selection:
    """Return the properties of arguments that select a call's trace; of arrays, dtype and number of dimensions."""
    return [*map(_properties_of, arguments)], [(name, _properties_of(tree)) for name, tree in keywords.items()]


def _properties_of(tree: Any) -> Any:
    class_ = type(tree)
    if class_ is int:
        return int
    if class_ is np.ndarray:
        return _ArrayProperties((tree.dtype, tree.ndim))
    if isinstance(tree, (list, tuple)):
        return [*map(_properties_of, tree)]
    if isinstance(tree, dict):
        return {name: _properties_of(item) for name, item in tree.items()}
    if kind_of(tree) is not None:
        return class_
    if adapter_of(tree) is None and not isinstance(tree, np.ndarray):
        return repr(tree)[:80]
    # Arrays that only support DLPack have neither attribute.
    shape = getattr(tree, "shape", None)
    return type(tree).__name__ if shape is None else _ArrayProperties((getattr(tree, "dtype", None), len(shape)))


class _ArrayProperties(tuple[Any, int]):
    """The dtype and the number of dimensions of an array."""

    __slots__ = ()


def _descriptions_by_argument(function: Callable[..., Any], selected: Selection) -> dict[str, str]:
    """Return descriptions of the properties that `selection_of` returns, by the arguments' names."""
    descriptions: dict[str, str] = {}

    def add_descriptions(tree: Any, path: str) -> None:
        if type(tree) is list:
            for k, item in enumerate(tree):
                add_descriptions(item, f"{path}[{k}]")
        elif type(tree) is dict:
            for name, item in tree.items():
                add_descriptions(item, f"{path}[{name!r}]")
        elif type(tree) is _ArrayProperties:
            descriptions[path] = f"{tree[0]} of {count_noun(tree[1], 'dimension')}"
        else:
            descriptions[path] = "an integer" if tree is int else tree

    positions, named = selected
    for path, tree in (*zip(argument_names(function, len(positions)), positions, strict=True), *named):
        add_descriptions(tree, path)
    return descriptions


def difference(function: Callable[..., Any], earlier: Selection, later: Selection) -> str | None:
    """Return the first property in which a later call differs; None if all properties are equal."""
    earlier_descriptions, later_descriptions = (
        _descriptions_by_argument(function, earlier),
        _descriptions_by_argument(function, later),
    )
    for path, value in later_descriptions.items():
        if path not in earlier_descriptions:
            return f"there is {path}"
        if earlier_descriptions[path] != value:
            return f"{path} is {value}, not {earlier_descriptions[path]}"
    return next((f"there is no {path}" for path in earlier_descriptions if path not in later_descriptions), None)
