"""Summaries of the nodes that were not checked: those that compute, and those with unknown sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from anydml.onnx.descs import Finding
from anydml.text import counted


def counts(operators: Iterable[str]) -> str:
    """Count operators, most frequent first: ``"MatMul 12, Add 8"``."""
    return ", ".join(f"{operator} {count}" for operator, count in Counter(operators).most_common())


def out_of_scope(findings: Sequence[Finding]) -> str:
    """Return ``"37 nodes compute and are out of scope: MatMul 12, …"``; an empty string if there are none."""
    computing = [
        each.operator for each in findings if each.unchecked is not None and each.computes and not each.on_host
    ]
    if not computing:
        return ""
    verbs = "computes and is" if len(computing) == 1 else "compute and are"
    return f"{counted(len(computing), 'node')} {verbs} out of scope: {counts(computing)}"


def not_looked_at(findings: Iterable[Finding]) -> list[Finding]:
    """Return the movement nodes that would run on the device and were not checked."""
    return [each for each in findings if each.unchecked is not None and not each.computes and not each.on_host]


def left_out(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a line on movement nodes with symbolic sizes, and a line on those with unknown sizes, if any."""
    left = not_looked_at(findings)
    waiting, others = ([each for each in left if bool(each.sizes) is waits] for waits in (True, False))
    if waiting:
        missing = list(dict.fromkeys(name for finding in waiting for name in finding.sizes))
        count, verb = counted(len(waiting), "node"), "waits" if len(waiting) == 1 else "wait"
        hints = " ".join(f"--size {name}=4" for name in missing)
        which = counts(each.operator for each in waiting)
        yield f"{count} {verb} for sizes that are only named ({which}): give {hints}"
    if others:
        verb = "is" if len(others) == 1 else "are"
        count = counted(len(others), "node")
        yield f"{count} {verb} not looked at, as sizes are not known: {counts(each.operator for each in others)}"
