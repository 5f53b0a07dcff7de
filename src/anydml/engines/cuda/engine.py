"""The GPU engine: compiles programs to launches, and plans each launch for the alignment of its operands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from anydml.engines.cuda.available import require_gpu
from anydml.engines.cuda.launch import Dispatch, Kernel, Table, Work
from anydml.engines.cuda.memory import Array, callers_stream, is_captured
from anydml.engines.cuda.operands import OperandProvider, Operands
from anydml.engines.cuda.plan import LaunchPlan, plan
from anydml.engines.cuda.refusals import checks, raise_first, searches
from anydml.engines.cuda.schedule import FINDINGS, WINNERS, Launch, launches, table_bytes
from anydml.engines.cuda.vector_moves import Addresses, Alignment
from anydml.engines.numpy.general import bind_refusals
from anydml.engines.numpy.views import bind_views
from anydml.errors import BindingError
from anydml.memory.device_array import DeviceArray, as_array, device_array, is_cupy, is_on_device, is_tensor
from anydml.moves import Access, Move, Program, simplify, without_fills
from anydml.text import count_noun

MAX_LISTED_MOVES = 8
"""Maximum number of moves that an explanation lists."""

MAX_PLANS = 16
"""Maximum number of alignments of operands for which a program caches its plans."""

FIXED_WEIGHT = 16 << 10
"""Approximate bytes of a program without moves."""

MOVE_WEIGHT = 3 << 10
"""Approximate bytes of a program per move."""


class CudaEngine:
    """Runs moves on a GPU, or through Triton's interpreter on host memory.

    Args:
        name: ``"cuda"`` or ``"cuda:1"``.

    Raises:
        ValueError: Triton, PyTorch or the GPU is missing.
    """

    def __init__(self, name: str) -> None:
        self.gpu = require_gpu(name)

    def compile(self, program: Program) -> CudaProgram:
        """Simplify the moves and divide them into launches."""
        return CudaProgram.of(program, self.gpu)

    def view(self, operator: str, name: str, buffer: Any) -> Any:
        """Convert a buffer to an array; see `as_operand`.

        Raises:
            BindingError: the buffer is not on the GPU.
        """
        return as_operand(operator, name, buffer, self.gpu)


def as_operand(operator: str, name: str, buffer: Any, gpu: int | None) -> Any:
    """Convert a buffer to a `DeviceArray`; for the interpreter, to a host array or bytes.

    Raises:
        BindingError: the buffer is not on the GPU.
    """
    if gpu is None:
        check_interpretable(operator, name, buffer)
        return as_array(buffer) if hasattr(buffer, "__array__") or is_on_device(buffer) else buffer
    try:
        array = device_array(buffer)
    except BindingError as error:
        raise BindingError(f"{operator}: {name}: {error}", operator, name, error.rule) from None
    if array.gpu != gpu:
        message = f"{operator}: {name} is on cuda:{array.gpu}, but the operator runs on cuda:{gpu}"
        raise BindingError(message, operator, name, "all arrays must be on one device")
    return array


def check_interpretable(operator: str, name: str, array: Any) -> None:
    """Check that an array is in host memory: the interpreter would crash on a GPU's addresses.

    Raises:
        BindingError: the array is on a GPU.
    """
    owner: Any = array.owner if isinstance(array, DeviceArray) else array
    if is_cupy(owner) or (is_tensor(owner) and owner.device.type != "cpu"):
        message = f"{operator}: {name} lies on a GPU, but TRITON_INTERPRET is set: kernels run on host memory"
        raise BindingError(message, operator, name, "interpreted kernels read host memory")


class CudaProgram:
    """Simplified moves and their launches. ``str(program)`` explains how each launch gets its parts, and why.

    Args:
        name: the operator's name in explanations.
        moves: simplified moves without fills, in order.
        on_host: operands in host memory; moves between them run on the host.
        gpu: the GPU's number; None for the interpreter.
        source: the moves' program; None if the caller binds all operands.
    """

    def __init__(
        self, name: str, moves: Sequence[Move], on_host: set[int], gpu: int | None, source: Program | None = None
    ) -> None:
        self.name = name
        self.gpu = gpu
        self._source = source
        self._host_moves = [move for move in moves if move.destination.operand in on_host]
        device_moves = [move for move in moves if move.destination.operand not in on_host]
        self._checks = checks(device_moves)
        searched = searches(self._checks)
        scheduled = launches(device_moves)
        self._searches = range(len(searched))
        self._launches = [*searched, *scheduled]
        self._alignments = [Alignment(launch.moves) for launch in self._launches]
        self._plans: dict[tuple[int, int, tuple[int, ...]], _Ready] = {}
        tables = table_bytes(scheduled, WINNERS), table_bytes(searched, FINDINGS)
        self._supply = OperandProvider(source, tables, gpu)

    @classmethod
    def of(cls, source: Program, gpu: int | None) -> CudaProgram:
        """Compile a program. The engine allocates its constants and scratch.

        Raises:
            ValueError: a move is between the host and the GPU.
        """
        lowered = without_fills(source.with_moves(simplify(source.moves)))
        on_host = {n for n, operand in enumerate(lowered.operands) if operand.is_on_host}
        everywhere = {n for n, operand in enumerate(lowered.operands) if operand.role == "constant"}
        for move in lowered.moves:
            assert isinstance(move.source, Access)
            read = {move.source.operand, *(lookup.operand for lookup in move.all_lookups())} - everywhere
            if not (read <= on_host if move.destination.operand in on_host else read.isdisjoint(on_host)):
                raise ValueError(f"{source.name}: {move} is between the host and the GPU; let the caller copy it")
        return cls(source.name, lowered.moves, on_host, gpu, lowered)

    @property
    def weight(self) -> int:
        """Approximate bytes of the program with plans for two alignments."""
        return FIXED_WEIGHT + MOVE_WEIGHT * sum(len(launch.moves) for launch in self._launches)

    def bind(self, operands: Sequence[Array]) -> Dispatch:
        """Plan, upload tables and constants, allocate scratch, compile kernels. The dispatch may run on any stream.

        Args:
            operands: inputs and outputs; all operands if there is no source.
        """
        stream = callers_stream(operands, self.gpu)
        launched, plans, tables = [], [], []
        with stream():
            bound = self._supply.operands(operands)
            for memory in bound.memory:
                memory.wait(on_host=True)
            for launch_number in range(len(self._launches)):
                ready, table, launch = self._launch(launch_number, bound.addresses)
                if table.upload:
                    table.upload.wait(on_host=True)
                plans.append(ready.plan)
                tables.append(table)
                launched.append(launch)
        searches = [launched[launch_number] for launch_number in self._searches]
        before = partial(self._check, searches, bound) if searches else None
        on_host = None
        if self._host_moves:
            refusals = []
            if self._source:
                refusals = bind_refusals(self._source.with_moves(self._host_moves), bound.arrays)
            on_host = partial(_run_all, [*refusals, bind_views(self._host_moves, bound.arrays)])
        explain, work = partial(self._text, plans), launched[len(searches) :]
        return Dispatch(explain, work, tables, bound.memory, before, on_host, operands, stream)

    def run(self, operands: Sequence[Array]) -> None:
        """Bind and dispatch once, asynchronously, on the caller's stream. No operand may be on the host."""
        with callers_stream(operands, self.gpu)():
            bound = self._supply.operands(operands)
            for memory in bound.memory:
                memory.wait(on_host=False)
            in_use = [*bound.memory]
            for launch_number in range(len(self._launches)):
                _, table, launch = self._launch(launch_number, bound.addresses)
                if table.upload:
                    table.upload.wait(on_host=False)
                    in_use.append(table.upload)
                launch()
                if launch_number == len(self._searches) - 1:
                    self._check([], bound)
            for memory in in_use:
                memory.keep()

    def _check(self, searches: Sequence[Work], bound: Operands) -> None:
        """Launch `searches` for indices out of range, then wait for the results of all searches, and read them.

        Raises:
            IndexError: an index is out of range.
            RuntimeError: a CUDA graph is being captured, so the host cannot wait.
        """
        if is_captured(self.gpu):
            message = (
                "indices that may not be out of range are checked on the host, which a CUDA graph cannot wait for: "
            )
            message += "functions with a word for out_of_range take others than 'error'"
            raise RuntimeError(f"{self.name}: {message}")
        findings = bound.findings
        assert findings
        assert self._source
        for search in searches:
            search()

        def read(launch: Launch) -> bytes:
            alignment = Alignment(launch.moves)
            planned = plan(launch, alignment.vector(bound.addresses), alignment.loads(bound.addresses))
            Kernel(planned, bound.addresses, self.gpu).launch(bound.addresses, 0)()
            return findings.read().tobytes()

        raise_first(self._source, self._checks, findings.read().view(np.int64), read)

    def _launch(self, launch_number: int, addresses: Sequence[int]) -> tuple[_Ready, Table, Work]:
        """Return a launch for operands at these addresses."""
        ready = self._ready(launch_number, addresses)
        table = ready.table or Table(ready.plan, addresses, self.gpu)
        return ready, table, ready.kernel.launch(addresses, table.address)

    def _ready(self, launch_number: int, addresses: Addresses) -> _Ready:
        """Return the plan and kernel for this alignment of operands; cached."""
        alignment = self._alignments[launch_number]
        key = launch_number, alignment.vector(addresses), alignment.loads(addresses)
        ready = self._plans.get(key)
        if ready is None:
            planned = plan(self._launches[launch_number], *key[1:])
            kernel = Kernel(planned, addresses, self.gpu)
            table = None if planned.fields.has_addresses_in_table else Table(planned, addresses, self.gpu)
            ready = _Ready(planned, kernel, table)
            if len(self._plans) >= MAX_PLANS * len(self._launches):
                self._plans = {}
            self._plans[key] = ready
        return ready

    def _text(self, plans: Sequence[LaunchPlan]) -> str:
        moves = [move for launch in self._launches for move in launch.moves if _is_of_program(launch)]
        where = "cuda" if self.gpu is not None else "cuda (Triton's interpreter)"
        lines = [f"{self.name} on {where}: {count_noun(len(moves), 'move')} in {count_noun(len(plans), 'launch')}"]
        lines += [f"  {planned}" for planned in plans]
        lines += [f"  {move}" for move in moves[:MAX_LISTED_MOVES]]
        lines += [f"  … {len(moves) - MAX_LISTED_MOVES} more"] if len(moves) > MAX_LISTED_MOVES else []
        lines += [f"  on the host: {move}" for move in self._host_moves]
        lines += [f"  {size} B of memory on the GPU: {purpose}" for purpose, size in self._supply.sizes() if size]
        return "\n".join(lines)

    def __str__(self) -> str:
        # Address 0 is aligned to everything.
        aligned = defaultdict[int, int](int)
        pairs = zip(self._launches, self._alignments, strict=True)
        return self._text(
            [plan(launch, alignment.vector(aligned), alignment.loads(aligned)) for launch, alignment in pairs]
        )


class _Ready(NamedTuple):
    """A launch, planned for one alignment of operands; `table` is None if every binding needs a table of its own."""

    plan: LaunchPlan
    kernel: Kernel
    table: Table | None


def _is_of_program(launch: Launch) -> bool:
    """Whether a launch runs moves of the program, not of the engine's own tables."""
    return launch.moves[0].destination.operand >= 0


def _run_all(calls: Sequence[Work]) -> None:
    for call in calls:
        call()
