"""What kernels are written in: Numba's words, which are there when something has to be compiled, and not before.

Most processes find their kernels compiled on the disk (see `kept`), and to import Numba takes longer than all that they
do. So kernels' modules name its words through stand-ins. Before a kernel is compiled, the real ones take the stand-ins'
places in these modules.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}
"""How everything is compiled: without Python's own checks of divisors, for compiled code alone."""

_modules: dict[int, dict[str, Any]] = {}
"""Names of the modules that may hold stand-ins."""


class StandIn:
    """What takes the place of something of Numba's, or made by it.

    Args:
        make: gives the real thing.
    """

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._made = make, list[Any]()

    def real(self) -> Any:
        """The real thing, the same at each call."""
        if not self._made:
            self._made.append(self._make())
        return self._made[0]


def _of_numba(module: str, name: str) -> Any:
    return StandIn(lambda: getattr(importlib.import_module(module), name))


uint64, int64 = _of_numba("numba", "uint64"), _of_numba("numba", "int64")
types, cgutils = _of_numba("numba.core", "types"), _of_numba("numba.core", "cgutils")
RequireLiteralValue = _of_numba("numba.core.errors", "RequireLiteralValue")


def intrinsic(function: Callable[..., Any]) -> Any:
    """Numba's `intrinsic`: what gives the types of a call, and what builds its code."""
    _modules[id(function.__globals__)] = function.__globals__
    return StandIn(lambda: importlib.import_module("numba.extending").intrinsic(function))


def helper(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call, into each of them."""
    _modules[id(function.__globals__)] = function.__globals__

    def compiled() -> Any:
        from anydml.engines.cpu.kernels.passes import KernelCompiler

        options = {**OPTIONS, "forceinline": True, "pipeline_class": KernelCompiler}
        return importlib.import_module("numba").njit(**options)(function)

    return StandIn(compiled)


def put_real(function: Callable[..., Any]) -> None:
    """Let the real things take the places of all stand-ins that a kernel may come to.

    Raises:
        ImportError: there is no Numba.
    """
    for names in (vars(sys.modules[__name__]), function.__globals__, *_modules.values()):
        for name, value in [*names.items()]:
            if isinstance(value, StandIn):
                names[name] = value.real()
    for cell in function.__closure__ or ():
        if isinstance(cell.cell_contents, StandIn):
            cell.cell_contents = cell.cell_contents.real()
