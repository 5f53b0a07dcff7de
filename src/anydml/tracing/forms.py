"""Structures of a call's arguments and results, taken apart and put together quickly."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.arrays.quick import QUICK, kind_of
from anydml.tracing.form_source import Arrays, builder, taker

STATIC = frozenset((bool, int, str, type(None)))
"""Types of arguments whose equal values of one type are one."""


class Taken(NamedTuple):
    """A call's arguments, taken apart.

    Attributes:
        form: all but the arrays, which tells it from calls that need another program.
        arrays: of one library, in the order in which a call's `Call` has them.
    """

    form: Hashable
    arrays: Arrays


def taken_apart(arguments: Sequence[Any], keywords: dict[str, Any]) -> Taken | None:
    """A call's arguments as arrays of one library, NumPy's or one of `QUICK`, and all else; None of other arguments."""
    arrays: Arrays = []
    form: list[Any] = []
    if not _take(arguments, arrays, form):
        return None
    if keywords:
        form.append(tuple(keywords))
        if not _take([*keywords.values()], arrays, form):
            return None
    if not arrays:
        return None
    kind = kind_of(arrays[0])
    if kind is not np.ndarray and QUICK[type(arrays[0])].is_traced():
        return None
    for each in arrays:
        if kind_of(each) is not kind:
            return None
    return Taken(tuple(form), arrays)


def _take(items: Sequence[Any], arrays: Arrays, form: list[Any]) -> bool:
    """Add arrays, and what stands in their places; whether that was all there is."""
    for item in items:
        kind = type(item)
        if kind is np.ndarray or kind in QUICK:
            arrays.append(item)
            form.append(np.ndarray)
        elif kind in STATIC:
            form.append(kind)
            form.append(item)
        elif kind is float:
            # Also tells 0 from −0, and knows nan again.
            form.append(repr(item))
        elif kind is list or kind is tuple:
            form.append(kind)
            form.append(len(item))
            if not _take(item, arrays, form):
                return False
        elif kind is dict:
            form.append(kind)
            form.append(tuple(item))
            if not _take([*item.values()], arrays, form):
                return False
        else:
            return False
    return True


class Form:
    """The structure of results: an array, or a tuple, list or dict of structures; other leaves are constants.

    Args:
        tree: the structure, which is not too deep.
        leaf: the type that stands in it for arrays, which have numbers, 0, 1, 2 …, in order.

    Attributes:
        words: tell it from others.
        build: makes it of a list of arrays; None where that is what it is.
        arrays: gives the arrays of a structure like this, in order; None of another one.
    """

    __slots__ = ("arrays", "build", "is_one", "words")

    def __init__(self, tree: Any, leaf: type) -> None:
        self.is_one = isinstance(tree, leaf)
        self.words = _words(tree, leaf)
        self.build: Callable[[Arrays], Any] | None
        if type(tree) in (list, tuple) and all(isinstance(each, leaf) for each in tree):
            self.build = tuple if type(tree) is tuple else None
        else:
            self.build = builder(tree, leaf)
        self.arrays: Callable[[Any], Arrays | None] = taker(tree, leaf)


def _words(tree: Any, leaf: type) -> Hashable:
    if isinstance(tree, leaf):
        return leaf
    if isinstance(tree, (list, tuple)):
        return type(tree), *[_words(each, leaf) for each in tree]
    if isinstance(tree, dict):
        return dict, *[(key, _words(each, leaf)) for key, each in tree.items()]
    # A constant is itself alone: equal ones may differ in their type.
    return id(tree)
