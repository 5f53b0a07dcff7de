"""Writers of a plan's blocks: what is open while they are written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Self

from anydml.stores.running.files import Opened


class BlocksWriter(ABC):
    """Reads, moves and writes blocks of a plan whose outputs have been begun.

    Args:
        threads: of the plan.
    """

    def __init__(self, threads: int) -> None:
        self._opened = Opened(threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.__exit__()

    @abstractmethod
    def write(self, numbers: Iterable[int], finished: Callable[[int, int], None]) -> None:
        """Read, move and write blocks.

        Args:
            numbers: of the blocks.
            finished: called with the number and the bytes of each block that was written.
        """

    def sync(self) -> None:
        """Sync plain files to the disk; files of chunks are closed, so that other machines see them."""
        self._opened.sync()
