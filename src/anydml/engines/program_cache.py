"""A cache of compiled programs by hashable keys, within a budget of bytes.

There are two generations. A program that is used moves to the young one; when that reaches half the budget, the old one
is dropped with all programs that were not used since, and the young one takes its place. So a lookup is one step
without a lock, and interrupts, signal handlers and forks in the middle of it are harmless.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

BUDGET = 32 << 20
"""Approximate bytes of all cached programs of an engine."""

KEY_BYTES = 256
"""Approximate bytes of a key and its entry, without objects that the key shares with its program."""


class HasWeight(Protocol):
    """A program that knows its approximate size."""

    @property
    def weight(self) -> int:
        """Approximate size in bytes."""


Made = TypeVar("Made", bound=HasWeight)


class ProgramCache:
    """A cache of programs.

    Args:
        budget: approximate bytes of all programs.
    """

    def __init__(self, budget: int = BUDGET) -> None:
        self.budget = budget
        self.clear()

    def clear(self) -> None:
        """Remove all programs."""
        self._young: dict[Hashable, Any] = {}
        self._old: dict[Hashable, Any] = {}
        self._young_bytes = 0

    def find(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return the program of a key: a cached one, or a new one, which is cached unless it exceeds half the budget.

        Two threads may make the same program concurrently; either is used.
        """
        program: Made | None = self._young.get(key)
        if program is None:
            program = self._old.get(key)
            program = make() if program is None else program
            weight = program.weight + KEY_BYTES
            if 2 * weight > self.budget:
                return program
            if 2 * (self._young_bytes + weight) > self.budget:
                self._old, self._young, self._young_bytes = self._young, {}, 0
            self._young[key] = program
            self._young_bytes += weight
        return program
