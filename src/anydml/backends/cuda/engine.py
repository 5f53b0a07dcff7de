"""The GPU engine: an operator's simplified moves, planned for the alignment of the operands that are bound."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from anydml.backends.cuda.available import require_gpu
from anydml.backends.cuda.launch import Dispatch, Kernel, Table
from anydml.backends.cuda.memory import Array, callers_stream, is_cupy
from anydml.backends.cuda.parts import Addresses, Alignment, launches
from anydml.backends.cuda.plan import Plan, plan
from anydml.backends.device_array import DeviceArray, as_array, device_array, is_on_device, is_tensor
from anydml.backends.memory import address_of, element_dtype, window
from anydml.errors import BindingError
from anydml.moves import Access, Move, Program, simplify

SHOWN = 8
"""Moves that an explanation lists."""

MOST_PLANS = 16
"""Alignments of operands that a program keeps plans for."""

FIXED_WEIGHT, MOVE_WEIGHT = 16 << 10, 3 << 10
"""Bytes that a program keeps, about: in any case, and for each move."""


class CudaBackend:
    """Runs moves on a GPU, or through Triton's interpreter on host memory.

    Args:
        name: ``"cuda"`` or ``"cuda:1"``.

    Raises:
        ValueError: what it takes is missing.
    """

    def __init__(self, name: str) -> None:
        self.gpu = require_gpu(name)

    def compile(self, program: Program) -> CudaProgram:
        """Simplify, and cut into launches."""
        on_host = {number for number, operand in enumerate(program.operands) if operand.is_on_host}
        return CudaProgram(program.name, simplify(program.moves), on_host, self.gpu, program.constants)

    def view(self, operator: str, name: str, buffer: Any) -> Any:
        """A buffer as the checks see it.

        Raises:
            BindingError: it does not lie on the GPU.
        """
        return as_operand(operator, name, buffer, self.gpu)


def as_operand(operator: str, name: str, buffer: Any, gpu: int | None) -> Any:
    """A buffer as the checks see it: a `DeviceArray`; where kernels are interpreted, arrays of the host's, or bytes.

    Raises:
        BindingError: it does not lie on the GPU.
    """
    if gpu is None:
        check_interpretable(operator, name, buffer)
        return as_array(buffer) if hasattr(buffer, "__array__") or is_on_device(buffer) else buffer
    try:
        array = device_array(buffer)
    except BindingError as error:
        raise BindingError(f"{operator}: {name}: {error}", operator, name, error.rule) from None
    if array.gpu != gpu:
        message = f"{operator}: {name} lies on cuda:{array.gpu}, but the operator runs on cuda:{gpu}"
        raise BindingError(message, operator, name, "all arrays lie on one device")
    return array


def check_interpretable(operator: str, name: str, array: Any) -> None:
    """The interpreter reads addresses as the host's: a real GPU's would end the process.

    Raises:
        BindingError: the array lies on a GPU.
    """
    owner: Any = array.owner if isinstance(array, DeviceArray) else array
    if is_cupy(owner) or (is_tensor(owner) and owner.device.type != "cpu"):
        message = f"{operator}: {name} lies on a GPU, but TRITON_INTERPRET is set: kernels run on host memory"
        raise BindingError(message, operator, name, "interpreted kernels read host memory")


class CudaProgram:
    """Simplified moves and their launches. ``str(program)`` says which way each launch is told of its parts, and why.

    Args:
        name: what the explanation calls the operator.
        moves: simplified moves.
        on_host: operands that lie in host memory; moves to them are done there.
        gpu: the GPU's number, None for the interpreter.
        constants: operands that follow those that are bound.
    """

    def __init__(
        self, name: str, moves: Sequence[Move], on_host: set[int], gpu: int | None, constants: Sequence[Array] = ()
    ) -> None:
        self.name = name
        self._constants = tuple(constants)
        self.gpu = gpu
        self._host_moves = [move for move in moves if move.destination.operand in on_host]
        self._launches = launches([move for move in moves if move.destination.operand not in on_host])
        self._alignments = [Alignment(moves) for moves in self._launches]
        self._plans: dict[tuple[int, int, tuple[int, ...]], _Ready] = {}

    @property
    def weight(self) -> int:
        """Bytes that the program keeps, about, when it is planned for operands of two alignments."""
        return FIXED_WEIGHT + MOVE_WEIGHT * sum(map(len, self._launches))

    def bind(self, operands: Sequence[Array]) -> Dispatch:
        """Plan, upload what tables there are, and compile kernels. Dispatch may follow on any stream."""
        operands = (*operands, *self._constants)
        stream = callers_stream(operands, self.gpu)
        addresses = [address_of(operand) for operand in operands]
        launched, plans, tables = [], [], []
        with stream():
            for number in range(len(self._launches)):
                ready = self._ready(number, addresses)
                table = ready.table or Table(ready.plan, addresses, self.gpu)
                if table.upload:
                    table.upload.wait(on_host=True)
                plans.append(ready.plan)
                tables.append(table)
                launched.append(ready.kernel.launch(addresses, table.address))
        copies = [_host_copy(move, operands) for move in self._host_moves]
        return Dispatch(partial(self._text, plans), launched, tables, copies, operands, stream)

    def run(self, operands: Sequence[Array]) -> None:
        """Bind and dispatch once, on the caller's stream; the host waits for nothing. No operand lies on the host."""
        addresses = [address_of(operand) for operand in operands]
        with callers_stream(operands, self.gpu)():
            for number in range(len(self._launches)):
                ready = self._ready(number, addresses)
                table = ready.table or Table(ready.plan, addresses, self.gpu)
                if table.upload:
                    table.upload.wait(on_host=False)
                ready.kernel.launch(addresses, table.address)()
                if table.upload:
                    table.upload.keep()

    def _ready(self, number: int, addresses: Addresses) -> _Ready:
        """What operands of this alignment share."""
        alignment = self._alignments[number]
        key = number, alignment.vector(addresses), alignment.loads(addresses)
        ready = self._plans.get(key)
        if ready is None:
            planned = plan(self._launches[number], *key[1:])
            kernel = Kernel(planned, addresses, self.gpu)
            table = None if planned.fields.has_addresses_in_table else Table(planned, addresses, self.gpu)
            ready = _Ready(planned, kernel, table)
            if len(self._plans) >= MOST_PLANS:
                self._plans = {}
            self._plans[key] = ready
        return ready

    def _text(self, plans: Sequence[Plan]) -> str:
        moves = [move for launch in self._launches for move in launch]
        where = "cuda" if self.gpu is not None else "cuda (Triton's interpreter)"
        lines = [f"{self.name} on {where}: {len(moves)} move(s) in {len(plans)} launch(es)"]
        lines += [f"  {planned}" for planned in plans]
        lines += [f"  {move}" for move in moves[:SHOWN]]
        lines += [f"  … {len(moves) - SHOWN} more"] if len(moves) > SHOWN else []
        lines += [f"  on the host: {move}" for move in self._host_moves]
        return "\n".join(lines)

    def __str__(self) -> str:
        aligned = defaultdict[int, int](int)
        pairs = zip(self._launches, self._alignments, strict=True)
        return self._text([plan(moves, each.vector(aligned), each.loads(aligned)) for moves, each in pairs])


class _Ready(NamedTuple):
    """A launch as planned for operands of one alignment; no table where every binding has its own."""

    plan: Plan
    kernel: Kernel
    table: Table | None


def _host_copy(move: Move, operands: Sequence[Array]) -> tuple[Array, Array]:
    dtype = element_dtype(move.element_size)

    def view(end: Access) -> Array:
        return window(operands[end.operand], end.offset, move.sizes, end.strides, dtype)

    return view(move.destination), view(move.source)
