"""How DLPack describes an array to C, and the function of a library that does so for a Python object.

DLPack 1.2 has a table of C functions, ``__dlpack_c_exchange_api__``, at the type of a library's arrays. One of them
fills in a description in less time than Python takes to ask for one attribute. Compiled code calls it.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from anydml.memory.numpy_struct import IS_KNOWN

DATA, DEVICE, DIMENSIONS, SHAPE, STRIDES, OFFSET = 0, 8, 16, 24, 32, 40
"""Bytes from the beginning of a DLTensor to the address of its memory, to the kind of its device (32 bits), to the
number of its dimensions (32 bits, and then its dtype), to the addresses of its shape and its strides in elements, and
to the bytes before its first element."""

SIZE = 48
"""Bytes of a DLTensor."""

HOST = 1
"""DLPack's number for host memory."""

_ATTRIBUTE, _CAPSULE = "__dlpack_c_exchange_api__", b"dlpack_exchange_api"

_VERSION = 1
"""The major version of the table that is read here."""

_READER = 5 * 8
"""Bytes from the table's beginning to the address of what describes: after the version, an older table, and three other
functions."""

_CODES = {"i": 0, "u": 1, "f": 2, "b": 6}
"""DLPack's numbers for NumPy's kinds of dtypes."""


@cache
def reader_of(kind: type) -> int:
    """The address of a library's function that describes its arrays of a type; 0 where it has none.

    It is ``int reader(PyObject *array, DLTensor *description)``, which returns 0, or leaves an exception.
    """
    capsule = getattr(kind, _ATTRIBUTE, None)
    if capsule is None or not IS_KNOWN:
        return 0
    form = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer = form(("PyCapsule_GetPointer", ctypes.pythonapi))
    try:
        table = pointer(capsule, _CAPSULE)
    except (TypeError, ValueError):
        # It is no capsule, or another one.
        return 0
    if ctypes.c_uint32.from_address(table).value != _VERSION:
        return 0
    return ctypes.c_void_p.from_address(table + _READER).value or 0


def clear_address() -> int:
    """The address of Python's function that forgets an exception."""
    return ctypes.cast(ctypes.pythonapi.PyErr_Clear, ctypes.c_void_p).value or 0


def dtype_word(dtype: np.dtype[Any]) -> int | None:
    """DLPack's dtype for one of NumPy's, as it stands above the dimensions; None where it has none that is sure."""
    if not dtype.isnative:
        return None
    code = 4 if dtype.name == "bfloat16" else _CODES.get(dtype.kind)
    return None if code is None or dtype.itemsize > 8 else code << 32 | 8 * dtype.itemsize << 40 | 1 << 48
