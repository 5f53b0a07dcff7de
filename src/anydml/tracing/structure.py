"""Structures of arrays: nested tuples, lists and dicts."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from anydml.fields import with_items
from anydml.tracing.categories import is_of_a_library
from anydml.tracing.short_integers import pinned_number

PLAIN_TYPES = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic, np.dtype, type)
"""Types that results may contain besides arrays."""


def map_leaves(tree: Any, change: Callable[[Any, str], Any], path: str) -> Any:
    """Replace the leaves of a structure.

    Args:
        tree: a leaf, or a tuple, list or dict of structures.
        change: returns the new leaf, given the leaf and its path.
        path: the structure's name in errors.
    """
    if isinstance(tree, (list, tuple)):
        items = [map_leaves(item, change, f"{path}[{k}]") for k, item in enumerate(tree)]
        if isinstance(tree, list):
            return items
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, dict):
        by_name = {_pinned_key(key): map_leaves(item, change, f"{path}[{key!r}]") for key, item in tree.items()}
        return by_name if type(tree) is dict else with_items(tree, by_name)
    return change(tree, path)


def _pinned_key(key: Any) -> Any:
    """Return a key of a dict with integers in place of open ones, which hashing has pinned."""
    return key if type(key) is str else map_leaves(key, lambda leaf, _: pinned_number(leaf), "")


def leaves(tree: Any) -> list[Any]:
    """Return the leaves of a structure, in the order of `map_leaves`."""
    if isinstance(tree, (list, tuple, dict)):
        return [leaf for item in (tree.values() if isinstance(tree, dict) else tree) for leaf in leaves(item)]
    return [tree]


def pair_leaves(tree: Any, second_tree: Any, leaf_class: type, path: str) -> Iterator[tuple[Any, str, Any]]:
    """Yield the leaves of one class in a structure, with their paths and the corresponding leaves of another structure.

    Lists and tuples are interchangeable. Leaves of other types are not compared.

    Raises:
        ValueError: the structures differ.
    """
    if isinstance(tree, leaf_class):
        if isinstance(second_tree, (list, tuple, dict)):
            raise ValueError(path)
        yield tree, path, second_tree
    elif not any(isinstance(argument, leaf_class) for argument in leaves(tree)):
        return
    elif isinstance(tree, dict):
        if not isinstance(second_tree, dict) or set(tree) != set(second_tree):
            raise ValueError(path)
        for key, item in tree.items():
            yield from pair_leaves(item, second_tree[key], leaf_class, f"{path}[{key!r}]")
    else:
        if not isinstance(second_tree, (list, tuple)) or len(tree) != len(second_tree):
            raise ValueError(path)
        for k, (item, partner) in enumerate(zip(tree, second_tree, strict=True)):
            yield from pair_leaves(item, partner, leaf_class, f"{path}[{k}]")


MAX_DEPTH = 8
"""Maximum depth to which nested objects are compared by their attributes."""


class _Identity:
    """An object that equals only itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: Any) -> bool:
        return type(other) is _Identity and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def static_key(argument: Any, depth: int = 0) -> Hashable:
    """Return the key of an argument that is not an array: equal numbers of different types differ.

    Objects whose class defines `__eq__` must also have equal attributes, since that method may ignore some.

    Raises:
        TypeError: the argument is not hashable.
    """
    if type(argument) in (float, complex) or isinstance(argument, np.generic):
        # repr distinguishes 0.0 from −0.0, and NaN equals itself.
        return type(argument), repr(argument)
    if type(argument) is slice:
        return slice, static_key(argument.start), static_key(argument.stop), static_key(argument.step)
    if type(argument) in (tuple, frozenset):
        return type(argument), type(argument)([static_key(entry, depth) for entry in argument])
    class_ = type(argument)
    hash(argument)
    if class_ in _VALUE_TYPES or class_.__eq__ is _BY_IDENTITY:
        return class_, argument
    return (
        class_,
        argument,
        repr(argument) if is_of_a_library(class_) else state_key(object.__getstate__(argument), depth + 1),
    )


_BY_IDENTITY: Any = object.__eq__
_VALUE_TYPES = (bool, int, str, bytes, type(None), type)


def state_key(state: Any, depth: int) -> Hashable:
    """Return the key of an object's state, which mostly is a dict of attributes."""
    if isinstance(state, dict) and depth <= MAX_DEPTH:
        return tuple([(name, state_key(entry, depth)) for name, entry in state.items()])
    if type(state) in (list, tuple) and depth <= MAX_DEPTH:
        return type(state), tuple([state_key(entry, depth + 1) for entry in state])
    try:
        return static_key(state, depth) if depth <= MAX_DEPTH else _Identity(state)
    except TypeError:
        return _Identity(state)


def _positional_names(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return []
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in places]


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """Return the names in errors of a function's first `count` positional arguments."""
    if type(function) is FunctionType and not function.__dict__:
        names: Sequence[str] = function.__code__.co_varnames[: function.__code__.co_argcount]
    else:
        names = _positional_names(function)
    return [names[k] if k < len(names) else f"arguments[{k}]" for k in range(count)]
