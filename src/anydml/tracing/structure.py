"""Structures of arrays: tuples, lists and dicts, taken apart and put together."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.generic, np.dtype, type)
"""What results may hold beside arrays."""


def rebuilt(tree: Any, change: Callable[[Any, str], Any], path: str) -> Any:
    """A structure with other leaves.

    Args:
        tree: a leaf, or a tuple, list or dict of structures.
        change: gives the new leaf for one and its path.
        path: what errors call the structure.
    """
    if isinstance(tree, (list, tuple)):
        items = [rebuilt(item, change, f"{path}[{k}]") for k, item in enumerate(tree)]
        if isinstance(tree, list):
            return items
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, dict):
        return {key: rebuilt(item, change, f"{path}[{key!r}]") for key, item in tree.items()}
    return change(tree, path)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a structure, in the order in which `rebuilt` sees them."""
    found: list[Any] = []
    rebuilt(tree, lambda leaf, _: found.append(leaf), "")
    return found


def paired(tree: Any, other: Any, kind: type, path: str) -> Iterator[tuple[Any, str, Any]]:
    """The leaves of one kind in a structure, and what stands at their places in another: paths and leaves.

    Lists and tuples are alike. Where the first has no such leaf, the second may have anything.

    Raises:
        ValueError: the structures differ.
    """
    if isinstance(tree, kind):
        if isinstance(other, (list, tuple, dict)):
            raise ValueError(path)
        yield tree, path, other
    elif not any(isinstance(leaf, kind) for leaf in leaves(tree)):
        return
    elif isinstance(tree, dict):
        if not isinstance(other, dict) or set(tree) != set(other):
            raise ValueError(path)
        for key, item in tree.items():
            yield from paired(item, other[key], kind, f"{path}[{key!r}]")
    else:
        if not isinstance(other, (list, tuple)) or len(tree) != len(other):
            raise ValueError(path)
        for k, (item, each) in enumerate(zip(tree, other, strict=True)):
            yield from paired(item, each, kind, f"{path}[{k}]")


def static_key(leaf: Any) -> Hashable:
    """What tells an argument that is no array from others; equal numbers of two types are two.

    Raises:
        TypeError: it is not hashable.
    """
    if type(leaf) in (float, complex) or isinstance(leaf, np.generic):
        # Also tells 0 from −0, and knows nan again.
        return type(leaf), repr(leaf)
    if type(leaf) is slice:
        return slice, static_key(leaf.start), static_key(leaf.stop), static_key(leaf.step)
    if type(leaf) in (tuple, frozenset):
        return type(leaf), type(leaf)(map(static_key, leaf))
    hash(leaf)
    return type(leaf), leaf


def argument_names(function: Callable[..., Any], count: int) -> list[str]:
    """What errors call so many arguments that are given to a function by place."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [each.name for each in parameters if each.kind in places]
    return [names[k] if k < len(names) else f"arguments[{k}]" for k in range(count)]
