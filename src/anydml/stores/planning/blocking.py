"""Blocking: the division of a plan's outputs into blocks that fit in its memory."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from anydml.moves import Program
from anydml.stores.planning.block_list import BlockList

THREADS = min(4, max(2, os.cpu_count() or 2))
"""Threads of a plan: while one moves elements, others read and write."""

MAX_COUNTED_BLOCKS, SAMPLED_BLOCKS = 1024, 128
"""Number of blocks of an array up to which all are counted before a plan runs; and size of the sample of more."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Bytes and requests of a plan.

    Attributes:
        bytes_read: from all inputs.
        bytes_read_again: those of them that had been read before.
        bytes_written: the bytes of elements.
        reads: requests.
        writes: requests.
        block_bytes: the bytes of the largest block.
    """

    bytes_read: int = 0
    bytes_read_again: int = 0
    bytes_written: int = 0
    reads: int = 0
    writes: int = 0
    block_bytes: int = 0


class Summary(NamedTuple):
    """Texts on the blocks of a plan.

    Attributes:
        arrays: what is read and written, and in how many blocks.
        read_again: describes the bytes that are read more than once.
        buffer_bytes: the bytes of all buffers.
        buffers: which those are.
    """

    arrays: str
    read_again: str
    buffer_bytes: int
    buffers: str


class Blocking(ABC):
    """The blocks of a plan.

    Attributes:
        name: the name of the program, for errors.
        threads: that read, move and write at once.
        count: the number of the blocks; an estimate where `is_estimate`.
        totals: likewise.
    """

    name: str
    threads: int
    count: int
    totals: Totals
    is_estimate = False
    _blocks: BlockList

    @property
    def blocks(self) -> BlockList:
        """The blocks in the order in which they are begun; many are listed on first use only."""
        if self.is_estimate:
            self._list(None)
        return self._blocks

    @abstractmethod
    def _list(self, few: int | None) -> None:
        """List and count the blocks; of an array with more than `few`, only some that stand for all."""

    @property
    @abstractmethod
    def program(self) -> Program:
        """The moves between whole arrays."""

    @abstractmethod
    def block_bytes(self, number: int) -> int:
        """Bytes that a block writes."""

    @abstractmethod
    def state(self) -> Iterator[bytes]:
        """Bytes that distinguish these blocks from those of other plans."""

    @abstractmethod
    def summary(self) -> Summary:
        """Text for people."""

    def with_paths(self, change: Callable[[Path], Path]) -> Self:
        """The same blocks of files under other paths."""
        return self
