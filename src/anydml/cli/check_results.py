"""The results of `anydml check`: problems, and nodes that were not checked."""

from __future__ import annotations

import dataclasses
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from anydml.text import count_noun, escape_controls

if TYPE_CHECKING:
    from anydml.feature_level import FeatureLevel


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """A problem, or a node that was not checked.

    Attributes:
        node: the subject of the result: a node of a graph, a dispatchable or a JSON path; empty for the whole file.
        location: prefix of the lines; None if the message names the node itself.
        field: field of the operator.
        operator: name of the operator.
        message: the problem, or why the node was not checked.
        rule: the violated rule; empty if the message contains it, None if the node was not checked.
        needs: the feature level that allows it, if any.
        line: line of the file, from 1; None if unknown.
        verdict: the verdict on a node without a problem.
    """

    node: str
    location: str | None
    field: str | None = None
    operator: str | None = None
    message: str = ""
    rule: str | None = None
    needs: str | None = None
    line: int | None = None
    verdict: str = "not checked"

    @property
    def is_problem(self) -> bool:
        """Whether the result is a problem."""
        return self.rule is not None

    @property
    def remedy(self) -> str:
        """A sentence that names the feature level that allows it."""
        return f"{self.needs} allows it" if self.needs else "no feature level allows it"

    def lines(self, model: str) -> Iterator[str]:
        """Yield the result as text."""
        if self.rule is None:
            yield escape_controls(f"{model}: {self.location}: {self.verdict}: {self.message}")
            return
        yield self.head(model)
        yield from self.rule_lines()

    def head(self, model: str) -> str:
        """Return a problem's first line."""
        # Messages about ONNX's rules contain the node.
        location = [model] if self.location is None else [model, f"{self.location}.{self.field}", self.operator or ""]
        if self.line is not None:
            location.insert(1, f"line {self.line}")
        return escape_controls(": ".join([*location, self.message]))

    def rule_lines(self) -> Iterator[str]:
        """Yield the rule that a problem breaks, and what allows it."""
        if self.rule and self.rule not in self.message:
            yield escape_controls(f"    rule: {self.rule}")
        if self.rule:
            yield f"    {self.remedy}"


@dataclasses.dataclass(frozen=True)
class Report:
    """The result of checking a file.

    Attributes:
        model: the file's name.
        level: the feature level.
        conforming: names of the nodes or dispatchables that DirectML accepts.
        remarks: problems, and nodes that were not checked.
        counts: further numbers of nodes, by what they are.
        lowest: the lowest feature level that would allow everything that was checked; None if none would, or nothing
            was checked.
        lowest_emulated: the lowest at which all of it is allowed or emulated; None as above, or for JSON files.
        error: why the file cannot be read; None if it was read.
    """

    model: str
    level: str
    conforming: Sequence[str]
    remarks: Sequence[CheckResult]
    counts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    lowest: str | None = None
    lowest_emulated: str | None = None
    error: str | None = None

    @property
    def problems(self) -> list[CheckResult]:
        """The remarks that are problems."""
        return [remark for remark in self.remarks if remark.is_problem]

    @property
    def unchecked(self) -> list[CheckResult]:
        """The remarks about nodes that were not checked."""
        return [remark for remark in self.remarks if not remark.is_problem]


def problem_lines(problems: Sequence[CheckResult], model: str, first: int | None) -> Iterator[str]:
    """Yield problems as text, those that break the same rule of an operator together.

    Args:
        problems: the problems.
        model: the file's name.
        first: the number of problems of a rule that are listed; None lists each, with its rule.
    """
    causes: dict[object, list[CheckResult]] = {}
    for problem in problems:
        is_alone = first is None or problem.operator is None
        key = problem if is_alone else (problem.operator, problem.rule, problem.needs)
        causes.setdefault(key, []).append(problem)
    for group in causes.values():
        shown = group[:first]
        yield from (problem.head(model) for problem in shown)
        yield from group[0].rule_lines()
        if len(group) > len(shown):
            nodes = len({problem.node for problem in group})
            node_text = f", in {count_noun(nodes, 'node')} in all" if first == 1 else ""
            remaining = count_noun(len(group) - len(shown), "more problem")
            yield f"    and {remaining} of this kind{node_text}; -v lists each"


def lowest_level(allows: Callable[[FeatureLevel], bool]) -> FeatureLevel | None:
    """Return the lowest feature level that allows something, given that each allows what the one before does."""
    from anydml.feature_level import FeatureLevel

    levels = [*FeatureLevel]
    first = bisect(levels, False, key=allows)
    return levels[first] if first < len(levels) else None
