"""Failures grouped by cause: by their kind, and by a feature that failing cases share and agreeing ones lack."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from anydml.referee.case_folders import StoredCase
from anydml.referee.judging import EngineReport
from anydml.referee.verdicts import AGREES, FAILURES, NOT_RUN, REFUSES, Verdict

FIRST_READING = "the first reading"
"""The name for the reading by which a case's own results are computed."""


class Cause(NamedTuple):
    """Failures of one operator that probably have one cause.

    Attributes:
        operator: the operator.
        verdict: the verdict on the engine.
        kind: the difference, or the engine's message.
        common: a feature that all of these cases have, and few agreeing ones; empty if there is none.
        failed: the number of failing cases with this feature.
        having: the number of all cases with it.
        verdicts: the verdicts on the failing cases.
        example: the smallest failing case.
    """

    operator: str
    verdict: str
    kind: str
    common: str
    failed: int
    having: int
    verdicts: tuple[Verdict, ...]
    example: StoredCase

    def __str__(self) -> str:
        text = f"{len(self.verdicts)} × {self.operator} {self.verdict}: {self.kind}"
        return f"{text}; {self.common} ({self.failed} of {self.having})" if self.common else text


def causes_of(judged: EngineReport) -> list[Cause]:
    """Return the causes of an engine's failures, the most frequent first."""
    by_name = {case.name: case for case in judged.cases}
    groups: dict[tuple[str, str, str], list[Verdict]] = defaultdict(list)
    agreeing: dict[str, list[set[str]]] = defaultdict(list)
    for judged_case in judged.verdicts:
        if judged_case.verdict in FAILURES:
            groups[judged_case.operator, judged_case.verdict, judged_case.kind].append(judged_case)
        elif judged_case.verdict == AGREES:
            agreeing[judged_case.operator].append(set(by_name[judged_case.case].about.get("features", ())))
    causes = []
    for (operator, verdict, kind), verdicts in groups.items():
        unexplained = verdicts
        while unexplained:
            common, having, blamed = _tell_tale([by_name[verdict.case] for verdict in unexplained], agreeing[operator])
            if verdict == REFUSES and len(blamed) < len(unexplained):
                # A message is more informative than features.
                common, having, blamed = "", 0, {verdict.case for verdict in unexplained}
            chosen = [verdict for verdict in unexplained if verdict.case in blamed]
            example = min((by_name[verdict.case] for verdict in chosen), key=_weight)
            failed = len(chosen)
            causes.append(Cause(operator, verdict, kind, common, failed, having, tuple(chosen), example))
            unexplained = [verdict for verdict in unexplained if verdict.case not in blamed]
    return sorted(causes, key=lambda cause: (-len(cause.verdicts), cause.operator, cause.kind))


def _tell_tale(failing: list[StoredCase], agreeing: list[set[str]]) -> tuple[str, int, set[str]]:
    """Return the feature that best separates failing from agreeing cases, how many have it, and which of these fail."""
    names = {case.name for case in failing}
    if not agreeing:
        return "", len(names), names
    having: dict[str, set[str]] = defaultdict(set)
    for case in failing:
        for feature in case.about.get("features", ()):
            having[feature].add(case.name)
    best: tuple[float, int, str] = (0.0, 0, "")
    base = len(failing) / (len(failing) + len(agreeing))
    for feature, with_feature in sorted(having.items()):
        agreeing_count = sum(feature in features for features in agreeing)
        share = len(with_feature) / (len(with_feature) + agreeing_count)
        score = share * len(with_feature) / len(failing)
        if share > max(1.5 * base, 0.1) and score > best[0]:
            best = score, len(with_feature) + agreeing_count, feature
    if not best[2]:
        return "", len(names), names
    return best[2], best[1], having[best[2]]


def _weight(stored: StoredCase) -> tuple[int, str]:
    """Return the size of a case's files, in bytes."""
    return stored.weight, stored.name


def by_operator(judged: EngineReport) -> dict[str, dict[str, int]]:
    """Count verdicts by operator, in the order of the cases."""
    counts_by_operator: dict[str, dict[str, int]] = {}
    for verdict in judged.verdicts:
        counts = counts_by_operator.setdefault(verdict.operator, {})
        counts[verdict.verdict] = counts.get(verdict.verdict, 0) + 1
    return counts_by_operator


def readings_of(judged: EngineReport) -> dict[tuple[str, str], dict[str, int]]:
    """Count the engine's readings of ambiguous texts, by operator and question."""
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for verdict in judged.verdicts:
        if verdict.question and verdict.verdict != NOT_RUN:
            reading_counts = counts.setdefault((verdict.operator, verdict.question), {})
            reading = verdict.reading or (FIRST_READING if verdict.verdict == AGREES else verdict.verdict)
            reading_counts[reading] = reading_counts.get(reading, 0) + 1
    return counts
