"""The CPU engine: moves are simplified and packed once; bound to operands they run in one step of compiled code.

NumPy does what the compiled core does not hold, and everything where there is no such core.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from anydml import core
from anydml.engines.common import HostKernelProgram, scratch_arrays
from anydml.engines.cpu.nonzero import argwhere
from anydml.engines.cpu.threads import get_num_threads
from anydml.engines.protocol import Array, CompiledProgram
from anydml.moves import Program, simplify
from anydml.text import counted

FIXED_WEIGHT, MOVE_WEIGHT = 1536, 1400
"""Bytes that a program keeps, about: in any case, and for each move."""

SHOWN = 64
"""Moves and stages that an explanation shows at most."""

Bound = Callable[[], object]


class CpuEngine:
    """Runs moves on host memory."""

    def compile(self, program: Program) -> CompiledProgram:
        """Simplify and pack, where nothing does it at once."""
        return HostKernelProgram.of(program, argwhere, "cpu") or CpuProgram(program)


class CpuProgram:
    """A program's moves, ready to be bound to operands.

    Args:
        source: the program, whose constants and scratch are the engine's to provide.

    Attributes:
        source: the same, with simplified moves.
        packed: the moves as the compiled core takes them; None where NumPy does them.
    """

    def __init__(self, source: Program) -> None:
        self.source = source.with_moves(simplify(source.moves))
        self.packed: Any = None
        self._numpys: CompiledProgram | None = None
        if core.program is not None:
            with contextlib.suppress(core.program.UnfitError):
                self.packed = core.program.Compiled(self.source.moves, len(source.operands))
        if self.packed is None:
            from anydml.engines.numpy.engine import NumpyProgram

            self._numpys = NumpyProgram(self.source)

    @property
    def weight(self) -> int:
        """Bytes that the program and the arguments it was made from keep, about."""
        return FIXED_WEIGHT + MOVE_WEIGHT * len(self.source.moves) + self.source.constant_bytes

    def bind(self, operands: Sequence[Array]) -> Bound:
        """The moves between these operands' addresses, or NumPy's views of them."""
        if self._numpys is not None:
            return self._numpys.bind(operands)
        every = (*operands, *scratch_arrays(self.source))
        bound: Bound = self.packed.bind(every, partial(_refuse, self.source, every))
        return bound

    def run(self, operands: Sequence[Array]) -> None:
        """Bind and dispatch once."""
        self.bind(operands)()

    def __str__(self) -> str:
        moves = self.source.moves
        threads = get_num_threads() if self.packed is not None and self.packed.is_shared() else 1
        read, written = sum(move.bytes_read for move in moves), sum(move.bytes_written for move in moves)
        lines = [f"{self.source.name} on cpu: {read} B to read, {written} B to write, {counted(threads, 'thread')}"]
        if self.packed is None:
            lines.append("  by NumPy: there is no compiled code for it here")
        else:
            stages = self.packed.stages()
            lines += [_said(*stage) for stage in stages[:SHOWN]]
            lines += [f"  … {len(stages) - SHOWN} more"] if len(stages) > SHOWN else []
        lines += [f"    {move}" for move in moves[:SHOWN]]
        lines += [f"    … {len(moves) - SHOWN} more"] if len(moves) > SHOWN else []
        return "\n".join(lines)


def _refuse(program: Program, operands: Sequence[Array]) -> None:
    """Raise the error for the first index that may not be outside its axis."""
    from anydml.engines.numpy.general import bind_refusals

    for refuse in bind_refusals(program, operands):
        refuse()


def _said(names: Sequence[str], moves: int, is_past: bool, parts: int) -> str:
    """What the compiled core does at once, for people."""
    past = ", stored past the caches" if is_past else ""
    return f"  {', '.join(names)}: {counted(moves, 'move')} in {counted(parts, 'part')}{past}"
