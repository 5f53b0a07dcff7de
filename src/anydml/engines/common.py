"""What every engine needs beside its own: memory for a program's constants and scratch, and the error for an index."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml.engines.protocol import Array
from anydml.memory.host import window
from anydml.memory.results import empty
from anydml.moves.indices import outside_of
from anydml.moves.move import Lookup
from anydml.moves.program import AtOnce, FindNonzero, Formula, Program

LINE, WORD = 64, np.dtype(np.uint64)


def index_error(program: Program, lookup: Lookup, index: int) -> IndexError:
    """The error for an index that lies outside an axis, on every engine."""
    return outside_of(program.name, index, program.operands[lookup.operand].name, lookup.size)


def scratch_shapes(program: Program) -> tuple[tuple[int, np.dtype[Any]], ...]:
    """How many words a program's scratch has, each of its pieces in whole lines, so that elements are aligned."""
    sizes = [operand.size for operand in program.operands if operand.role == "scratch"]
    return tuple([(math.ceil(size / LINE) * (LINE // WORD.itemsize), WORD) for size in sizes])


def scratch_arrays(program: Program) -> list[Array]:
    """New memory for a program's scratch, and its constants before it, as operands that follow the bound ones."""
    constants: list[Array] = [*program.constants]
    return constants + [empty((count,), dtype).view(np.uint8) for count, dtype in scratch_shapes(program)]


class ProgramAtOnce:
    """A program whose operator knows a way on host memory that takes fewer passes than its moves."""

    def __init__(self, program: Program, at_once: AtOnce, formula: Formula, find: FindNonzero, engine: str) -> None:
        self._text = f"{program.name} on {engine}: {at_once.about}"
        self._work, self._tensors, self._find = at_once.work, formula.tensors, find

    @classmethod
    def of(cls, program: Program, find: FindNonzero, engine: str) -> ProgramAtOnce | None:
        """The program, or None where nothing but moves does it."""
        if program.at_once is None or program.formula is None:
            return None
        return cls(program, program.at_once, program.formula, find, engine)

    def bind(self, operands: Sequence[Array]) -> Callable[[], None]:
        """Views of the operands; `operands` are the inputs and outputs."""
        views = [
            window(operand, 0, sizes, strides, dtype)
            for operand, (sizes, strides, dtype) in zip(operands, self._tensors, strict=False)
        ]
        return partial(self._work, views, self._find)

    def __str__(self) -> str:
        return self._text
