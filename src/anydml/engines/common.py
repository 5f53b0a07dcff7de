"""Helpers of all engines: memory for constants and scratch, index errors, and programs with a host kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml.engines.protocol import Array
from anydml.memory.host import window
from anydml.memory.results import empty
from anydml.moves.move import Lookup
from anydml.moves.program import FindNonzero, Formula, HostKernel, Program
from anydml.moves.wrapped_indices import outside_of

LINE, WORD = 64, np.dtype(np.uint64)


def index_error(program: Program, lookup: Lookup, index: int) -> IndexError:
    """Return the error for an index out of range, identical on all engines."""
    return outside_of(program.name, index, program.operands[lookup.operand].name, lookup.size)


def scratch_shapes(program: Program) -> tuple[tuple[int, np.dtype[Any]], ...]:
    """Return the length and dtype of each scratch array, in whole cache lines, so that elements are aligned."""
    sizes = [operand.size for operand in program.operands if operand.role == "scratch"]
    return tuple([(math.ceil(size / LINE) * (LINE // WORD.itemsize), WORD) for size in sizes])


def scratch_arrays(program: Program) -> list[Array]:
    """Return the constants and newly allocated scratch: the operands that follow the bound ones."""
    constants: list[Array] = [*program.constants]
    return constants + [empty((count,), dtype).view(np.uint8) for count, dtype in scratch_shapes(program)]


class HostKernelProgram:
    """A program that runs its operator's host kernel instead of its moves."""

    def __init__(
        self, program: Program, host_kernel: HostKernel, formula: Formula, find: FindNonzero, engine: str
    ) -> None:
        self._text = f"{program.name} on {engine}: {host_kernel.about}"
        self._work, self._tensors, self._find = host_kernel.work, formula.tensors, find

    @classmethod
    def of(cls, program: Program, find: FindNonzero, engine: str) -> HostKernelProgram | None:
        """Return the program, or None if its operator has no host kernel."""
        if program.host_kernel is None or program.formula is None:
            return None
        return cls(program, program.host_kernel, program.formula, find, engine)

    def bind(self, operands: Sequence[Array]) -> Callable[[], None]:
        """Return a function that runs the kernel on the inputs and outputs."""
        views = [
            window(operand, 0, sizes, strides, dtype)
            for operand, (sizes, strides, dtype) in zip(operands, self._tensors, strict=False)
        ]
        return partial(self._work, views, self._find)

    def __str__(self) -> str:
        return self._text
