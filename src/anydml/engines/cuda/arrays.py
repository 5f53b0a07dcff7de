"""Functions on device arrays: their results, and their programs.

Results come from the caller's library. The parts of a split share one new block, each at a multiple of 16 bytes: the
kernel finds evenly spaced parts without a pointer or a table, and what table others need holds no address, so that it
is uploaded once and serves every later call.
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
"""Bytes that divide where a part begins in its block: the widest load."""

Sizes = tuple[int, ...]


class DeviceArrays:
    """The engine behind functions on arrays of one GPU.

    Args:
        gpu: its number, None where kernels are interpreted.
    """

    is_numpys = False

    def __init__(self, gpu: int | None) -> None:
        self.gpu = gpu
        self.key: Hashable = ("cuda", gpu)

    @classmethod
    def of(cls, name: str, arrays: Sequence[Array]) -> DeviceArrays:
        """The engine for arrays.

        Raises:
            BindingError: they do not lie on one GPU.
            ValueError: what `Device("cuda")` needs is missing.
        """
        return cls(_gpu(name, arrays))

    def compile_program(
        self, program: Program, shapes: Sequence[Sizes] | None = None, itemsize: int = 1
    ) -> CudaProgram:
        """Simplify, and cut into launches; results of our own lie in one block."""
        if shapes is not None:
            starts = [start * itemsize for start in block_starts(shapes, itemsize)]
            program = _in_one_block(program, starts)
        return CudaProgram.of(program, self.gpu)

    def results(
        self, name: str, like: Array, shapes: Sequence[Sizes], dtype: np.dtype[Any], adapter: ArrayAdapter | None
    ) -> tuple[list[Any], list[Array]]:
        """New arrays in one block, and the block as the operand."""
        starts = block_starts(shapes, like.itemsize)
        block = memory.empty(like, starts[-1])
        parts = [
            block[start : start + math.prod(shape)].reshape(shape) for start, shape in zip(starts, shapes, strict=False)
        ]
        return parts, [as_array(block)]

    def give(self, adapter: ArrayAdapter, result: Any) -> Any:
        """The adapter's own array."""
        return adapter.give_from_device(result)

    def target(self, name: str, field: str, array: Array) -> Array:
        """The caller's array as an operand.

        Raises:
            BindingError: it does not lie on this GPU.
        """
        operand: Array = as_operand(name, field, array, self.gpu)
        return operand


def block_starts(shapes: Sequence[Sizes], itemsize: int) -> list[int]:
    """Where parts begin in their common block, in elements, and its size."""
    if len(shapes) == 1:
        return [0, math.prod(shapes[0])]
    unit = math.lcm(ALIGNMENT, itemsize) // itemsize
    return [0, *itertools.accumulate(-(-math.prod(shape) // unit) * unit for shape in shapes)]


def _in_one_block(program: Program, starts: Sequence[int]) -> Program:
    """The same program with all outputs in one operand, at these bytes."""
    first = program.count("input")

    def placed(move: Move) -> Move:
        to = move.destination
        place = Access(first, to.offset + starts[to.operand - first], to.strides, to.lookups)
        return move._replace(destination=place)

    return program.with_moves([placed(move) for move in program.moves])


def _gpu(name: str, arrays: Sequence[Array]) -> int | None:
    """The one GPU that all arrays lie on, None where kernels are interpreted."""
    if _is_host():
        for array in arrays:
            check_interpretable(name, "an array", array)
        return None
    places = {f"cuda:{array.gpu}" if isinstance(array, DeviceArray) else "the host" for array in arrays}
    if len(places) > 1 or places == {"the host"}:
        message = f"{name}: the arrays lie on {' and '.join(sorted(places))}"
        raise BindingError(message, name, None, "all arrays must lie on one GPU")
    gpu: int = arrays[0].gpu  # type: ignore[attr-defined]  # all are DeviceArrays
    return gpu


@cache
def _is_host() -> bool:
    require_gpu("cuda")
    return is_interpreted()
