"""Where another library keeps what a tensor is, for compiled code that reads it itself.

DLPack's table says how an array lies, but not whether it records gradients, has a lazy sign, or lies within its
storage. Whoever knows a library's own structure says so by a table of words: offsets, and functions of C. It is tried
out on tensors of all kinds before anybody relies on it; `Structure` has those, too.

Words are addresses, offsets in bytes, or as they are named. A tensor's handle is the address of what holds its C++
object, in Python's object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

(
    HANDLE,
    CLASS,
    KEYS,
    PLAIN,
    INFERRING,
    RANK,
    SIZES,
    START,
    NUMBER,
    STORAGE,
    HELD,
    ADDRESS,
    RECORDS,
    IS_RECORDING,
    CHANGED,
    MODES,
    MORE_MODES,
    IS_UNDER,
    TRANSFORM,
    TRACER,
    FUNCTIONAL,
) = range(21)
"""Of Python's object: its handle. Of the C++ object: its class (which comes first), as it is for plain tensors; its set
of keys, what it is for plain tensors, and for those of inference; dimensions, sizes and strides, elements before the
first one, the dtype's number (16 bits), the storage. Of a storage: bytes. Functions: the first element's address;
whether a tensor records gradients, and whether any are recorded now; that a tensor was changed; how many modes there
are of two kinds; whether a key is in use, and the keys of transforms, of what records calls, and of what has no writes.
"""

FIRST_DTYPE, DTYPES = 21, 64
"""For the first numbers of dtypes: DLPack's dtype, as it stands above the dimensions, or 0."""

WORDS = FIRST_DTYPE + DTYPES

IN_LINE = 5
"""Dimensions up to which sizes and strides lie in the C++ object, at fixed places: with more, there is the address of
the sizes, and strides follow."""


class Probe(NamedTuple):
    """A tensor, and what its library itself says of it.

    Attributes:
        tensor: kept alive.
        seen: address, DLPack's dtype with the dimensions, sizes and strides in elements; None where it must be refused.
    """

    tensor: Any
    seen: tuple[int, int, tuple[int, ...], tuple[int, ...]] | None


class Structure(NamedTuple):
    """How a library's tensors lie.

    Attributes:
        table: the words.
        probes: tensors to try it on.
        new: makes what makes packed tensors of a shape, and of the dtype of another one, where there is no mode.
    """

    table: np.ndarray[Any, np.dtype[np.uint64]]
    probes: Sequence[Probe]
    new: Callable[[tuple[int, ...], Any], Callable[[], Any]]
