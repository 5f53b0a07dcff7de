"""Other libraries' arrays that compiled code reads itself, and what Python has to ask of them first.

And those that NumPy sees in less time than anything else takes: calls on them are calls on NumPy's arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numpy import ndarray


def is_native(array: Any) -> bool:
    """Whether compiled code may look at an array that is none of NumPy's: calls on it are run now, not recorded."""
    kind = type(array)
    return kind in TRACED and not TRACED[kind]()


def are_native(arrays: Any) -> bool:
    """Whether it may look at a list of arrays, NumPy's or others, by the first."""
    kind = type(arrays)
    if (kind is not list and kind is not tuple) or not arrays:
        return False
    kind = type(arrays[0])
    return kind is ndarray or (kind in TRACED and not TRACED[kind]())


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

    views: Callable[[Sequence[Any]], list[ndarray[Any, Any]] | None]
    give: Callable[[Sequence[ndarray[Any, Any]], Any], list[Any]]


BRIDGES: dict[type, Bridge] = {}
"""Filled by the modules of the libraries, once there is an array of theirs."""
