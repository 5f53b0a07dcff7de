"""The base of writers of a plan's blocks, with the files that are open meanwhile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Self

from anydml.moves import Move
from anydml.stores.formats.store import Array
from anydml.stores.planning.regions import compile_moves
from anydml.stores.running.files import RunResources

MAX_COMPILED = 256
"""Maximum number of compiled programs that are cached."""


class BlocksWriter(ABC):
    """Reads, moves and writes blocks of a plan whose outputs exist in staging.

    Args:
        threads: the threads of the plan.
        buffers: the maximum number of buffers that are lent at once.
    """

    def __init__(self, threads: int, buffers: int) -> None:
        self._resources = RunResources(threads, buffers)
        self._compiled: dict[Hashable, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.__exit__()

    @abstractmethod
    def write(self, numbers: Iterable[int], finished: Callable[[int, int], None]) -> None:
        """Read, move and write blocks.

        Args:
            numbers: the numbers of the blocks.
            finished: called with the number and the bytes of each block that was written.
        """

    def _move(self, moves: tuple[Move, ...], operands: Sequence[Array]) -> None:
        """Run the moves of a block, compiled once, since most blocks of an array have the same moves."""
        key = moves, len(operands)
        # Two threads may compile the same moves at once; either result is fine.
        program = self._compiled.get(key)
        if program is None and moves:
            if len(self._compiled) >= MAX_COMPILED:
                self._compiled.clear()
            program = self._compiled[key] = compile_moves(moves, len(operands))
        if program is not None:
            program.run(operands)

    def sync(self) -> None:
        """Sync plain files to the disk, and close files of chunks, so that other machines see them."""
        self._resources.sync()
