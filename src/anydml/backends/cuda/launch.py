"""Plans with their addresses filled in: what is left for dispatch is the launch itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import triton.language as tl

from anydml.backends.cuda.fields import Address, Argument, Constant, encoded
from anydml.backends.cuda.kernel import move_tiles
from anydml.backends.cuda.memory import Array, Upload, callers_stream
from anydml.backends.cuda.parts import Addresses
from anydml.backends.cuda.plan import Plan

WARPS = 8

_WORDS = {1: tl.uint8, 2: tl.uint16, 4: tl.uint32, 8: tl.uint64}


class Table:
    """The columns of a plan in the device's memory.

    Attributes:
        address: where the kernel reads them; 0 where there are none.
        memory: the same numbers in host memory.
    """

    __slots__ = ("_upload", "address", "memory")

    def __init__(self, plan: Plan, addresses: Addresses, gpu: int | None) -> None:
        self.address = 0
        self.memory: Any = None
        self._upload: Upload | None = None
        if columns := plan.fields.columns:
            numbers = [[_number(value, addresses) for value in column] for column in columns]
            self.memory = np.array(numbers, np.int64)
            self.address = self.memory.ctypes.data
            if gpu is not None:
                self._upload = Upload(self.memory, gpu)
                self.address = self._upload.address

    def wait(self, on_host: bool) -> None:
        """Make the current stream, or the host and so every stream, wait until the table is there."""
        if self._upload is not None:
            self._upload.wait(on_host)


def arguments(plan: Plan, addresses: Addresses, table: int) -> dict[str, Any]:
    """The kernel's arguments, by name."""
    numbers = [_argument(argument, addresses) for argument in plan.fields.arguments]
    count, dims = len(plan.parts), len(plan.parts[0].sizes) - 1
    return {
        "values": tuple(numbers),
        "shape": tuple(map(tl.constexpr, plan.fields.shape)),
        "lookups": tuple(map(tl.constexpr, plan.lookups or (0,))),
        "table": table,
        "parts": count,
        "FIELDS": len(plan.fields.shape) // 3,
        "DIMS": dims,
        "LOOKUPS": len(plan.lookups) // 4,
        "FIRST": 8 + 3 * dims,
        "EACH": 5 + dims,
        "SLOTS": plan.fields.slots,
        "SEARCH": plan.search,
        "STEPS": (count - 1).bit_length(),
        "GROUP": plan.tiles.group,
        "ONE_GROUP": plan.tiles.group == count,
        "ONE_COLUMN_TILE": max(part.columns for part in plan.parts) <= plan.tiles.columns,
        "WORD": _WORDS[plan.word],
        "VECTOR": plan.vector,
        "LANES": plan.lanes,
        "ROWS": plan.tiles.rows,
        "COLUMNS": plan.tiles.columns,
        "INNER": plan.parts[0].inner,
        "INDEX": tl.uint64 if plan.wide_rows else tl.uint32,
        "OFFSET": tl.int64 if plan.wide_offsets else tl.int32,
    }


def _argument(argument: Argument, addresses: Addresses) -> Any:
    number = encoded(_number(argument, addresses))
    return tl.constexpr(number) if isinstance(argument, Constant) else number


def _number(value: int | Address | Constant, addresses: Addresses) -> int:
    if isinstance(value, Address):
        return value.resolve(addresses)
    return value.value if isinstance(value, Constant) else value


class Launch:
    """One launch of the kernel, ready to go. Nothing is uploaded or allocated when it is called."""

    def __init__(self, plan: Plan, addresses: Addresses, table: Table, gpu: int | None) -> None:
        self.table = table
        named = arguments(plan, addresses, table.address)
        named["num_warps"] = WARPS
        if gpu is not None:
            # Compiled and loaded now: a stream that is being captured can do neither.
            move_tiles.warmup(**named, grid=(1,))._init_handles()
        self._launch: Callable[[], object] = partial(move_tiles[(plan.tiles.programs,)], **named)

    def __call__(self) -> None:
        """Launch, on PyTorch's current stream."""
        self._launch()


class Dispatch:
    """All launches of an operator, on the stream that its caller uses.

    Calling it uploads nothing, allocates nothing and waits for nothing, so that it can be captured in a CUDA graph.
    """

    def __init__(
        self, explain: Callable[[], str], launches: Sequence[Launch], host_copies: Sequence[tuple[Array, Array]],
        operands: Sequence[Array], gpu: int | None,
    ) -> None:  # fmt: skip
        self._explain = explain
        self._launches = launches
        self._host_copies = host_copies
        self._operands = operands
        self._gpu = gpu

    def __call__(self) -> None:
        """Do the work."""
        for destination, source in self._host_copies:
            destination[...] = source
        with callers_stream(self._operands, self._gpu):
            for launch in self._launches:
                launch()

    def __str__(self) -> str:
        return self._explain()
