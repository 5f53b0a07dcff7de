"""What makes results of one kind again and again: tables of `kernels.making`, for NumPy's arrays and the warm cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from anydml.engines.cpu.c_functions import NO_ARGUMENTS, MethodDef, address, builtin
from anydml.engines.cpu.kernels import making
from anydml.engines.protocol import Array
from anydml.memory.blocks import Shelf
from anydml.memory.host import address_of
from anydml.memory.numpy_calls import find_calls
from anydml.memory.warm import CACHE, Maker

KINDS = "biufcmM"
"""NumPy's kinds of dtypes whose arrays are nothing but memory."""

_CALLED = {
    making.INCREF: "Py_IncRef",
    making.DECREF: "Py_DecRef",
    making.CALL: "PyObject_CallNoArgs",
    making.CALL_WITH: "PyObject_CallOneArg",
    making.CLEAR: "PyErr_Clear",
    making.FETCH: "PyErr_Fetch",
    making.RESTORE: "PyErr_Restore",
    making.UNRAISABLE: "PyErr_WriteUnraisable",
    making.CAPSULE: "PyCapsule_New",
    making.SET_CONTEXT: "PyCapsule_SetContext",
}


def prepare() -> None:
    """Have the cache make results in compiled code from now on, where it can.

    Raises:
        NoCompilerError: it cannot be compiled.
    """
    if CACHE.hasten is None and find_calls() is not None:
        _code()
        CACHE.hasten = quick_maker


def quick_maker(make: Maker, shape: tuple[int, ...], dtype: np.dtype[Any], shelf: Shelf | None) -> Maker:
    """What makes such arrays in compiled code.

    Args:
        make: what does in Python.
        shape: their sizes.
        dtype: of their elements.
        shelf: whose blocks they lie over, None for NumPy's own memory.
    """
    if dtype.kind not in KINDS or not dtype.isnative:
        return make
    common = _common() if shelf is None else _common_of(shelf)
    words = np.array([address_of(common), id(dtype), len(shape), id(make), *shape], np.uint64)
    small, large, _ = _code()
    own = (_Small if shelf is None else tuple)((words, common, dtype, make))
    return builtin(small if shelf is None else large, own)


class _Small(tuple[object, ...]):
    """What belongs to a maker of arrays over NumPy's own memory."""

    __slots__ = ()


def is_small(make: Callable[[], object]) -> bool:
    """Whether this is `quick_maker`'s, and makes arrays over NumPy's own memory: compiled code can do so without it."""
    return isinstance(getattr(make, "__self__", None), _Small)


@cache
def _common() -> Array:
    """The words that all share."""
    words = np.zeros(making.COMMON_WORDS, np.uint64)
    for at, name in _CALLED.items():
        words[at] = address(name)
    calls = find_calls()
    assert calls is not None
    words[[making.EMPTY, making.FROM_DESCR, making.SET_BASE]] = calls
    words[making.ARRAY] = id(np.ndarray)
    return words


def _common_of(shelf: Shelf) -> Array:
    """The words that all share whose blocks are of one shelf: capsules read them when they die, so it keeps them."""
    if "words" not in shelf.kept:
        words = _common().copy()
        given = shelf.waiting.pop, shelf.waiting.append, shelf.cache.tend
        words[[making.POP, making.APPEND, making.TEND]] = [*map(id, given)]
        words[making.RELEASE], words[making.SIZE] = _code()[2], shelf.size
        words[making.COUNTS] = address_of(shelf.cache.words)
        # Of two threads that come here at once the first one's stay: a capsule may have them already.
        shelf.kept.setdefault("words", (words, *given))
    found: Array = shelf.kept["words"][0]
    return found


_METHODS: list[object] = []
"""What the functions of C are made of, and their code, for as long as anybody may call one, or a capsule may die."""


@cache
def _code() -> tuple[MethodDef, MethodDef, int]:
    small, large, released = making.make_small(), making.make_large(), making.release()
    methods = [MethodDef(b"make", each.entry, NO_ARGUMENTS, None) for each in (small, large)]
    _METHODS.extend((*methods, small, large, released))
    return methods[0], methods[1], released.entry
