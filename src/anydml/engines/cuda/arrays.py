"""The engine of functions on device arrays: allocation of results, and compilation.

Results are allocated by the caller's library. The parts of a split share one new block, each at a multiple of 16 bytes:
the kernel finds evenly spaced parts without pointers or a table, and other parts by a table without addresses, which is
uploaded once for all calls.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Sequence
from functools import cache
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter
from anydml.engines.cuda import memory
from anydml.engines.cuda.available import is_interpreted, require_gpu
from anydml.engines.cuda.engine import CudaProgram, as_operand, check_interpretable
from anydml.engines.protocol import Array
from anydml.errors import BindingError
from anydml.memory.device_array import DeviceArray, as_array
from anydml.moves import Access, Move, Program

ALIGNMENT = 16
"""Alignment in bytes of a part in its block: the widest load."""

Sizes = tuple[int, ...]


class DeviceArrays:
    """The engine for functions on arrays of one GPU.

    Args:
        gpu: the GPU's number; None for the interpreter.
    """

    is_numpys = False

    def __init__(self, gpu: int | None) -> None:
        self.gpu = gpu
        self.key: Hashable = ("cuda", gpu)

    @classmethod
    def of(cls, name: str, arrays: Sequence[Array]) -> DeviceArrays:
        """Return the engine for arrays.

        Raises:
            BindingError: the arrays are not on one GPU.
            ValueError: Triton, PyTorch or a GPU is missing.
        """
        return cls(_gpu(name, arrays))

    def compile_program(
        self, program: Program, shapes: Sequence[Sizes] | None = None, itemsize: int = 1
    ) -> CudaProgram:
        """Compile a program to launches; the results that this engine allocates share one block."""
        if shapes is not None:
            starts = [start * itemsize for start in block_starts(shapes, itemsize)]
            program = _in_one_block(program, starts)
        return CudaProgram.of(program, self.gpu)

    def results(
        self, name: str, like: Array, shapes: Sequence[Sizes], dtype: np.dtype[Any], adapter: ArrayAdapter | None
    ) -> tuple[list[Any], list[Array]]:
        """Allocate results in one block, which is the only operand for all of them."""
        starts = block_starts(shapes, like.itemsize)
        block = memory.empty(like, starts[-1])
        parts = [
            block[start : start + math.prod(shape)].reshape(shape) for start, shape in zip(starts, shapes, strict=False)
        ]
        return parts, [as_array(block)]

    def target(self, name: str, field: str, array: Array) -> Array:
        """Convert the caller's array to an operand.

        Raises:
            BindingError: the array is not on this GPU.
        """
        operand: Array = as_operand(name, field, array, self.gpu)
        return operand


def block_starts(shapes: Sequence[Sizes], itemsize: int) -> list[int]:
    """Return the start of each part in the common block, and the block's size, in elements."""
    if len(shapes) == 1:
        return [0, math.prod(shapes[0])]
    unit = math.lcm(ALIGNMENT, itemsize) // itemsize
    return [0, *itertools.accumulate(-(-math.prod(shape) // unit) * unit for shape in shapes)]


def _in_one_block(program: Program, starts: Sequence[int]) -> Program:
    """Replace all outputs of a program by one operand; each output has an offset in it, in bytes."""
    first = program.count("input")

    def at_starts(move: Move) -> Move:
        to = move.destination
        access = Access(first, to.offset + starts[to.operand - first], to.strides, to.lookups)
        return move._replace(destination=access)

    return program.with_moves([at_starts(move) for move in program.moves])


def _gpu(name: str, arrays: Sequence[Array]) -> int | None:
    """Return the GPU of all arrays; None for the interpreter."""
    if _is_host():
        for array in arrays:
            check_interpretable(name, "an array", array)
        return None
    places = {f"cuda:{array.gpu}" if isinstance(array, DeviceArray) else "the host" for array in arrays}
    if len(places) > 1 or places == {"the host"}:
        message = f"{name}: the arrays lie on {' and '.join(sorted(places))}"
        raise BindingError(message, name, None, "all arrays must be on one GPU")
    gpu: int = arrays[0].gpu  # type: ignore[attr-defined]  # all are DeviceArrays
    return gpu


@cache
def _is_host() -> bool:
    require_gpu("cuda")
    return is_interpreted()
