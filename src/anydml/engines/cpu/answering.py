"""Python's functions whose calls come to compiled code first (see `kernels.answer`), and how they are made to.

CPython calls a function through a word of the function's own, and lets compiled code take its place as long as nobody
sees a difference. What asks for it by a step of Python goes on doing so: up to CPython 3.11 its own bytecode calls
functions that are written in Python without looking at the word.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from anydml.engines.cpu.c_functions import address
from anydml.engines.cpu.kernels import answer
from anydml.memory.host import address_of
from anydml.memory.numpy_struct import IS_KNOWN

MOST = answer.SLOTS // 2
"""Functions that are answered, at most: those that are looked for are found soon."""

_TABLE = np.zeros(1 + 2 * answer.SLOTS, np.uint64)

_KEPT: list[object] = []
"""What the table points to: a call that is under way may use what was there before, too."""

_answered: dict[int, Callable[..., Any]] = {}
"""Functions by their addresses."""

_find_word = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("PyVectorcall_Function", ctypes.pythonapi))


def answer_calls(
    function: Any, own: np.ndarray[Any, Any], code: int, given: Sequence[str], left: Sequence[str]
) -> None:
    """Have calls of a function answered by compiled code, where this Python lets it.

    Args:
        function: of Python. It does all calls that compiled code does not do.
        own: the table of its whole calls.
        code: the address of what does them.
        given: parameters whose arguments that takes, in its order: first the array, or the list of them, last `out`.
        left: those that must be left at their default.
    """
    put = writer()
    names = function.__code__.co_varnames[: function.__code__.co_argcount + function.__code__.co_kwonlyargcount]
    is_new = id(function) not in _answered
    if put is None or len(names) > answer.MOST_PARAMETERS or (is_new and len(_answered) >= MOST):
        return
    positional = names[: function.__code__.co_argcount]
    plain = function.__defaults__ or ()
    defaults = dict(zip(positional[len(positional) - len(plain) :], plain, strict=True)) | (
        function.__kwdefaults__ or {}
    )
    words = [id(function), id(own), code, len(names), len(positional), len(given), len(left), *map(id, names)]
    words += [id(defaults[name]) if name in defaults else 0 for name in names]
    words += [*map(names.index, given), *map(names.index, left)]
    table = np.array(words, np.uint64)
    _KEPT.append((function, own, names, defaults, table))
    at = _slot(id(function))
    _TABLE[at + 1] = address_of(table)
    _TABLE[at] = id(function)
    if is_new:
        _answered[id(function)] = function
        put(function, _code())


def _slot(function: int) -> int:
    """Where the table has a function, or has place for it."""
    at = ((function >> 4) ^ (function >> 12)) % answer.SLOTS
    while int(_TABLE[1 + 2 * at]) not in (0, function):
        at = (at + 1) % answer.SLOTS
    return 1 + 2 * at


@cache
def writer() -> Callable[[Any, int], None] | None:
    """What writes that word of a function, tried out; None where nothing does."""
    if not IS_KNOWN:
        return None

    def probe() -> None:
        """A function of Python, as those are that are answered."""

    put: Callable[[Any, int], None]
    if hasattr(ctypes.pythonapi, "PyFunction_SetVectorcall"):
        form = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_void_p)
        put = form(("PyFunction_SetVectorcall", ctypes.pythonapi))
    else:
        own_way, words = _find_word(probe), range(0, type(probe).__basicsize__, 8)
        places = [at for at in words if ctypes.c_uint64.from_address(id(probe) + at).value == own_way]
        if len(places) != 1:
            return None

        def put(function: Any, code: int) -> None:
            ctypes.c_uint64.from_address(id(function) + places[0]).value = code

    put(probe, address("PyObject_Call"))
    return put if _find_word(probe) == address("PyObject_Call") else None


@cache
def _code() -> int:
    """The address of what answers, which knows the table."""
    # Threads that come here at once may have a kernel each, and each has a word of its own.
    kernel = answer.answer()
    _KEPT.append(kernel)
    _TABLE[0] = _own_way()
    kernel.run(0, address_of(_TABLE), 0, 0)
    return kernel.entry


def _own_way() -> int:
    """How Python calls a function that nobody else answers."""
    found: int = _find_word(lambda: None)
    return found


@atexit.register
def _restore() -> None:
    # Compiled code may go before the last function does.
    put = writer() if _answered else None
    if put is not None:
        for function in _answered.values():
            put(function, _own_way())


def prepare() -> None:
    """Compile what answers, or load it.

    Raises:
        NoCompilerError: it cannot be compiled.
    """
    answer.answer()
