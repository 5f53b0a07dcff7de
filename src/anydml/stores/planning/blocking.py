"""Blocking: the division of a plan's outputs into blocks that fit into its memory."""

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
"""Number of threads of a plan: while one moves elements, others read and write."""

MAX_COUNTED_BLOCKS = 1024
"""Maximum number of blocks of an array that are all counted before a plan runs."""

SAMPLED_BLOCKS = 128
"""Number of blocks that are counted instead, if there are more."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Bytes and requests of a plan.

    Attributes:
        bytes_read: bytes that are read, including repeated reads.
        bytes_read_again: bytes of repeated reads.
        bytes_written: bytes of elements that are written.
        reads: number of read requests.
        writes: number of write requests.
        block_bytes: bytes of the largest block.
    """

    bytes_read: int = 0
    bytes_read_again: int = 0
    bytes_written: int = 0
    reads: int = 0
    writes: int = 0
    block_bytes: int = 0


class Summary(NamedTuple):
    """Descriptions of the blocks of a plan.

    Attributes:
        arrays: the bytes and requests of inputs and outputs, and the number of blocks.
        read_again: describes the bytes that are read more than once.
        buffer_bytes: the bytes of all buffers.
        buffers: a list of these buffers.
    """

    arrays: str
    read_again: str
    buffer_bytes: int
    buffers: str


class Blocking(ABC):
    """The blocks of a plan.

    Attributes:
        name: the name of the program, for errors.
        threads: number of threads that read, move and write.
        count: the number of blocks; an estimate if `is_estimate`.
        totals: the bytes and requests of all blocks; an estimate if `is_estimate`.
    """

    name: str
    threads: int
    count: int
    totals: Totals
    is_estimate = False
    _blocks: BlockList

    @property
    def blocks(self) -> BlockList:
        """The blocks in the order in which they begin; long lists are made on first use."""
        if self.is_estimate:
            self._list_blocks(None)
        return self._blocks

    @abstractmethod
    def _list_blocks(self, max_counted: int | None) -> None:
        """List and count the blocks; of an array with more than `max_counted` blocks, a sample."""

    @property
    @abstractmethod
    def program(self) -> Program:
        """The moves between whole arrays."""

    @abstractmethod
    def block_bytes(self, block_number: int) -> int:
        """Return the bytes that a block writes."""

    @abstractmethod
    def state(self) -> Iterator[bytes]:
        """Return bytes that identify these blocks among those of other plans."""

    @abstractmethod
    def summary(self) -> Summary:
        """Describe the blocks."""

    def with_paths(self, change: Callable[[Path], Path]) -> Self:
        """Return the same blocks of files under other paths."""
        return self
