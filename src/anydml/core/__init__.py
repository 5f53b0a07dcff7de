"""What is compiled ahead of time: every call planned in machine code, and the loops that move bytes.

A module that was not compiled, or that this Python or NumPy does not load, is None here: NumPy does the same work.
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
        # Sources are found, too, and do not run.
        return None
    try:
        return import_module(f"{__name__}.{name}")
    except ImportError:
        return None


finding, forms, fusing, memory, pool, program, slots, tapes, tensors = map(
    _compiled, ("finding", "forms", "fusing", "memory", "pool", "program", "slots", "tapes", "tensors")
)

MODULES = [_compiled(name) for name in ("views", "parts", "picking", "putting", "repeating", "filling", "boxes")]

IS_COMPILED = None not in (finding, forms, fusing, memory, pool, program, slots, tapes, tensors, *MODULES)
"""Whether there is compiled code for this Python and this machine."""


def native(name: str) -> Callable[..., Any] | None:
    """The compiled way of a function on arrays: it takes all arguments by their places, `out` last.

    It gives None for what Python has to do, or refuse. None where there is no such way.
    """
    for module in MODULES if IS_COMPILED else ():
        if found := getattr(module, name, None):
            compiled: Callable[..., Any] = found
            return compiled
    return None


def instruction_set() -> str:
    """The instruction set that kernels were chosen for, such as ``"x86-64-v4"``; only where there is compiled code."""
    name: str = import_module(f"{__name__}.moving").instruction_set()
    return name
