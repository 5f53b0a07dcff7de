"""The NumPy engine: runs programs by views, `take` and index arrays, without compilation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml.engines.common import HostKernelProgram, scratch_arrays
from anydml.engines.numpy.general import bind_refusals
from anydml.engines.numpy.views import bind_views
from anydml.engines.protocol import Array, CompiledProgram
from anydml.moves import Program, simplify, without_fills


class NumpyEngine:
    """Runs programs with NumPy."""

    def compile(self, program: Program) -> CompiledProgram:
        """Simplify the moves, unless the program has a host kernel."""
        return HostKernelProgram.of(program, _argwhere, "numpy") or NumpyProgram(program)


def _argwhere(x: Array, dtype: np.dtype[Any]) -> Array:
    return np.argwhere(x).astype(dtype, copy=False)


class NumpyProgram:
    """Simplified moves that NumPy runs in sequence."""

    def __init__(self, program: Program) -> None:
        self._name = program.name
        self._program = without_fills(program.with_moves(simplify(program.moves)))

    def bind(self, operands: Sequence[Array]) -> Callable[[], object]:
        """Create the views of all moves on the inputs and outputs."""
        arrays = [*operands, *scratch_arrays(self._program)]
        work = bind_views(self._program.moves, arrays)
        refusals = bind_refusals(self._program, arrays)
        return partial(_run, [*refusals, work]) if refusals else work

    def __str__(self) -> str:
        return f"{self._name} on numpy\n" + "\n".join(f"  {move}" for move in self._program.moves)


def _run(calls: Sequence[Callable[[], Any]]) -> None:
    for call in calls:
        call()
