"""Errors of traced functions, which name the caller's line."""

from __future__ import annotations

import contextlib
import dis
import os
import reprlib
import sys
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from anydml.errors import AnydmlError, FuseError, FuseIndexError
from anydml.name_hints import EQUIVALENTS
from anydml.text import MOVES_ONLY
from anydml.tracing.names_in_code import reaches_variables

MOVES_ONLY_RULE = MOVES_ONLY

COMPUTE_OUTSIDE = "apply it before or after the fused function"
"""The remedy in errors of operations that compute."""

CONVERT_OUTSIDE = "pass tensors, or convert the function's result"
"""The remedy where NumPy's arrays are converted to tensors."""

CLAMPING_TAKE = f'{EQUIVALENTS["take"]} with out_of_range="clamp"'
"""The call that accepts all traced indices, because it clamps them."""

_NOT_THE_CALLERS = (os.path.dirname(os.path.dirname(__file__)), os.path.dirname(np.__file__), contextlib.__file__)
"""Folders and files whose lines are not the caller's."""

_LIBRARIES = ("torch", "einops")
"""Libraries that call this package, if installed."""


def caller_line() -> str:
    """Return the caller's file and line."""
    frame = _caller()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def is_assigned() -> bool:
    """Whether the caller's current instruction assigns into an item."""
    frame = _caller()
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(("STORE_SUBSCR", "STORE_SLICE"))


def conversion_remedy() -> str:
    """Return what to do instead of a conversion to a NumPy array, which the names in the caller's code suggest."""
    names = _caller().f_code.co_names
    if not {"permutation", "permuted", "shuffle"}.isdisjoint(names):
        return "draw an order outside the fused function, pass it as an argument, and index by it"
    if name := next((name for name in ("r_", "c_") if name in names), None):
        function = "numpy.concatenate" if name == "r_" else "numpy.column_stack"
        return f"call {function} instead of numpy.{name}"
    return f"copy it by numpy.copy; to index a constant array by it, call {CLAMPING_TAKE}"


def _caller() -> types.FrameType:
    """Return the caller's frame."""
    libraries = [sys.modules[name].__file__ for name in _LIBRARIES if name in sys.modules]
    inside = (*_NOT_THE_CALLERS, *(os.path.dirname(path) for path in libraries if path))
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    return frame  # type: ignore[no-any-return]


def refusal(subject: str, hint: str = COMPUTE_OUTSIDE) -> FuseError:
    """Return the error for an operation that computes, or depends on elements, with a reason or a remedy."""
    reason = f"{MOVES_ONLY_RULE}: {hint}" if hint is COMPUTE_OUTSIDE else hint
    return _located_error(FuseError, f"{subject}: {reason}", MOVES_ONLY_RULE)


def not_assignable(array: Any) -> FuseError:
    """Return the error for an assignment into an array that the function has not created."""
    message = f"cannot assign into {array!r}, which the function has not created"
    return _located_error(
        FuseError, f"{message}: assign into a copy of it, or into an array made by numpy.zeros", MOVES_ONLY_RULE
    )


def not_created(part: Any, library: str) -> FuseError:
    """Return the error for an assignment of a traced array into one of a library that the function has not created."""
    message = f"cannot assign {part!r} into an array of {library} that the function has not created: create it there"
    if type(sys.gettrace()).__name__ != "Watch" or sys.version_info >= (3, 14):
        message += ", in code that is called by its name: methods are not followed " + (
            "by Python 3.14"
            if sys.version_info >= (3, 14)
            else "under a debugger, coverage or without the compiled core"
        )
    elif reaches_variables(_caller().f_code):
        message += ", in a function without global, class, globals, eval and exec, since fuse copies no other"
    return _located_error(FuseError, message, MOVES_ONLY_RULE)


def fuse_error(message: str, error_class: type[FuseError] = FuseError, rule: str | None = None) -> FuseError:
    """Return the error for arguments that do not fit, or for a function that is not supported."""
    return _located_error(error_class, message, rule)


def no_arrays_error(name: str, arguments: Iterable[Any]) -> FuseError:
    """Return the error for a call of a fused function without arrays."""
    arguments_text = " ".join(", ".join(map(reprlib.repr, arguments)).split())
    description = f"with {arguments_text}, and without arrays" if arguments_text else "without arrays"
    return fuse_error(f"{name} was called {description}: pass at least one; numpy.asarray converts lists")


def _located_error(error_class: type[FuseError], reason: str, rule: str | None = None) -> FuseError:
    error = error_class(f"{caller_line()}: {reason}", "fuse", None, rule)
    error.reason = reason
    return error


class named_errors:  # noqa: N801  # used like a function
    """A context that converts errors of Python and NumPy to anydml's, and names the function in its own."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, error_class: Any, error: Any, _: Any) -> None:
        if isinstance(error, FuseError) and error.rule is None and not error.reason.startswith(self._name):
            raise _with_name(error, self._name) from None
        if error is None or isinstance(error, AnydmlError):
            return
        if isinstance(error, IndexError):
            raise fuse_error(f"{self._name}: {error}", FuseIndexError) from None
        if isinstance(error, (TypeError, ValueError, OverflowError)):
            raise fuse_error(f"{self._name}: {error}") from None


def _with_name(error: FuseError, name: str) -> FuseError:
    """Return an error whose reason begins with the function's name."""
    named_error = fuse_error(f"{name}: {error.reason}", type(error))
    named_error.argument = error.argument
    return named_error
