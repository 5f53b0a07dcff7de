"""The GPU engine: an operator's simplified moves, planned for the alignment of the operands that are bound."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from anydml.backends.cuda.available import require_gpu
from anydml.backends.cuda.launch import Dispatch, Launch, Table
from anydml.backends.cuda.memory import Array, callers_stream, is_cupy
from anydml.backends.cuda.parts import Addresses, index_loads, launches, vector_size
from anydml.backends.cuda.plan import Plan, plan
from anydml.backends.device_array import DeviceArray, as_array, device_array, is_on_device, is_tensor
from anydml.backends.memory import address_of, element_dtype, window
from anydml.errors import BindingError
from anydml.moves import Access, Move, simplify
from anydml.operators.base import OperatorDesc
from anydml.tensor import Layout

SHOWN = 8
"""Moves that an explanation lists."""


class CudaBackend:
    """Runs moves on a GPU, or through Triton's interpreter on host memory.

    Args:
        name: ``"cuda"`` or ``"cuda:1"``.

    Raises:
        ValueError: what it takes is missing.
    """

    def __init__(self, name: str) -> None:
        self.gpu = require_gpu(name)

    def compile(self, desc: OperatorDesc, layouts: Sequence[Layout]) -> CudaProgram:
        """Lower and simplify."""
        tensors = (*desc.inputs, *desc.outputs)
        on_host = {n for n, (name, _) in enumerate(tensors) if name in desc.HOST}
        return CudaProgram(desc.OPERATOR, simplify(desc.moves(layouts)), on_host, self.gpu)

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
    """

    def __init__(self, name: str, moves: Sequence[Move], on_host: set[int], gpu: int | None) -> None:
        self.name = name
        self.gpu = gpu
        self._host_moves = [move for move in moves if move.destination.operand in on_host]
        self._launches = launches([move for move in moves if move.destination.operand not in on_host])
        self._plans: dict[tuple[int, int, tuple[int, ...]], tuple[Plan, Table | None]] = {}

    def bind(self, operands: Sequence[Array]) -> Dispatch:
        """Plan, upload what tables there are, and compile kernels. Dispatch may follow on any stream."""
        with callers_stream(operands, self.gpu):
            return self._bind(operands, waits_on_host=True)

    def _bind(self, operands: Sequence[Array], waits_on_host: bool) -> Dispatch:
        addresses = [address_of(operand) for operand in operands]
        launched = []
        plans = []
        for number, moves in enumerate(self._launches):
            planned, table = self._plan(number, moves, addresses)
            plans.append(planned)
            table = table or Table(planned, addresses, self.gpu)
            table.wait(on_host=waits_on_host)
            launched.append(Launch(planned, addresses, table, self.gpu))
        copies = [_host_copy(move, operands) for move in self._host_moves]
        return Dispatch(partial(self._text, plans), launched, copies, operands, self.gpu)

    def run(self, operands: Sequence[Array]) -> None:
        """Bind and dispatch once, on the caller's stream; the host waits for nothing."""
        with callers_stream(operands, self.gpu):
            self._bind(operands, waits_on_host=False)()

    def _plan(self, number: int, moves: Sequence[Move], addresses: Addresses) -> tuple[Plan, Table | None]:
        """The plan for operands of this alignment, and its table, if any operands of this alignment share it."""
        loads = index_loads(moves[0], addresses)
        key = number, vector_size(moves, addresses), loads
        if key not in self._plans:
            planned = plan(moves, key[1], loads)
            shares = not planned.fields.has_addresses_in_table
            self._plans[key] = planned, Table(planned, addresses, self.gpu) if shares else None
        return self._plans[key]

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
        aligned = [0] * (1 + max((_last_operand(move) for launch in self._launches for move in launch), default=0))
        plans = [plan(moves, vector_size(moves, aligned), index_loads(moves[0], aligned)) for moves in self._launches]
        return self._text(plans)


def _last_operand(move: Move) -> int:
    ends = (move.destination, move.source)
    return max(number for end in ends for number in (end.operand, *(lookup.operand for lookup in end.lookups)))


def _host_copy(move: Move, operands: Sequence[Array]) -> tuple[Array, Array]:
    dtype = element_dtype(move.element_size)

    def view(end: Access) -> Array:
        return window(operands[end.operand], end.offset, move.sizes, end.strides, dtype)

    return view(move.destination), view(move.source)
