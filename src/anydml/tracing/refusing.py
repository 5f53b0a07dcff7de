"""Errors of functions that are traced: they name the caller's line."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from anydml.errors import AnydmlError, FuseError, FuseIndexError

RULE = "anydml moves elements and does not compute"

CLAMPING = 'anydml.gather with out_of_range="clamp"'
"""What takes indices that are traced wherever they come from: it finds none out of range."""

_INSIDE = (os.path.dirname(os.path.dirname(__file__)), os.path.dirname(np.__file__), contextlib.__file__)
"""Where lines are not the caller's."""

_LIBRARIES = ("torch", "einops")
"""Others whose functions call ours, if they are there."""


def place() -> str:
    """The caller's file and line."""
    libraries = [sys.modules[name].__file__ for name in _LIBRARIES if name in sys.modules]
    inside = (*_INSIDE, *(os.path.dirname(path) for path in libraries if path))
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(inside):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def refused(what: str, hint: str = "") -> FuseError:
    """The error for what does not move: `what` was asked for."""
    message = f"{place()}: {what}: {RULE}{': ' if hint else ''}{hint}"
    return FuseError(message, "fuse", None, RULE)


def broken(what: str, kind: type[FuseError] = FuseError) -> FuseError:
    """The error for arguments that do not fit."""
    return kind(f"{place()}: {what}", "fuse")


@contextmanager
def named(name: str) -> Iterator[None]:
    """Errors of Python and NumPy as anydml's own, said of a function."""
    try:
        yield
    except AnydmlError:
        raise
    except IndexError as error:
        raise broken(f"{name}: {error}", FuseIndexError) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise broken(f"{name}: {error}") from None
