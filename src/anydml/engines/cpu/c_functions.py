"""Functions of C for Python, made from compiled code, and the addresses of Python's own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

FAST_CALL, NO_ARGUMENTS = 0x80, 0x04
"""CPython's METH_FASTCALL and METH_NOARGS: a C function takes `self`, then the address of the arguments' addresses and
their number; or `self` alone."""


class MethodDef(ctypes.Structure):
    """CPython's PyMethodDef. Functions that are made of one need it as long as they live."""

    _fields_ = (("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


_make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


def builtin(method: MethodDef, own: object) -> Callable[..., Any]:
    """What Python calls; `own` is the function's `self`."""
    made: Callable[..., Any] = _make(ctypes.addressof(method), own, None)
    return made


@cache
def address(name: str) -> int:
    """Where a function of Python's own is."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
