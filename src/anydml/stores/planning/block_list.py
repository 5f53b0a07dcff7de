"""Blocks, compact lists of blocks, and limits of their length."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from typing import NamedTuple, overload

import numpy as np

from anydml.errors import BindingError
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Numbers

MAX_BLOCKS = 1 << 20
"""Maximum number of blocks of a plan: each one takes about 50 µs to plan, and a line in the journal."""

MAX_LISTED = 4 * MAX_BLOCKS
"""Maximum length of a list of blocks; more than `MAX_BLOCKS`, since a plan estimates large numbers of blocks."""

MAX_CHUNKS = 1 << 24
"""Maximum number of chunks that a plan reads, or writes; each is a file."""

MORE_MEMORY = "give more memory, or take less at once"


class Block(NamedTuple):
    """A part of a plan's outputs that is in memory at once.

    Attributes:
        group: number of its group of moves.
        operand: the file or array that the group's blocks divide.
        area: a box of this file or array.
    """

    group: int
    operand: int
    area: Box


class BlockList(Sequence[Block]):
    """Blocks, each stored as a row of integers.

    Args:
        name: the name of the program, for errors.
        rank: maximum number of axes of an area.

    Attributes:
        rows: the integers of all blocks.
    """

    def __init__(self, name: str, rank: int) -> None:
        self._name, self._width = name, 3 + 2 * rank
        self.rows = array("q")

    def areas(self, operand: int, rank: int) -> tuple[Numbers, Numbers]:
        """Return the areas of one operand, as an array of shape (areas, axes, 2), and the group of each area."""
        table = np.array(self.rows, np.int64).reshape(-1, self._width)
        table = table[table[:, 1] == operand]
        return table[:, 3 : 3 + 2 * rank].reshape(len(table), rank, 2), table[:, 0]

    def append(self, block: Block) -> None:
        """Add a block.

        Raises:
            BindingError: the list has too many blocks.
        """
        if len(self) >= MAX_LISTED:
            raise BindingError(f"{self._name}: the plan needs more than {MAX_LISTED} blocks: {MORE_MEMORY}", self._name)
        row = block.group, block.operand, len(block.area), *itertools.chain.from_iterable(block.area)
        self.rows.extend((*row, *(0,) * (self._width - len(row))))

    def __len__(self) -> int:
        return len(self.rows) // self._width

    @overload
    def __getitem__(self, index: int) -> Block: ...
    @overload
    def __getitem__(self, index: slice) -> list[Block]: ...
    def __getitem__(self, index: int | slice) -> Block | list[Block]:
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return [self[k] for k in numbers]
        group, operand, rank, *ends = self.rows[numbers * self._width : (numbers + 1) * self._width]
        return Block(group, operand, tuple(zip(ends[: 2 * rank : 2], ends[1 : 2 * rank : 2], strict=True)))


def check_count(name: str, count: int, noun: str, hint: str) -> None:
    """Refuse more blocks or chunks than a plan can list.

    Raises:
        BindingError: the count is too large.
    """
    max_count = MAX_BLOCKS if noun == "blocks" else MAX_CHUNKS
    if count > max_count:
        written = f"{count}" if count < 10**15 else f"about {float(count):.0e}"
        raise BindingError(f"{name}: the plan needs {written} {noun}, but the maximum is {max_count}: {hint}", name)
