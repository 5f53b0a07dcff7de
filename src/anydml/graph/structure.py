"""Structures of arrays: tuples, lists and dicts, taken apart and put together."""

from __future__ import annotations

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


def leaves(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The leaves of a structure and their paths, in the order in which `rebuilt` sees them."""
    if isinstance(tree, (list, tuple)):
        for k, item in enumerate(tree):
            yield from leaves(item, f"{path}[{k}]")
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield from leaves(item, f"{path}[{key!r}]")
    else:
        yield path, tree


def is_alike(tree: Any, other: Any) -> bool:
    """Whether two structures have their leaves at the same places; lists and tuples are alike."""
    if isinstance(tree, (list, tuple)):
        return isinstance(other, (list, tuple)) and len(tree) == len(other) and all(map(is_alike, tree, other))
    if isinstance(tree, dict):
        return (
            isinstance(other, dict)
            and list(tree) == list(other)
            and all(is_alike(item, other[key]) for key, item in tree.items())
        )
    return not isinstance(other, (list, tuple, dict))


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
    hash(leaf)
    return type(leaf), leaf
