"""Kernels and tables of planned launches, and their dispatch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
import triton.language as tl

from anydml.engines.cuda.fields import FIRST_ROW_FIELD, Address, Argument, encode_number
from anydml.engines.cuda.kernel import move_tiles
from anydml.engines.cuda.memory import Array, HostMemory, Memory, Stream, Upload
from anydml.engines.cuda.plan import LOOKUP_NUMBERS, LaunchPlan
from anydml.engines.cuda.schedule import WIDE_ENTRY
from anydml.engines.cuda.vector_moves import Addresses

Work = Callable[[], object]

WARPS = 8

OPTIONS: dict[str, Any] = {"num_warps": WARPS, "enable_fp_fusion": True}
"""Options of the compilation. Kernels do no float arithmetic, but Triton warns if `enable_fp_fusion` is missing."""

_WORDS = {1: tl.uint8, 2: tl.uint16, 4: tl.uint32, 8: tl.uint64}

MAX_KERNELS = 512
"""Maximum number of cached kernels; a look-up in Triton's own cache takes longer."""


class Table:
    """The columns of a plan in the device's memory.

    Attributes:
        address: the table's address for the kernel; 0 if there is none.
        memory: the table in host memory.
        upload: the upload to the GPU; None if there is no table, or for the interpreter.
    """

    __slots__ = ("address", "memory", "upload")

    def __init__(self, plan: LaunchPlan, addresses: Addresses, gpu: int | None) -> None:
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


def arguments(plan: LaunchPlan, addresses: Addresses, table: int) -> dict[str, Any]:
    """Return the kernel's arguments, by name and in order."""
    numbers = [encode_number(_number(argument, addresses)) for argument in plan.fields.arguments]
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
        "FIRST": FIRST_ROW_FIELD + 3 * dims,
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
        "WINNERS": 0 if not winners else 1 if winners.only_records else 2,
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
    """A plan's kernel with its arguments, compiled and loaded in advance, since neither is possible during a capture.

    Args:
        plan: the plan.
        addresses: the operands' addresses, which may differ in later launches.
        gpu: the GPU's number; None for the interpreter.
    """

    __slots__ = ("_addresses", "_arguments", "_start")

    def __init__(self, plan: LaunchPlan, addresses: Addresses, gpu: int | None) -> None:
        named = arguments(plan, addresses, 1 << 40 if plan.fields.columns else 0)
        grid = (plan.tiles.programs, 1, 1)
        self._arguments = tuple(named.values())
        self._addresses = [(k, value) for k, value in enumerate(plan.fields.arguments) if isinstance(value, Address)]
        if gpu is None:
            self._start: Callable[..., object] = partial(move_tiles[grid], **OPTIONS)
        else:
            self._start = compiled_kernel(plan, named, gpu)[grid]

    def launch(self, addresses: Addresses, table: int) -> Work:
        """Return a function that launches the kernel on PyTorch's current stream, for these addresses."""
        values, shape, lookups, _, *remaining = self._arguments
        values = list(values)
        for k, address in self._addresses:
            values[k] = encode_number(address.resolve(addresses))
        return partial(self._start, tuple(values), shape, lookups, table, *remaining)


def compiled_kernel(plan: LaunchPlan, named: dict[str, Any], gpu: int) -> Any:
    """Return Triton's compiled kernel of a plan for a GPU; cached."""
    # The fields' shape determines whether there is a table.
    numbers, constants = named["values"], (value for name, value in named.items() if name.isupper())
    return _compile(_Signature((gpu, len(numbers), plan.fields.shape, plan.lookups, *constants), named))


@dataclass(frozen=True, slots=True)
class _Signature:
    """The key of a compiled kernel: GPU and constants; and sample arguments."""

    key: tuple[Hashable, ...]
    named: dict[str, Any] = field(compare=False)


@lru_cache(MAX_KERNELS)
def _compile(signature: _Signature) -> Any:
    return move_tiles.warmup(**signature.named, **OPTIONS, grid=(1,))


class Dispatch:
    """All launches of a program, on the caller's stream.

    Calling it uploads nothing, allocates nothing and waits for nothing, so it can be captured in a CUDA graph, which
    may be replayed during this object's lifetime. Only checks of indices make the host wait.

    Args:
        explain: returns the text of `str`.
        launches: the launches, in order.
        tables: the launches' tables, kept alive.
        memory: GPU memory of the launches beside the operands, kept alive.
        before: raises IndexError if an index is out of range; None if nothing is checked.
        on_host: runs the moves on the host.
        operands: the operands, kept alive.
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
        """Run all launches.

        Raises:
            IndexError: an index is out of range. Nothing was written.
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
