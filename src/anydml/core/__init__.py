"""The core, compiled ahead of time: calls planned in machine code, and the kernels that move bytes.

A module that was not compiled, or that this Python or NumPy cannot load, is None; NumPy then does its work.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec
from typing import Any


def _compiled(name: str) -> Any:
    found = find_spec(f"{__name__}.{name}")
    if found is None or not isinstance(found.loader, ExtensionFileLoader):
        # The source is found too, but cannot run uncompiled.
        return None
    try:
        return import_module(f"{__name__}.{name}")
    except ImportError:
        return None


finding, forms, fusing, memory, pool, program, slots, tapes, tensors, watching = map(
    _compiled, ("finding", "forms", "fusing", "memory", "pool", "program", "slots", "tapes", "tensors", "watching")
)

MODULES = [_compiled(name) for name in ("rules", "views", "picking", "putting", "filling", "boxes")]

IS_COMPILED = None not in (finding, forms, fusing, memory, pool, program, slots, tapes, tensors, watching, *MODULES)
"""Whether all modules are compiled for this Python and this machine."""


def native(name: str) -> Callable[..., Any] | None:
    """The compiled implementation of a function on arrays, or None if there is none.

    It takes all arguments positionally, `out` last, and returns None to fall back to Python, which may reject the call.
    """
    for module in MODULES if IS_COMPILED else ():
        if found := getattr(module, name, None):
            compiled: Callable[..., Any] = found
            return compiled
    return None


def instruction_set() -> str:
    """The instruction set of the chosen kernels, such as ``"x86-64-v4"``; requires the compiled core."""
    name: str = import_module(f"{__name__}.moving").instruction_set()
    return name
