"""Compact lists of blocks, and limits of their length."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, overload

from anydml.errors import BindingError

MOST_BLOCKS = 1 << 20
"""Most blocks of a plan: each takes about 50 µs to plan, and a line of the journal."""

MOST_CHUNKS = 1 << 24
"""Most chunks that a plan reads, or writes; each is a file."""

MORE_MEMORY = "give more memory, or take less at once"

B = TypeVar("B")


class BlockList(Sequence[B], Generic[B]):
    """Blocks, each stored as a row of integers.

    Args:
        name: of the program, for errors.
        make: makes a block from its row.
        width: integers per row.

    Attributes:
        rows: the integers of all blocks.
    """

    def __init__(self, name: str, make: Callable[[Sequence[int]], B], width: int) -> None:
        self._name, self._make, self._width = name, make, width
        self.rows = array("q")

    def append(self, row: Sequence[int]) -> None:
        """Add a block; shorter rows are padded with zeros.

        Raises:
            BindingError: there are too many.
        """
        check_count(self._name, len(self) + 1, "blocks", MORE_MEMORY)
        self.rows.extend((*row, *(0,) * (self._width - len(row))))

    def __len__(self) -> int:
        return len(self.rows) // self._width

    @overload
    def __getitem__(self, index: int) -> B: ...
    @overload
    def __getitem__(self, index: slice) -> list[B]: ...
    def __getitem__(self, index: int | slice) -> B | list[B]:
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return [self[k] for k in numbers]
        return self._make(self.rows[numbers * self._width : (numbers + 1) * self._width])


def check_count(name: str, count: int, what: str, hint: str) -> None:
    """Refuse more blocks or chunks than a plan can list.

    Raises:
        BindingError: there are too many.
    """
    most = MOST_BLOCKS if what == "blocks" else MOST_CHUNKS
    if count > most:
        written = f"{count}" if count < 10**15 else f"about {float(count):.0e}"
        raise BindingError(f"{name}: it would take {written} {what}, and {most} are the most: {hint}", name)
