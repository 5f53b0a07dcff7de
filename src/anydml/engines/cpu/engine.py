"""The CPU engine: moves are simplified and planned once; binding fills tables; a dispatch is a few kernel calls.

Small work is done by the compiled core, or NumPy, and never waits for a compiler. Larger work is done by kernels, and
shared between threads where that pays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from anydml import core
from anydml.engines.common import ProgramAtOnce, index_error, scratch_arrays
from anydml.engines.cpu import sharing_point
from anydml.engines.cpu.admission import Admission
from anydml.engines.cpu.compiler import NoCompilerError, import_kernels
from anydml.engines.cpu.kernel_call import KernelCall
from anydml.engines.cpu.large import quick_dispatch
from anydml.engines.cpu.launch import launch_of
from anydml.engines.cpu.plan import plan
from anydml.engines.cpu.pool import ALL, POOL, rounds_of
from anydml.engines.cpu.together import bind_several, grouped
from anydml.engines.numpy.general import bind_refusals
from anydml.engines.numpy.views import bind_views
from anydml.engines.protocol import Array, ArrayLayout, CompiledProgram, Launch
from anydml.memory.host import address_of
from anydml.moves import Fill, Move, Program, simplify, without_fills
from anydml.moves.move import Lookup
from anydml.text import counted

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.loading import Kernel

SMALL_BYTES = 64 << 10
SMALL_MOVES = 64
"""Work up to here has no kernels of its own."""

HELD_EFFORT = 256 << 10
"""Work that one thread does in the time of a plain copy of so much is one step of compiled code under the GIL: to let
others have it meanwhile would take a tenth of that time, and they wait much longer by themselves."""

SHARED_BYTES: int | None = None
"""Work that takes as long as a plain copy of so much is shared between threads; below, waking one costs more than it
saves. None is what this machine shows (see `sharing_point`)."""

FIXED_WEIGHT, MOVE_WEIGHT, WORD_WEIGHT = 1536, 896, 16
"""Bytes that a program keeps, about: in any case, for each move, and for each word of its tables."""

PACKING: Any = core.program
"""The compiled core's module for programs, or None."""

_Plan = tuple[tuple[KernelCall, ...] | None, "list[Kernel]"]
_NUMPY: _Plan = (None, [])
"""Steps and their kernels; no steps where the compiled core, or NumPy, has to do the work."""

_WARNED: list[str] = []
"""What was said of there being no kernels: it is said once."""


def program(name: str, moves: Sequence[Move], patient: bool = False) -> CpuProgram:
    """Compile moves between host operands; `name` and `patient` are as `CpuProgram` says."""
    return CpuProgram(name, simplify(moves), patient)


class CpuEngine:
    """Runs moves on host memory."""

    def compile(self, program: Program) -> CompiledProgram:
        """Simplify, and choose kernels, where nothing does it at once."""
        if program.at_once is not None:
            from anydml.engines.cpu.nonzero import argwhere

            if found := ProgramAtOnce.of(program, argwhere, "cpu"):
                return found
        return CpuProgram.of(program)


class CpuProgram:
    """Simplified moves with their kernels, ready to be bound to operands.

    Args:
        name: what the explanation calls them.
        moves: simplified moves.
        patient: True where they may never be run again: special kernels are compiled when they are.
        source: the program that they come from, if it has constants, scratch or indices to refuse.

    Attributes:
        moves: the simplified moves.
    """

    def __init__(
        self, name: str, moves: tuple[Move, ...], patient: bool = False, source: Program | None = None
    ) -> None:
        self.name = name
        self.moves = moves
        self._source = source
        self.bytes = sum(move.bytes_written for move in moves)
        small = self.bytes <= SMALL_BYTES and len(moves) <= SMALL_MOVES
        admission = Admission(patient)
        self._plan = _NUMPY if small else _compiled(moves, self.bytes, admission)
        self._is_postponed = admission.postponed
        self._has_run = False
        self._core: Any = None

    @property
    def steps(self) -> tuple[KernelCall, ...] | None:
        """The kernels chosen, or None where the compiled core, or NumPy, does the work."""
        return self._plan[0]

    @property
    def weight(self) -> int:
        """Bytes that the program and the arguments it was made from keep, about."""
        words = sum(step.template.size for step in self.steps or ())
        own = self._source.constant_bytes if self._source else 0
        return FIXED_WEIGHT + MOVE_WEIGHT * len(self.moves) + WORD_WEIGHT * words + own

    @classmethod
    def of(cls, source: Program, patient: bool = False) -> CpuProgram:
        """Compile a program, whose constants and scratch are the engine's to provide."""
        moves = simplify(source.moves)
        has_more = any(operand.role in ("constant", "scratch") for operand in source.operands[-1:])
        if not has_more and not any(move.has_lookups or isinstance(move.source, Fill) for move in moves):
            return cls(source.name, moves, patient)
        lowered = without_fills(source.with_moves(moves), by_elements=True)
        has_more = any(operand.role in ("constant", "scratch") for operand in lowered.operands[-1:])
        refuses = any(lookup.outside == "refuse" for move in lowered.moves for lookup in move.every_lookup())
        return cls(source.name, lowered.moves, patient, lowered if has_more or refuses else None)

    @property
    def shared(self) -> bool:
        """Whether a part of the work is large enough for more than one thread."""
        return any(is_shared for _, is_shared in grouped(self.steps or (), pays))

    def bind(self, operands: Sequence[Array], once: bool = False) -> Callable[[], object]:
        """Tables with the operands' addresses, or NumPy views, made once; what runs but `once` is not hastened."""
        calls: list[Callable[[], object]] = []
        if self._source:
            operands = (*operands, *scratch_arrays(self._source))
        steps, kernels = self._plan
        if steps is None and (packed := self._packed(len(operands))):
            outside = partial(index_error, self._source) if self._source else None
            bound: Callable[[], object] = packed.bind(operands, outside)
            return bound
        if self._source:
            calls += bind_refusals(self._source, operands)
        if steps is None:
            calls.append(bind_views(self.moves, operands))
            return calls[0] if len(calls) == 1 else partial(_run, calls)
        addresses = [*map(address_of, operands)]
        for group, is_shared in grouped(steps, pays):
            these = slice(group.start, group.stop)
            if len(group) > 1:
                calls.append(bind_several(steps[these], kernels[these], addresses, operands))
                continue
            (step,), (kernel,) = steps[these], kernels[these]
            table = step.table(addresses)
            call: Callable[[], object] = _Call(partial(kernel.run, address_of(table), 0, ALL), (table, *operands))
            if is_shared:
                call = POOL.bind(kernel, table, operands, step.claim_bytes, step.effort)
            if not once:
                rounds = rounds_of(step.claim_bytes) if is_shared else 0
                call = quick_dispatch(call, POOL, kernel, table, rounds, step.effort, operands)
            calls.append(call)
        return calls[0] if len(calls) == 1 else partial(_run, calls)

    def _packed(self, operand_count: int) -> Any:
        """The moves as the compiled core takes them; None where it is not there, or does not know such moves."""
        if self._core is None and PACKING is not None:
            try:
                self._core = PACKING.Compiled(self.moves, operand_count)
            except PACKING.UnfitError:
                self._core = False
        return self._core or None

    def run(self, operands: Sequence[Array]) -> None:
        """Bind and dispatch once."""
        if self._is_postponed and self._has_run:
            self._is_postponed = False
            self._plan = _compiled(self.moves, self.bytes, Admission())
        self.bind(operands, once=True)()
        self._has_run = True

    def launch(self, layouts: Sequence[ArrayLayout], inputs: int) -> Launch | None:
        """All of it as one step, by kernels however small it is; None where it needs more than kernels.

        Args:
            layouts: of the operands, inputs first.
            inputs: how many of them are inputs.

        Raises:
            NoCompilerError: there is no compiler.
        """
        steps, kernels = self._plan
        if steps is None:
            steps, kernels = _loaded(self.moves, self.bytes, Admission())
        if steps is None:
            return None
        is_held = sum(step.effort for step in steps) <= HELD_EFFORT and not self.shared
        is_small = self.bytes <= SMALL_BYTES or is_held
        if self._source and not is_small and any(operand.role == "scratch" for operand in self._source.operands):
            # Only what runs under the GIL runs once at a time, and so can do with one scratch.
            return None
        constants = scratch_arrays(self._source) if self._source else ()
        checks = _checks(self._source) if self._source else ()
        return launch_of(steps, kernels, layouts, inputs, constants, checks, is_small, pays, POOL)

    def __str__(self) -> str:
        return self._text(self.steps)

    def _text(self, steps: Sequence[KernelCall] | None) -> str:
        """What is moved, and by which kernels; None where it has none of its own."""
        threads = POOL.threads if self.shared else 1
        read = sum(move.bytes_read for move in self.moves)
        lines = [f"{self.name} on cpu: {read} B to read, {self.bytes} B to write, {counted(threads, 'thread')}"]
        if steps is None:
            reason = f"{self.bytes} B in {counted(len(self.moves), 'move')}: too small for a kernel of its own to pay"
            if self.bytes > SMALL_BYTES:
                reason = "there is no kernel of its own for it"
            lines.append(f"  at once: {reason}")
            lines += [f"    {move}" for move in self.moves]
        for step in steps or ():
            lines.append(f"  {step.kernel}: {step.reason}")
            lines += [f"    {move}" for move in step.moves]
        return "\n".join(lines)


def _compiled(moves: tuple[Move, ...], written: int, admission: Admission) -> _Plan:
    """Steps and their kernels; no steps where NumPy has to do the work."""
    try:
        return _loaded(moves, written, admission)
    except NoCompilerError as error:
        # Whatever the compiler lacks here, the work can be done without it.
        if not _WARNED:
            _WARNED.append(str(error))
            message = f"no kernel can be compiled here, so NumPy does the work: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        return _NUMPY


def _loaded(moves: tuple[Move, ...], written: int, admission: Admission) -> _Plan:
    import_kernels()
    steps = plan(moves, written, admission)
    kernels = [step.load() for step in steps or ()]
    if any(is_shared for _, is_shared in grouped(steps or (), pays)):
        POOL.prepare()
    return steps, kernels


def _checks(program: Program) -> list[tuple[Lookup, tuple[int, ...]]]:
    """The lookups that refuse indices, and the sizes of their moves."""
    return [
        (lookup, move.sizes)
        for move in program.moves
        if 0 not in move.sizes
        for lookup in move.every_lookup()
        if lookup.outside == "refuse"
    ]


def pays(effort: int) -> bool:
    """Whether work that takes as long as a plain copy of so many bytes is worth sharing."""
    if SHARED_BYTES is not None:
        return effort >= SHARED_BYTES
    return sharing_point.pays(effort)


class _Call:
    """A kernel call that keeps what its addresses point to."""

    __slots__ = ("_call", "_kept")

    def __init__(self, call: Callable[[], Any], kept: tuple[Array, ...]) -> None:
        self._call = call
        self._kept = kept

    def __call__(self) -> None:
        self._call()


def _run(calls: Sequence[Callable[[], object]]) -> None:
    for call in calls:
        call()
