"""Summaries of the nodes that were not checked: those that compute, and those with unknown sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

from anydml.onnx.translation_findings import Finding
from anydml.text import count_noun

WITH_BODIES = ("If", "Loop", "Scan", "SequenceMap")
"""Operators whose attributes have graphs."""


def counts(operators: Iterable[str]) -> str:
    """Count operators, most frequent first: ``"MatMul 12, Add 8"``."""
    return ", ".join(f"{operator} {count}" for operator, count in Counter(operators).most_common())


def out_of_scope(findings: Sequence[Finding]) -> str:
    """Return ``"37 nodes compute and are out of scope: MatMul 12, …"``; an empty string if there are none."""
    computing = [
        finding.operator
        for finding in findings
        if finding.unchecked is not None and finding.computes and not finding.on_host
    ]
    if not computing:
        return ""
    verbs = "computes and is" if len(computing) == 1 else "compute and are"
    return f"{count_noun(len(computing), 'node')} {verbs} out of scope: {counts(computing)}"


def not_looked_at(findings: Iterable[Finding]) -> list[Finding]:
    """Return the movement nodes that would run on the device and were not checked."""
    unchecked = (finding for finding in findings if finding.unchecked is not None and not finding.off_device_reason)
    return [finding for finding in unchecked if not finding.computes and not finding.on_host]


def _reason(finding: Finding) -> str:
    return f'"{finding.node}": {finding.unchecked}'


def left_out(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a line on each kind of movement nodes that were not checked, if there are any."""
    unchecked = not_looked_at(findings)
    bodies = [finding for finding in unchecked if finding.operator in WITH_BODIES]
    unchecked = [finding for finding in unchecked if finding.operator not in WITH_BODIES]
    waiting, not_waiting = (
        [finding for finding in unchecked if bool(finding.sizes) is waits] for waits in (True, False)
    )
    if bodies:
        yield f"bodies are left out: {counts(finding.operator for finding in bodies)}"
    if waiting:
        missing = list(dict.fromkeys(name for finding in waiting for name in finding.sizes))
        count, verb = count_noun(len(waiting), "node"), "is" if len(waiting) == 1 else "are"
        hints = " ".join(f"--size {quote(f'{name}=4')}" for name in missing)
        operator_counts = counts(finding.operator for finding in waiting)
        yield f"{count} {verb} left out, because sizes are unknown ({operator_counts}): give {hints}"
    if not_waiting:
        verb = "is" if len(not_waiting) == 1 else "are"
        count = count_noun(len(not_waiting), "node")
        operator_counts = counts(finding.operator for finding in not_waiting)
        first = f"{operator_counts}); first {_reason(not_waiting[0])}"
        yield f"{count} {verb} left out, because sizes are unknown ({first}"
    off_device = (finding.off_device_reason for finding in findings if not finding.on_host)
    for device_reason in dict.fromkeys(reason for reason in off_device if reason):
        operators = [finding.operator for finding in findings if finding.off_device_reason == device_reason]
        yield f"{count_noun(len(operators), 'node')} not on the device ({counts(operators)}): {device_reason}"
