"""Where NumPy keeps what an array is: offsets in its C structure, which its ABI has promised since version 1.7.

Compiled code reads arrays through them, for a tenth of what Python's attributes cost. They are tried out once; where
they do not hold (another Python than CPython), or other threads may change an array meanwhile (there is no GIL),
`IS_KNOWN` is False, and nobody reads them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

HEADER = object.__basicsize__
"""Bytes of an object before its own fields; the last eight point to its type."""

TYPE = HEADER - 8
DATA, DIMENSIONS, SHAPE, STRIDES, DTYPE, FLAGS = (HEADER + 8 * k for k in (0, 1, 2, 3, 5, 6))
"""Bytes from an array's own address to its first element's, to the number of its dimensions (32 bits), to the addresses
of its shape and its strides, to its dtype, and to its flags (32 bits)."""

ITEMS = tuple.__basicsize__
"""Bytes from a tuple's own address to those of its items."""

WRITEABLE = 0x0400
"""The flag of arrays that may be written."""

_WRITEABLE_BYTE, WRITEABLE_BIT = FLAGS + 1, WRITEABLE >> 8


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _is_known() -> bool:
    """Whether an array, a view and a tuple are where they should be, and the flag changes when it is changed."""
    if sys.implementation.name != "cpython" or sys.byteorder != "little" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    # Python 3.13 and later say whether they run with a GIL.
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    array = np.zeros((2, 3, 5), np.int16)[:, ::-1]
    at, pair = id(array), (array, array.dtype)
    interface = array.__array_interface__
    if (_word(at + TYPE), _word(at + DATA), _word(at + DTYPE)) != (id(np.ndarray), interface["data"][0], id(pair[1])):
        return False
    if ctypes.c_int.from_address(at + DIMENSIONS).value != 3 or _word(id(pair) + ITEMS + 8) != id(pair[1]):
        return False
    for field, values in ((SHAPE, array.shape), (STRIDES, array.strides)):
        if tuple((ctypes.c_int64 * 3).from_address(_word(at + field))) != values:
            return False
    flags = ctypes.c_int.from_address(at + FLAGS)
    before = flags.value
    array.flags.writeable = False
    return bool(before & WRITEABLE) and flags.value == before & ~WRITEABLE


IS_KNOWN = _is_known()


def watching(run: Callable[[], object], arrays: tuple[Array, ...], refuse: Callable[[], object]) -> Callable[[], None]:
    """What runs something while some arrays of NumPy's may be written.

    Args:
        run: what is run.
        arrays: what it writes; kept alive.
        refuse: called where one of them is read-only now; raises.
    """
    flags = writeable_bytes(arrays)
    if flags is None:

        def ask() -> None:
            for array in arrays:
                if not array.flags.writeable:
                    refuse()
            run()

        return ask

    def look() -> None:
        for flag in flags:
            if not flag[0] & WRITEABLE_BIT:
                refuse()
        run()

    return look


def writeable_bytes(arrays: tuple[Array, ...]) -> tuple[memoryview, ...] | None:
    """For each array, now and later, a byte that has `WRITEABLE_BIT` if it may be written; keeps them alive.

    None where nobody knows where those bytes are.
    """
    return tuple([memoryview(_Flag.of(array)).cast("B") for array in arrays]) if IS_KNOWN else None


class _Flag(ctypes.c_uint8):
    """The byte of an array's flags that says whether it may be written; keeps the array alive."""

    array: Array

    @classmethod
    def of(cls, array: Array) -> _Flag:
        flag = cls.from_address(id(array) + _WRITEABLE_BYTE)
        flag.array = array
        return flag
