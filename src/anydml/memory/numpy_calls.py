"""NumPy's own functions of C that make arrays: their places in the table that its ABI has promised since version 1.7.

Compiled code calls them, for a third of what `numpy.empty` takes. They are tried out once, and so is where Python's
capsules have their words; where something else is found, `find_calls` finds nothing.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import import_module
from typing import NamedTuple

import numpy as np

from anydml.memory.numpy_struct import HEADER, IS_KNOWN

_ARRAY_TYPE, _FROM_DESCR, _EMPTY, _SET_BASE = 2, 94, 184, 282
"""Numbers of words of the table."""

CAPSULE_POINTER, CAPSULE_CONTEXT = HEADER, HEADER + 16
"""Bytes from a capsule's own address to its two words."""

PACKED = 0x0501
"""The flags of an array over memory that is not its own: C order, aligned, writeable."""


class NumpyCalls(NamedTuple):
    """Addresses.

    Attributes:
        empty: ``PyArray_Empty(rank, sizes, dtype, order)``: a new array.
        from_descr: ``PyArray_NewFromDescr(type, dtype, rank, sizes, strides, memory, flags, like)``: one over memory.
        set_base: ``PyArray_SetBaseObject(array, base)``: says what keeps that memory; 0, or −1 and an exception.

    The first two take a reference to the dtype over, the third one to the base.
    """

    empty: int
    from_descr: int
    set_base: int


@cache
def find_calls() -> NumpyCalls | None:
    """Where they are, or None where that is not known."""
    if not IS_KNOWN:
        return None
    try:
        capsule = import_module("numpy._core._multiarray_umath")._ARRAY_API
    except (ImportError, AttributeError):
        return None
    form = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    table = form(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, None)

    def at(number: int) -> int:
        return ctypes.c_uint64.from_address(table + 8 * number).value

    found = NumpyCalls(at(_EMPTY), at(_FROM_DESCR), at(_SET_BASE))
    return found if at(_ARRAY_TYPE) == id(np.ndarray) and _are_capsules_known() and _works(found) else None


def _are_capsules_known() -> bool:
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    say = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
    capsule = make(("PyCapsule_New", ctypes.pythonapi))(HEADER, None, None)
    say(("PyCapsule_SetContext", ctypes.pythonapi))(capsule, CAPSULE_CONTEXT)
    words = [ctypes.c_uint64.from_address(id(capsule) + at).value for at in (CAPSULE_POINTER, CAPSULE_CONTEXT)]
    return words == [HEADER, CAPSULE_CONTEXT]


def _works(calls: NumpyCalls) -> bool:
    """Whether a small array, and one over its memory, are what they should be."""
    sizes, dtype = (ctypes.c_int64 * 2)(2, 3), np.dtype(np.int16)
    number, pointer = ctypes.c_int, ctypes.c_void_p
    kinds = [pointer, pointer, number, pointer, pointer, pointer, number, pointer]
    empty = ctypes.PYFUNCTYPE(ctypes.py_object, number, pointer, pointer, number)(calls.empty)
    from_descr = ctypes.PYFUNCTYPE(ctypes.py_object, *kinds)(calls.from_descr)
    set_base = ctypes.PYFUNCTYPE(number, ctypes.py_object, pointer)(calls.set_base)
    for taken in (dtype, dtype):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(taken))
    own = empty(2, sizes, id(dtype), 0)
    place = own.__array_interface__["data"][0]
    other = from_descr(id(np.ndarray), id(dtype), 2, sizes, None, place, PACKED, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(own))
    is_set = set_base(other, id(own)) == 0
    own[...] = 7
    is_alike = all(each.shape == (2, 3) and each.dtype == dtype and each.flags.c_contiguous for each in (own, other))
    return bool(is_set and is_alike and other.base is own and other.flags.writeable and (other == 7).all())
