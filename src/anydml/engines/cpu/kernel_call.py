"""A kernel call in the making: its table with the addresses left out, and how much work a thread claims at a time."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from anydml.moves import Move

if TYPE_CHECKING:
    from anydml.engines.cpu.kernels.loading import Kernel

CHUNK, LEAST_CHUNK, FEW_CHUNKS = 128 << 10, 16 << 10, 16
"""Bytes that a thread claims at a time, about; where that would leave a thread that comes late nothing to do, work is
cut into this many chunks, none of them smaller than the second figure."""

MOST_UNITS = 1 << 20
"""Units of a claim at most, so that no number of claims overflows."""

PIECES = 64
MOST_BYTES = 512 << 10
"""Pieces, about, that large work is cut into, so that each thread keeps to a stretch of memory of its own for a while;
bytes of a piece at most, so that a caller does not sleep while it waits for a worker's last one, and that Ctrl-C is
soon noticed."""

ITEM_BYTES = {
    "rows": 128,
    "elements": 18,
    "lookup rows": 128,
    "lookup elements": 56,
    "lookup lines": 8,
    "addressed": 128,
    "in_line": 24,
    "row_blocks": 64,
    "turn": 6,
    "table": 18,
}
"""What each row or element costs a kernel beside its bytes: bytes that a plain copy moves meanwhile, about."""

Word = int | tuple[int, int]
"""A word of a table: a number, or an operand and a byte offset in it."""


class KernelCall(NamedTuple):
    """One kernel call, but for the addresses.

    Attributes:
        kernel: name of the kernel, for people and tests.
        load: compiles the kernel, or takes it from the disk.
        reason: why this kernel.
        moves: what it does, in one box.
        bytes_written: the bytes that it writes.
        effort: the bytes that a plain copy writes in the same time, about.
        template: the table's 64-bit words, with offsets where addresses go.
        operands: whose address is added to each word; −1 for none.
        stage: steps of one stage do not depend on each other, and follow each other in a program.
    """

    kernel: str
    load: Callable[[], Kernel]
    reason: str
    moves: tuple[Move, ...]
    bytes_written: int
    effort: int
    template: np.ndarray[Any, np.dtype[np.uint64]]
    operands: np.ndarray[Any, np.dtype[np.int64]]
    stage: int = 0

    @property
    def claim_bytes(self) -> int:
        """The bytes that one claim writes, about."""
        units, claimed = int(self.template[0]), int(self.template[1])
        return self.bytes_written * claimed // max(units, 1)

    def table(self, addresses: Iterable[int]) -> np.ndarray[Any, np.dtype[np.uint64]]:
        """The table for operands at these addresses."""
        # Operand −1 is the 0 at the end.
        return self.template + np.array([*addresses, 0], np.uint64).take(self.operands)


def kernel_call(
    kernel: str, load: Callable[[], Kernel], reason: str, moves: Sequence[Move], words: list[Word]
) -> KernelCall:
    """The step whose table has these words."""
    items = math.prod(moves[0].sizes)
    written = items * sum([move.element_size for move in moves])
    effort = written + items * len(moves) * ITEM_BYTES.get(kernel, 0)
    template: list[int] = [word[1] if type(word) is tuple else word for word in words]  # type: ignore[misc]
    operands = [word[0] if type(word) is tuple else -1 for word in words]
    # A third of the time that NumPy takes to read a list.
    words_of, operands_of = (
        np.frombuffer(array("q", template), np.uint64),
        np.frombuffer(array("q", operands), np.int64),
    )
    return KernelCall(kernel, load, reason, tuple(moves), written, effort, words_of, operands_of)


def units_per_claim(units: int, moved: int) -> int:
    """Units a claim, where all units together move so many bytes."""
    return min(max(1, units * chunk_bytes(moved) // max(moved, 1)), MOST_UNITS)


def chunk_bytes(moved: int) -> int:
    """Bytes of each piece that so many are cut into: neither too small, nor too few of them."""
    least = min(max(LEAST_CHUNK, moved // FEW_CHUNKS), CHUNK)
    return min(max(least, moved // PIECES), MOST_BYTES)
