"""A cache of compiled programs by function and layouts, within a budget of bytes.

There are two generations. A program that is used moves to the young one; when that reaches half the budget, the old one
is dropped with all programs that were not used since, and the young one takes its place. So a lookup is one step
without a lock, and interrupts, signal handlers and forks in the middle of it are harmless.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple, Protocol, TypeVar

BUDGET = 32 << 20
"""Approximate bytes of all cached programs of an engine."""

KEY_BYTES = 256
"""Approximate bytes of a key and its entry, without objects that the key shares with its program."""


class Weighed(Protocol):
    """A program that knows its approximate size."""

    @property
    def weight(self) -> int:
        """Approximate size in bytes."""


Maker = TypeVar("Maker", bound=Callable[..., Weighed])


class CacheInfo(NamedTuple):
    """Number of cached programs, and their approximate bytes."""

    programs: int
    bytes: int


class _Generation:
    """Programs by function and arguments, and their total size."""

    __slots__ = ("bytes", "programs")

    def __init__(self) -> None:
        self.programs: dict[Hashable, Weighed] = {}
        self.bytes = 0


class ProgramCache:
    """A cache of the programs of any number of functions.

    Args:
        budget: approximate bytes of all programs.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self._young, self._old = _Generation(), _Generation()

    def __call__(self, make: Maker) -> Maker:
        """Decorator: cache the programs that a function of hashable arguments returns.

        Two threads may make the same program concurrently; either is used. Every decorated function has `cache_clear`
        and `cache_info`, which apply to the whole cache.
        """

        @functools.wraps(make)
        def cached(*arguments: Hashable) -> Any:
            key = make, arguments
            found = self.get(key)
            if found is None:
                found = make(*arguments)
                self.keep(key, found)
            return found

        cached.cache_clear = self.clear  # type: ignore[attr-defined]  # the names of `functools.lru_cache`
        cached.cache_info = self.info  # type: ignore[attr-defined]  # as above
        return cached  # type: ignore[return-value]  # has `make`'s signature

    def get(self, key: Hashable) -> Any:
        """Return the program of a key, or None."""
        found = self._young.programs.get(key)
        if found is None and (found := self._old.programs.get(key)) is not None:
            self.keep(key, found)
        return found

    def clear(self) -> None:
        """Remove all programs."""
        self._young, self._old = _Generation(), _Generation()

    def info(self) -> CacheInfo:
        """Return the number of programs and their size."""
        generations = self._young, self._old
        return CacheInfo(sum(len(each.programs) for each in generations), sum(each.bytes for each in generations))

    def keep(self, key: Hashable, program: Weighed) -> None:
        """Cache a program, unless it exceeds the budget."""
        weight = program.weight + KEY_BYTES
        if 2 * weight > self.budget:
            return
        young = self._young
        if 2 * (young.bytes + weight) > self.budget:
            self._old, self._young = young, _Generation()
            young = self._young
        young.programs[key] = program
        young.bytes += weight
