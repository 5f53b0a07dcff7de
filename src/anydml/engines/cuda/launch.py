"""Plans with their addresses filled in: what is left for dispatch is the launch itself."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import triton.language as tl

from anydml.engines.cuda.fields import FIRST_ROW, Address, Argument, encoded
from anydml.engines.cuda.kernel import move_tiles
from anydml.engines.cuda.memory import Array, HostMemory, Memory, Stream, Upload
from anydml.engines.cuda.parts import Addresses
from anydml.engines.cuda.plan import LOOKUP_NUMBERS, Plan
from anydml.engines.cuda.schedule import WIDE_ENTRY

Work = Callable[[], object]

WARPS = 8

OPTIONS: dict[str, Any] = {"num_warps": WARPS, "enable_fp_fusion": True}
"""How kernels are compiled. They do no arithmetic on floats, but Triton warns where nothing is said about it."""

_WORDS = {1: tl.uint8, 2: tl.uint16, 4: tl.uint32, 8: tl.uint64}

MOST_KERNELS = 512
"""Kernels that are found at once; Triton, which has all of them, would take longer."""


class Table:
    """The columns of a plan in the device's memory.

    Attributes:
        address: where the kernel reads them; 0 where there are none.
        memory: the same numbers in host memory.
        upload: their way to the GPU; None where there are none, or where the kernel is interpreted.
    """

    __slots__ = ("address", "memory", "upload")

    def __init__(self, plan: Plan, addresses: Addresses, gpu: int | None) -> None:
        self.address = 0
        self.memory: Any = None
        self.upload: Upload | None = None
        if columns := plan.fields.columns:
            numbers = [[_number(value, addresses) for value in column] for column in columns]
            self.memory = np.array(numbers, np.int64)
            self.address = self.memory.ctypes.data
            if gpu is not None:
                self.upload = Upload(self.memory, gpu)
                self.address = self.upload.address


def arguments(plan: Plan, addresses: Addresses, table: int) -> dict[str, Any]:
    """The kernel's arguments, by name and in order."""
    numbers = [encoded(_number(argument, addresses)) for argument in plan.fields.arguments]
    count, dims, winners = len(plan.parts), len(plan.parts[0].sizes) - 1, plan.winners
    shape = plan.fields.shape
    return {
        "values": tuple(numbers),
        "shape": _constants(shape[::3] + shape[1::3] + shape[2::3]),
        "lookups": _constants(plan.lookups or (0,)),
        "table": table,
        "parts": count,
        "FIELDS": len(shape) // 3,
        "DIMS": dims,
        "LOOKUPS": len(plan.lookups) // LOOKUP_NUMBERS,
        "FIRST": FIRST_ROW + 3 * dims,
        "EACH": 5 + dims,
        "SLOTS": plan.fields.slots,
        "SEARCH": plan.search,
        "STEPS": (count - 1).bit_length() if plan.search == 2 else 0,
        "GROUP": plan.tiles.group,
        "ONE_GROUP": plan.tiles.group == count,
        "ONE_COLUMN_TILE": max(part.columns for part in plan.parts) <= plan.tiles.columns,
        "WHOLE_ROWS": all(part.rows % plan.tiles.rows == 0 for part in plan.parts),
        "WHOLE_COLUMNS": all(part.columns % plan.tiles.columns == 0 for part in plan.parts),
        "WORD": _WORDS[plan.word],
        "VECTOR": plan.vector,
        "LANES": plan.lanes,
        "ROWS": plan.tiles.rows,
        "COLUMNS": plan.tiles.columns,
        "FLAT": plan.is_flat,
        "INNER": plan.parts[0].inner,
        "WINNERS": 0 if not winners else 1 if winners.are_found else 2,
        "WINNER": tl.int64 if winners and winners.entry == WIDE_ENTRY else tl.int32,
        "IS_RUN": plan.parts[0].is_run and winners is not None,
        "IN_ROUNDS": winners is not None and winners.in_rounds,
        "INDEX": tl.uint64 if plan.wide_rows else tl.uint32,
        "OFFSET": tl.int64 if plan.wide_offsets else tl.int32,
    }


def _number(value: Argument, addresses: Addresses) -> int:
    return value.resolve(addresses) if isinstance(value, Address) else value


@lru_cache(1024)
def _constants(numbers: tuple[int, ...]) -> Any:
    return tuple(map(tl.constexpr, numbers))


class Kernel:
    """A plan's kernel, compiled and loaded, for a stream that is being captured can do neither; and its arguments.

    Args:
        plan: what to do.
        addresses: of operands; others may follow.
        gpu: the GPU's number, None for the interpreter.
    """

    __slots__ = ("_addresses", "_arguments", "_start")

    def __init__(self, plan: Plan, addresses: Addresses, gpu: int | None) -> None:
        named = arguments(plan, addresses, 1 << 40 if plan.fields.columns else 0)
        grid = (plan.tiles.programs, 1, 1)
        self._arguments = tuple(named.values())
        self._addresses = [(k, value) for k, value in enumerate(plan.fields.arguments) if isinstance(value, Address)]
        if gpu is None:
            self._start: Callable[..., object] = partial(move_tiles[grid], **OPTIONS)
        else:
            self._start = _compile(plan, named, gpu)[grid]

    def launch(self, addresses: Addresses, table: int) -> Work:
        """The launch of the kernel on PyTorch's current stream, for these addresses of operands and table."""
        values, shape, lookups, _, *others = self._arguments
        values = list(values)
        for k, address in self._addresses:
            values[k] = encoded(address.resolve(addresses))
        return partial(self._start, tuple(values), shape, lookups, table, *others)


def _compile(plan: Plan, named: dict[str, Any], gpu: int) -> Any:
    # Whether there is a table is in the shape of the fields.
    numbers, constants = named["values"], (value for name, value in named.items() if name.isupper())
    return _compiled(_Signature((gpu, len(numbers), plan.fields.shape, plan.lookups, *constants), named))


@dataclass(frozen=True, slots=True)
class _Signature:
    """A GPU and all that a kernel is compiled for, and arguments of such a kernel."""

    key: tuple[Hashable, ...]
    named: dict[str, Any] = field(compare=False)


@lru_cache(MOST_KERNELS)
def _compiled(signature: _Signature) -> Any:
    return move_tiles.warmup(**signature.named, **OPTIONS, grid=(1,))


class Dispatch:
    """All launches of a program, on the stream that its caller uses.

    Calling it uploads nothing, allocates nothing and waits for nothing, so that it can be captured in a CUDA graph,
    which may be replayed while this lives. Only where indices must not be outside does it wait for their check.

    Args:
        explain: what `str` says.
        launches: in order.
        tables: of the launches; kept.
        memory: of the GPU's that the launches need beside the operands; kept.
        before: raises IndexError where an index is outside and must not be; None where nothing is checked.
        on_host: does the moves on the host.
        operands: kept.
        stream: makes the caller's stream current.
    """

    def __init__(
        self, explain: Callable[[], str], launches: Sequence[Work], tables: Sequence[Table],
        memory: Sequence[Memory | HostMemory], before: Work | None, on_host: Work | None, operands: Sequence[Array],
        stream: Stream,
    ) -> None:  # fmt: skip
        self._explain = explain
        self._launches = launches
        self._tables = tables
        self._memory = [*(table.upload for table in tables if table.upload), *memory]
        self._before = before
        self._on_host = on_host
        self._operands = operands
        self._stream = stream

    def __call__(self) -> None:
        """Do the work.

        Raises:
            IndexError: an index is outside an axis where that is an error. Nothing was written.
        """
        with self._stream():
            if self._before:
                self._before()
            if self._on_host:
                self._on_host()
            for launch in self._launches:
                launch()
            for memory in self._memory:
                memory.keep()

    def __str__(self) -> str:
        return self._explain()
