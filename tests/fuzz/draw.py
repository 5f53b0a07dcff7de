"""Where decisions come from: a seed, for long runs, or Hypothesis, which can shrink what fails."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from hypothesis import strategies as st


class Draw(Protocol):
    """Makes decisions; low numbers and early choices are the simple ones."""

    def integer(self, low: int, high: int) -> int:
        """A number, both ends included."""

    def pick(self, choices: Sequence[Any]) -> Any:
        """One of these."""


class Seeded:
    """Decisions from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def pick(self, choices: Sequence[Any]) -> Any:
        return self._random.choice(choices)


class Drawn:
    """Decisions from Hypothesis."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def pick(self, choices: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(choices))
