"""Coverage of the texts by cases: versions, types, attributes, omitted inputs, first and last valid values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


class Coverage:
    """Counts the features that cases reach.

    Args:
        reachable: the features that the cases of an operator must reach, by its name.

    Attributes:
        reached: the features that were reached, by operator.
        ambiguous: the number of ambiguous cases.
    """

    def __init__(self, reachable: Callable[[str], Sequence[str]]) -> None:
        self._reachable = reachable
        self.reached: dict[str, set[str]] = {}
        self.ambiguous = 0

    def counting(self, cases: Iterable[Any]) -> Iterator[Any]:
        """Yield cases, and count the features that they reach."""
        for case in cases:
            self.reached.setdefault(case.operator, set()).update(case.features)
            self.ambiguous += bool(getattr(case, "alternatives", ()))
            yield case

    @property
    def count(self) -> int:
        """The number of features that the operators have."""
        return sum(len(self._reachable(name)) for name in self.reached)

    def missing(self) -> list[str]:
        """Return features that were not reached, each with its operator."""
        return [
            f"{name}: {feature}"
            for name, reached in self.reached.items()
            for feature in self._reachable(name)
            if feature not in reached
        ]
