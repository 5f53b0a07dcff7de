"""Other libraries' arrays that compiled code reads itself, and what Python has to ask of them first.

And those that NumPy sees in less time than anything else takes: calls on them are calls on NumPy's arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.memory.tensor_struct import Structure


class QuickKind(NamedTuple):
    """Arrays of one type.

    Attributes:
        kind: the type; arrays of others, derived ones too, go the long way.
        alike: a type derived from it whose arrays are as good.
        is_traced: whether calls are recorded now rather than run, or arrays may have what compiled code does not see.
        can_use: whether an array's memory reaches so many bytes past its first element, and is all there is to it.
        maker: what makes new packed arrays of a shape, and of the dtype of an array.
        written: told of arrays that were written.
        structure: how its arrays lie, beyond what DLPack says; None where nobody knows.
    """

    kind: type
    alike: type | None
    is_traced: Callable[[], bool]
    can_use: Callable[[Any, int], bool]
    maker: Callable[[tuple[int, ...], Any], Callable[[], Any]]
    written: Callable[[Iterable[Any]], None]
    structure: Callable[[], Structure | None]


def kind_of(array: Any) -> type | None:
    """NumPy's type of arrays, or one of `QUICK`, of one that is as good, too; None for all else."""
    kind = type(array)
    return kind if kind is np.ndarray else QUICK[kind].kind if kind in QUICK else None


def is_native(array: Any) -> bool:
    """Whether compiled code may look at an array: calls on it are run now, rather than recorded."""
    kind = type(array)
    return kind is np.ndarray or (kind in TRACED and not TRACED[kind]())


TRACED: dict[type, Callable[[], bool]] = {}
"""By types of other libraries' arrays: whether calls are recorded now rather than run."""


QUICK: dict[type, QuickKind] = {}
"""Filled by the modules of the libraries, once there is an array of theirs: by both types, where there are two."""


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
"""Filled as `QUICK`."""
