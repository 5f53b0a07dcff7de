"""What all plans have in common: the blocks that a run writes, and where they lie until they have their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from anydml.stores.planning import Totals
from anydml.stores.staging import Content, Staging
from anydml.stores.zarr_staging import Stagings


class BlocksWriter(Protocol):
    """Files of a plan that are open, and what writes its blocks."""

    def write(self, numbers: Iterable[int], finished: Callable[[int, int], None]) -> None:
        """Read, move and write blocks.

        Args:
            numbers: of the blocks.
            finished: is called with the number and the bytes of each that was written.
        """

    def sync(self) -> None:
        """Bring what was written to the disk; of chunks, other machines see it."""


class Runnable(Protocol):
    """A plan."""

    name: str
    identities: dict[Path, tuple[Any, ...]]
    totals: Totals
    resumed: int
    overwrite: bool
    was_there: bool
    folder: Path | None
    others: dict[Path, Content]

    @property
    def inputs(self) -> Sequence[Any]:
        """Stores."""

    @property
    def outputs(self) -> Sequence[Any]:
        """Targets."""

    @property
    def blocks(self) -> Sequence[Any]:
        """In the order in which they are begun."""

    def digest(self) -> str:
        """What tells this plan from others."""

    def block_bytes(self, number: int) -> int:
        """Bytes that a block writes."""

    def staging(self) -> Staging | Stagings:
        """Where outputs lie until they have their names."""

    def blocks_writer(self) -> AbstractContextManager[BlocksWriter]:
        """What writes blocks of outputs that were begun."""
