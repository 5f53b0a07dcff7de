"""Lists of blocks: of a million no more memory than their numbers, and of more none, but a clear line."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, overload

from anydml.errors import BindingError

MOST_BLOCKS = 1 << 20
"""Blocks of a plan: each takes some 50 µs to plan, and is a line of the journal."""

MOST_CHUNKS = 1 << 24
"""Chunks that a plan reads, or writes; each is a file."""

MORE_MEMORY = "give more memory, or take less at once"

B = TypeVar("B")


class BlockList(Sequence[B], Generic[B]):
    """Blocks, each a row of numbers until it is asked for.

    Args:
        name: what errors call the program.
        make: a block of its row.
        width: numbers of a row.

    Attributes:
        rows: the numbers of all.
    """

    def __init__(self, name: str, make: Callable[[Sequence[int]], B], width: int) -> None:
        self._name, self._make, self._width = name, make, width
        self.rows = array("q")

    def append(self, row: Sequence[int]) -> None:
        """Add a block; shorter rows end with zeros.

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
    """Refuse so many blocks, or chunks, that a list of them would be no plan.

    Raises:
        BindingError: there are.
    """
    most = MOST_BLOCKS if what == "blocks" else MOST_CHUNKS
    if count > most:
        written = f"{count}" if count < 10**15 else f"about {float(count):.0e}"
        raise BindingError(f"{name}: it would take {written} {what}, and {most} are the most: {hint}", name)
