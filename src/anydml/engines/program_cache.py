"""Programs that functions have made for layouts seen before, kept within one budget of bytes.

There are two generations. What is asked for moves to the young one; when that holds half the budget, the old one goes
with all that was not asked for since, and the young one takes its place. So a look-up is one step without a lock, an
interrupt, a signal handler or a fork in the midst of it does no harm, and the budget holds whatever the programs weigh.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol, TypeVar

BUDGET = 32 << 20
"""Bytes that the programs of all functions of an engine may take, about."""

KEY_BYTES = 256
"""What a key and its place weigh, about, but for what it has in common with its program."""


class Weighed(Protocol):
    """A program that knows about how many bytes it keeps."""

    @property
    def weight(self) -> int:
        """Bytes of memory, about."""


Maker = TypeVar("Maker", bound=Callable[..., Weighed])


class CacheInfo(NamedTuple):
    """What a cache holds: programs, and about how many bytes."""

    programs: int
    bytes: int


class _Generation:
    """Programs by function and arguments, and what they weigh together."""

    __slots__ = ("bytes", "programs")

    def __init__(self) -> None:
        self.programs: dict[Hashable, Weighed] = {}
        self.bytes = 0


class ProgramCache:
    """Programs of any number of functions.

    Args:
        budget: bytes that they may take together, about.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._young, self._old = _Generation(), _Generation()

    def __call__(self, make: Maker) -> Maker:
        """Let a function of hashable arguments that makes programs give those again that it has made.

        Two threads may make the same at the same time; either result serves. Every function that is decorated so has
        `cache_clear` and `cache_info`, which are the whole cache's.
        """

        @functools.wraps(make)
        def remembered(*arguments: Hashable) -> Any:
            key = make, arguments
            found = self.get(key)
            if found is None:
                found = make(*arguments)
                self.keep(key, found)
            return found

        remembered.cache_clear = self.clear  # type: ignore[attr-defined]  # as `functools.lru_cache` calls it
        remembered.cache_info = self.info  # type: ignore[attr-defined]  # likewise
        return remembered  # type: ignore[return-value]  # takes and gives what `make` does

    def get(self, key: Hashable) -> Any:
        """What is kept under a key, or None."""
        found = self._young.programs.get(key)
        if found is None and (found := self._old.programs.get(key)) is not None:
            self.keep(key, found)
        return found

    def clear(self) -> None:
        """Let go of all programs."""
        self._young, self._old = _Generation(), _Generation()

    def info(self) -> CacheInfo:
        """How many programs are kept, and what they weigh."""
        generations = self._young, self._old
        return CacheInfo(sum(len(each.programs) for each in generations), sum(each.bytes for each in generations))

    def keep(self, key: Hashable, program: Weighed) -> None:
        """Keep a program under a key, if it is not too large for that."""
        weight = program.weight + KEY_BYTES
        if 2 * weight > self.budget:
            return
        young = self._young
        if 2 * (young.bytes + weight) > self.budget:
            self._old, self._young = young, _Generation()
            young = self._young
        young.programs[key] = program
        young.bytes += weight
