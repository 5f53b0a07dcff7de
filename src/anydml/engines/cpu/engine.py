"""The CPU engine: moves are simplified and compiled once; bound to operands, they run in one native call.

NumPy runs the programs that the compiled core does not support, and all programs if there is no core.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml import core
from anydml.arrays import ArrayAdapter
from anydml.engines.common import HostKernelProgram, scratch_arrays
from anydml.engines.cpu.nonzero import argwhere
from anydml.engines.cpu.threads import get_num_threads
from anydml.engines.protocol import Array, CompiledProgram
from anydml.memory.results import empty
from anydml.moves import Program, simplify
from anydml.text import count_noun

FIXED_WEIGHT = 1536
"""Approximate bytes of a program without moves."""

MOVE_WEIGHT = 1400
"""Approximate bytes of a program per move."""

MAX_SHOWN = 64
"""Number of moves, and of stages, that an explanation shows at most."""

Bound = Callable[[], object]
Sizes = tuple[int, ...]


class CpuEngine:
    """Runs moves on host memory."""

    key: Hashable = "cpu"
    is_numpys = True

    def compile(self, program: Program) -> CompiledProgram:
        """Use the host kernel if the program has one; otherwise simplify and compile the moves."""
        return HostKernelProgram.of(program, argwhere, "cpu") or CpuProgram(program)

    def compile_program(self, program: Program, shapes: Sequence[Sizes] | None = None, itemsize: int = 1) -> CpuProgram:
        """Simplify the moves, and compile them."""
        return CpuProgram(program)

    def results(
        self, name: str, like: Array, shapes: Sequence[Sizes], dtype: np.dtype[Any], adapter: ArrayAdapter | None
    ) -> tuple[list[Any], list[Array]]:
        """Allocate contiguous arrays, in memory that the adapter's library accepts.

        Raises:
            BindingError: the library accepts none.
        """
        new = empty if adapter is None else partial(adapter.empty, name)
        arrays = [new(shape, dtype) for shape in shapes]
        return arrays, arrays

    def target(self, name: str, field: str, array: Array) -> Array:
        """Return the array unchanged."""
        return array


class CpuProgram:
    """A program's moves, ready to be bound to operands.

    Args:
        source: the program; the engine provides its constants and scratch.

    Attributes:
        source: the program, with simplified moves.
        packed: the moves in the form of the compiled core; None if NumPy runs them.
    """

    def __init__(self, source: Program) -> None:
        self.source = source.with_moves(simplify(source.moves))
        self.packed: Any = None
        self._by_numpy: CompiledProgram | None = None
        if core.program is not None:
            with contextlib.suppress(core.program.UnfitError):
                self.packed = core.program.Compiled(self.source.moves, len(source.operands))
        if self.packed is None:
            from anydml.engines.numpy.engine import NumpyProgram

            self._by_numpy = NumpyProgram(self.source)

    @property
    def weight(self) -> int:
        """Approximate bytes of the program and of the arguments it was made from."""
        return FIXED_WEIGHT + MOVE_WEIGHT * len(self.source.moves) + self.source.constant_bytes

    def bind(self, operands: Sequence[Array]) -> Bound:
        """Bind the moves to the operands' addresses, or to NumPy views of the operands."""
        if self._by_numpy is not None:
            return self._by_numpy.bind(operands)
        buffers = (*operands, *scratch_arrays(self.source))
        bound: Bound = self.packed.bind(buffers, partial(_raise_index_error, self.source, buffers))
        return bound

    def run(self, operands: Sequence[Array]) -> None:
        """Bind and dispatch once."""
        self.bind(operands)()

    def __str__(self) -> str:
        moves = self.source.moves
        threads = get_num_threads() if self.packed is not None and self.packed.is_shared() else 1
        read, written = sum(move.bytes_read for move in moves), sum(move.bytes_written for move in moves)
        lines = [f"{self.source.name} on cpu: {read} B to read, {written} B to write, {count_noun(threads, 'thread')}"]
        if self.packed is None:
            lines.append("  by NumPy: there is no compiled code for it here")
        else:
            stages = self.packed.stages()
            lines += [_stage_line(*stage) for stage in stages[:MAX_SHOWN]]
            lines += [f"  … {len(stages) - MAX_SHOWN} more"] if len(stages) > MAX_SHOWN else []
        lines += [f"    {move}" for move in moves[:MAX_SHOWN]]
        lines += [f"    … {len(moves) - MAX_SHOWN} more"] if len(moves) > MAX_SHOWN else []
        return "\n".join(lines)


def _raise_index_error(program: Program, operands: Sequence[Array]) -> None:
    """Raise the error for the first index out of range among those that must be in range."""
    from anydml.engines.numpy.general import bind_refusals

    for refuse in bind_refusals(program, operands):
        refuse()


def _stage_line(names: Sequence[str], moves: int, is_past: bool, parts: int) -> str:
    """Describe a stage of the compiled core."""
    past = ", stored past the caches" if is_past else ""
    return f"  {', '.join(names)}: {count_noun(moves, 'move')} in {count_noun(parts, 'part')}{past}"
