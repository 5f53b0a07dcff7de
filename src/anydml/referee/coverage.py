"""What cases reach of what the texts list: versions, types, attributes, omissions, first and last valid values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anydml.referee.cases import Case
from anydml.referee.features import reachable
from anydml.referee.operators import OPERATORS


class Coverage:
    """Counts what cases reach.

    Attributes:
        reached: the features that were reached, by operator.
        ambiguous: the number of ambiguous cases.
    """

    def __init__(self) -> None:
        self.reached: dict[str, set[str]] = {}
        self.ambiguous = 0

    def counting(self, cases: Iterable[Case]) -> Iterator[Case]:
        """Yield cases and count what they reach."""
        for case in cases:
            self.reached.setdefault(case.node.operator, set()).update(case.features)
            self.ambiguous += bool(case.alternatives)
            yield case

    @property
    def count(self) -> int:
        """The number of features that the operators have."""
        return sum(len(reachable(OPERATORS[name])) for name in self.reached)

    def missing(self) -> list[str]:
        """Features that were not reached, each with its operator."""
        return [
            f"{name}: {feature}"
            for name, reached in self.reached.items()
            for feature in reachable(OPERATORS[name])
            if feature not in reached
        ]
