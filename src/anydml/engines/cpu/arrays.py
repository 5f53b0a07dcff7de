"""The engine for functions on arrays in host memory: allocates results, compiles programs."""

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
    """The engine for functions on arrays in host memory."""

    key: Hashable = "cpu"
    is_numpys = True

    def compile_program(
        self, program: Program, shapes: Sequence[tuple[int, ...]] | None = None, itemsize: int = 1
    ) -> CpuProgram:
        """Simplify the moves, and compile them."""
        return CpuProgram(program)

    def results(
        self,
        name: str,
        like: Array,
        shapes: Sequence[tuple[int, ...]],
        dtype: np.dtype[Any],
        adapter: ArrayAdapter | None,
    ) -> tuple[list[Any], list[Array]]:
        """Allocate contiguous arrays, in memory that the adapter's library accepts.

        Raises:
            BindingError: the library accepts none.
        """
        if adapter is None:
            arrays = [empty(shape, dtype) for shape in shapes]
        else:
            arrays = [adapter.empty(name, shape, dtype) for shape in shapes]
        return arrays, arrays

    def to_library(self, adapter: ArrayAdapter, result: Any) -> Any:
        """Convert one of `results` to an array of the adapter's library."""
        return adapter.to_library(result)

    def target(self, name: str, field: str, array: Array) -> Array:
        """Return the array unchanged."""
        return array
