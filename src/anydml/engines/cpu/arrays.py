"""Functions on arrays in host memory: their results, and their programs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter
from anydml.engines.cpu.engine import CpuProgram
from anydml.engines.protocol import Array
from anydml.memory.results import empty
from anydml.moves import Program


class HostArrays:
    """The engine behind functions on arrays in host memory."""

    key: Hashable = "cpu"
    is_numpys = True

    def compile_program(
        self, program: Program, shapes: Sequence[tuple[int, ...]] | None = None, itemsize: int = 1
    ) -> CpuProgram:
        """Simplify, and pack."""
        return CpuProgram(program)

    def results(
        self,
        name: str,
        like: Array,
        shapes: Sequence[tuple[int, ...]],
        dtype: np.dtype[Any],
        adapter: ArrayAdapter | None,
    ) -> tuple[list[Any], list[Array]]:
        """New contiguous arrays, in memory that the adapter's library can take.

        Raises:
            BindingError: the library has no way to take them.
        """
        if adapter is None:
            arrays = [empty(shape, dtype) for shape in shapes]
        else:
            arrays = [adapter.empty(name, shape, dtype) for shape in shapes]
        return arrays, arrays

    def give(self, adapter: ArrayAdapter, result: Any) -> Any:
        """The array that the adapter's library makes of one of `results`."""
        return adapter.give(result)

    def target(self, name: str, field: str, array: Array) -> Array:
        """As it is."""
        return array
