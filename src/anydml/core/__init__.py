"""The core, compiled ahead of time: calls planned in machine code, and the kernels that move bytes.

A module that was not compiled, or that this Python or NumPy cannot load, is None; NumPy then does its work.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder
from typing import Any

_FINDERS = [FileFinder(folder, (ExtensionFileLoader, EXTENSION_SUFFIXES)) for folder in __path__]


def _compiled(name: str) -> Any:
    # An import would find the source, too, which cannot run uncompiled.
    if not any(finder.find_spec(name) for finder in _FINDERS):
        return None
    try:
        return import_module(f"{__name__}.{name}")
    except ImportError:
        return None


_NAMES = "forms fusing instruction_watch memory nonzero_search pool program rules slots tapes tensors"
_MODULES = [_compiled(name) for name in _NAMES.split()]
forms, fusing, instruction_watch, memory, nonzero_search, pool, program, rules, slots, tapes, tensors = _MODULES

IS_COMPILED = None not in _MODULES
"""Whether all modules are compiled for this Python and this machine."""


def native(name: str) -> Callable[..., Any] | None:
    """Return the compiled implementation of a function on arrays, or None if there is none.

    It takes all arguments positionally, `out` last, and returns None to fall back to Python, which may reject the call.
    """
    return getattr(rules, name, None) if IS_COMPILED else None


def instruction_set() -> str:
    """Return the instruction set of the chosen kernels, such as ``"x86-64-v4"``; requires the compiled core."""
    name: str = import_module(f"{__name__}.moving").instruction_set()
    return name
