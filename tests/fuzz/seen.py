"""Which kernels ran, and how many were compiled: a compilation takes as long as a hundred cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any


class TooManyKernels(BaseException):  # not even the engine, which works without kernels, may catch it
    """A case would take one more kernel than may be compiled."""


class Seen:
    """Counts cases by kernel.

    Attributes:
        counts: kernel, and whether with non-temporal stores, to the number of cases.
    """

    def __init__(self, most_kernels: int = 1 << 30) -> None:
        self.counts: Counter[str] = Counter()
        self._loaded: set[Any] = set()
        self._most = most_kernels

    def __len__(self) -> int:
        """How many kernels were compiled."""
        return len(self._loaded)

    def ran(self, what: str) -> None:
        """Count an engine, or a way without kernels."""
        self.counts[what] += 1

    def kernels(self, steps: Iterable[Any], streamed: bool) -> None:
        """Count the kernels of a plan.

        Raises:
            TooManyKernels: one of them would have to be compiled, and may not.
        """
        steps = list(steps)
        for step in steps:
            key = (step.kernel, getattr(step.load, "args", ()))
            if key not in self._loaded and len(self._loaded) >= self._most:
                raise TooManyKernels
            self._loaded.add(key)
        self.counts.update({f"{step.kernel}{', streamed' if streamed else ''}" for step in steps})
