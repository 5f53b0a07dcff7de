"""Which kernels ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence


class Seen:
    """Counts cases by kernel.

    Attributes:
        counts: kernel, and whether with non-temporal stores, to the number of programs.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def ran(self, what: str) -> None:
        """Count an engine."""
        self.counts[what] += 1

    def kernels(self, stages: Iterable[tuple[Sequence[str], int, bool, int]]) -> None:
        """Count the kernels of a program, as the compiled core tells them."""
        for names, _, streamed, _ in stages:
            self.counts.update(f"{name}{', streamed' if streamed else ''}" for name in names)
