"""Errors of functions that are traced: they name the caller's line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from anydml.errors import AnydmlError, FuseError, FuseIndexError

RULE = "anydml moves elements and does not compute"

_INSIDE = (str(Path(__file__).parents[1]), str(Path(np.__file__).parent))
"""Folders whose lines are not the caller's."""


def place() -> str:
    """The caller's file and line."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
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
