"""Other libraries' arrays that compiled code reads itself, and what Python has to ask of them first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from anydml.memory.tensor_struct import Structure


class QuickKind(NamedTuple):
    """Arrays of one type.

    Attributes:
        kind: the type; arrays of others, derived ones too, go the long way.
        is_traced: whether calls are recorded now rather than run.
        can_use: whether an array's memory reaches so many bytes past its first element, and is all there is to it.
        maker: what makes new packed arrays of a shape, and of the dtype of an array.
        written: told of arrays that were written.
        structure: how its arrays lie, beyond what DLPack says; None where nobody knows.
    """

    kind: type
    is_traced: Callable[[], bool]
    can_use: Callable[[Any, int], bool]
    maker: Callable[[tuple[int, ...], Any], Callable[[], Any]]
    written: Callable[[Iterable[Any]], None]
    structure: Callable[[], Structure | None]


QUICK: dict[type, QuickKind] = {}
"""Filled by the modules of the libraries, once there is an array of theirs."""
