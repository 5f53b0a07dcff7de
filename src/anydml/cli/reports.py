"""Machine-readable reports of `anydml check`: JSON, JUnit XML and SARIF."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from anydml._version import __version__
from anydml.cli.check_results import CheckResult, Report
from anydml.text import escape_controls

SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ADDRESS = "https://github.com/anydml/anydml"
IN_FILE = "model-file"
"""The rule of problems that concern the file and no operator."""


def as_json(reports: Sequence[Report]) -> str:
    """Return a line of JSON per file, in ASCII.

    Its keys are `model`, `feature_level`, `error` (why it cannot be read, or null), `conforming` (the number of
    conforming nodes), for ONNX models `not_looked_at`, `on_host` and `emulated` (the numbers of movement nodes that
    were not checked, of those that only determine sizes, and of those that DirectML refuses and ONNX Runtime's
    provider emulates), `lowest_level` (that allows all that was checked, or null), `lowest_emulated` (the lowest level
    at which all of it is allowed or emulated, or null), `problems` (each with `location`, `field`, `operator`,
    `message`, `rule`, `needs`, `line`), and `not_checked` (each with `location` and `message`).
    """
    return "\n".join(map(_json_of, reports))


def _json_of(report: Report) -> str:
    problems = [dataclasses.asdict(remark) for remark in report.problems]
    for problem in problems:
        del problem["node"], problem["verdict"]
    unchecked = [{"location": note.location, "message": note.message} for note in report.unchecked]
    head = {"model": report.model, "feature_level": report.level, "error": report.error}
    levels = {"lowest_level": report.lowest, "lowest_emulated": report.lowest_emulated}
    counts = {"conforming": len(report.conforming), **report.counts}
    return json.dumps({**head, **counts, **levels, "problems": problems, "not_checked": unchecked})


def as_junit(reports: Sequence[Report]) -> str:
    """Return JUnit XML, in ASCII: a suite per file, with a test case per node or dispatchable.

    A case fails if its node has problems; a file that cannot be read is a case with an error.
    """
    suites = [*map(_suite, reports)]
    root = suites[0]
    if len(suites) > 1:
        root = ElementTree.Element("testsuites")
        root.extend(suites)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="us-ascii", xml_declaration=True)
    return text.decode()


def _suite(report: Report) -> ElementTree.Element:
    failed: dict[str, list[CheckResult]] = {}
    for remark in report.problems:
        failed.setdefault(remark.node, []).append(remark)
    skipped = {note.node: note.message for note in report.unchecked if note.node not in failed}
    names = [*report.conforming, *failed, *skipped]
    counts = {"tests": str(len(names)), "failures": str(len(failed)), "skipped": str(len(skipped))}
    if report.error is not None:
        counts = {"tests": "1", "failures": "0", "errors": "1", "skipped": "0"}
    name = f"{report.model} at {report.level}" if report.level else report.model
    suite = ElementTree.Element("testsuite", {"name": escape_controls(name), **counts})
    if report.error is not None:
        case = ElementTree.SubElement(suite, "testcase", classname=escape_controls(report.model), name="file")
        ElementTree.SubElement(case, "error", message=escape_controls(report.error))
    for name in names:
        case = ElementTree.SubElement(
            suite, "testcase", classname=escape_controls(report.model), name=escape_controls(name)
        )
        if name in failed:
            lines = [line for problem in failed[name] for line in problem.lines(report.model)]
            failure = ElementTree.SubElement(case, "failure", message=escape_controls(failed[name][0].message))
            failure.text = "\n".join(lines)
        elif name in skipped:
            ElementTree.SubElement(case, "skipped", message=escape_controls(skipped[name]))
    return suite


def as_sarif(reports: Sequence[Report]) -> str:
    """Return SARIF 2.1.0, in ASCII: a result per problem, and a rule per operator with problems.

    Files that cannot be read are notifications of an execution that was not successful.
    """
    rules = dict.fromkeys(problem.operator or IN_FILE for report in reports for problem in report.problems)
    driver = {
        "name": "anydml",
        "version": __version__,
        "informationUri": ADDRESS,
        "rules": [{"id": rule, "shortDescription": {"text": _description(rule)}} for rule in rules],
    }
    unread = [_notification(report) for report in reports if report.error is not None]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": not unread, "toolExecutionNotifications": unread}],
        "results": [result for report in reports for result in _results(report)],
        "properties": {
            "featureLevel": reports[0].level,
            "models": [
                {
                    "model": report.model,
                    "conforming": len(report.conforming),
                    **report.counts,
                    "lowestLevel": report.lowest,
                    "lowestEmulated": report.lowest_emulated,
                    "notChecked": [note.node for note in report.unchecked],
                }
                for report in reports
                if report.level
            ],
        },
    }
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": [run]}, indent=1)


def _notification(report: Report) -> dict[str, Any]:
    location = {"physicalLocation": {"artifactLocation": {"uri": _uri(report)}}}
    # Without a level it is not of a file, but of the command.
    return {"level": "error", "message": {"text": report.error}, "locations": [location] if report.level else []}


def _uri(report: Report) -> str:
    # Bytes, since a name need not be UTF-8.
    return quote(os.fsencode(PurePath(report.model).as_posix()))


def _description(rule: str) -> str:
    return "A model file that can be run" if rule == IN_FILE else f"{rule} as DirectML's document allows it"


def _results(report: Report) -> Iterator[dict[str, Any]]:
    uri = _uri(report)
    for problem in report.problems:
        rule = f" Rule: {problem.rule}; {problem.remedy}." if problem.rule else ""
        result_location = {
            # SARIF viewers require a line, even for ONNX files.
            "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": problem.line or 1}},
            "logicalLocations": [{"fullyQualifiedName": ".".join(filter(None, (problem.node, problem.field)))}],
        }
        text = f"{problem.message}.{rule}" if problem.location is None else f"{problem.node}: {problem.message}.{rule}"
        yield {
            "ruleId": problem.operator or IN_FILE,
            "level": "error",
            "message": {"text": text},
            "locations": [result_location],
        }


FORMS: dict[str, Callable[[Sequence[Report]], str]] = {"json": as_json, "junit": as_junit, "sarif": as_sarif}
"""Functions by the names of their options."""
