"""What every engine needs beside its own: memory for a program's constants and scratch, and the error for an index."""

from __future__ import annotations

import math

import numpy as np

from anydml.engines.protocol import Array
from anydml.memory.warm import CACHE
from anydml.moves.move import Lookup
from anydml.moves.program import Program

LINE, WORD = 64, np.dtype(np.uint64)


def index_error(program: Program, lookup: Lookup, index: int) -> IndexError:
    """The error for an index that lies outside an axis, on every engine."""
    name = program.operands[lookup.operand].name
    return IndexError(f"{program.name}: index {index} in {name} is out of range for an axis of size {lookup.size}")


def scratch_arrays(program: Program) -> list[Array]:
    """New memory for a program's scratch, and its constants before it, as operands that follow the bound ones."""
    constants: list[Array] = [*program.constants]
    scratch = [operand.size for operand in program.operands if operand.role == "scratch"]
    # In whole lines, so that elements are aligned.
    lines = [math.ceil(size / LINE) for size in scratch]
    words = [CACHE.array((count * LINE // 8,), WORD, count * LINE) for count in lines]
    return constants + [each.view(np.uint8)[:size] for each, size in zip(words, scratch, strict=True)]
