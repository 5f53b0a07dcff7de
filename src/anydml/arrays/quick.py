"""Other libraries' arrays that compiled code reads itself, and what Python has to ask of them first.

And those that NumPy sees in less time than anything else takes: calls on them are calls on NumPy's arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np


def is_native(array: Any) -> bool:
    """Whether compiled code may look at an array: calls on it are run now, rather than recorded."""
    kind = type(array)
    return kind is np.ndarray or (kind in TRACED and not TRACED[kind]())


def are_native(arrays: Any) -> bool:
    """The same of a list of arrays, by the first."""
    if type(arrays) not in (list, tuple) or not arrays:
        return False
    return type(arrays[0]) is np.ndarray or is_native(arrays[0])


def is_recorded() -> bool:
    """Whether calls on any library's arrays are recorded now."""
    for ask in RECORDS:  # noqa: SIM110  a generator takes twice as long
        if ask():
            return True
    return False


RECORDS: list[Callable[[], bool]] = []
"""What `TRACED` asks, once for each library."""


TRACED: dict[type, Callable[[], bool]] = {}
"""By types of other libraries' arrays: whether calls are recorded now rather than run."""


class Bridge(NamedTuple):
    """Arrays of one type that NumPy's functions are called for.

    Attributes:
        views: NumPy's arrays over the memory of some; None unless all are of that type, lie at one place in host
            memory, and are so small that a copy of their results is nothing.
        give: NumPy arrays that nobody else has as arrays at the place of another one.
    """

    views: Callable[[Sequence[Any]], list[np.ndarray[Any, Any]] | None]
    give: Callable[[Sequence[np.ndarray[Any, Any]], Any], list[Any]]


BRIDGES: dict[type, Bridge] = {}
"""Filled by the modules of the libraries, once there is an array of theirs."""
