"""Machine-readable reports of `anydml check`: JSON, JUnit XML and SARIF."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from anydml._version import __version__
from anydml.cli.remarks import Remark, Report
from anydml.text import printable

SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ADDRESS = "https://github.com/anydml/anydml"
IN_FILE = "model-file"
"""The rule of problems that concern the file and no operator."""


def as_json(report: Report) -> str:
    """Return one line of JSON, in ASCII.

    Its keys are `model`, `feature_level`, `conforming` (the number of conforming nodes), for ONNX models
    `not_looked_at` and `on_host` (the numbers of movement nodes that were not looked at, and of those that only
    determine sizes), `problems` (each with `place`, `field`, `operator`, `message`, `rule`, `needs`, `line`), and
    `not_checked` (each with `place` and `message`).
    """
    problems = [dataclasses.asdict(remark) for remark in report.problems]
    for problem in problems:
        del problem["node"]
    others = [{"place": each.place, "message": each.message} for each in report.unchecked]
    head = {"model": report.model, "feature_level": report.level, "conforming": len(report.conforming)}
    return json.dumps({**head, **report.counts, "problems": problems, "not_checked": others})


def as_junit(report: Report) -> str:
    """Return JUnit XML, in ASCII: a test case per node or dispatchable, which fails if it has problems."""
    failed: dict[str, list[Remark]] = {}
    for remark in report.problems:
        failed.setdefault(remark.node, []).append(remark)
    skipped = {each.node: each.message for each in report.unchecked if each.node not in failed}
    names = [*report.conforming, *failed, *skipped]
    counts = {"tests": str(len(names)), "failures": str(len(failed)), "skipped": str(len(skipped))}
    suite = ElementTree.Element("testsuite", {"name": printable(f"{report.model} at {report.level}"), **counts})
    for name in names:
        case = ElementTree.SubElement(suite, "testcase", classname=printable(report.model), name=printable(name))
        if name in failed:
            lines = [line for each in failed[name] for line in each.lines(report.model)]
            failure = ElementTree.SubElement(case, "failure", message=printable(failed[name][0].message))
            failure.text = "\n".join(lines)
        elif name in skipped:
            ElementTree.SubElement(case, "skipped", message=printable(skipped[name]))
    ElementTree.indent(suite)
    text: bytes = ElementTree.tostring(suite, encoding="us-ascii", xml_declaration=True)
    return text.decode()


def as_sarif(report: Report) -> str:
    """Return SARIF 2.1.0, in ASCII: a result per problem, and a rule per operator with problems."""
    rules = dict.fromkeys(each.operator or IN_FILE for each in report.problems)
    driver = {
        "name": "anydml",
        "version": __version__,
        "informationUri": ADDRESS,
        "rules": [{"id": rule, "shortDescription": {"text": _description(rule)}} for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "results": [*_results(report)],
        "properties": {
            "featureLevel": report.level,
            "conforming": len(report.conforming),
            **report.counts,
            "notChecked": [each.node for each in report.unchecked],
        },
    }
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": [run]}, indent=1)


def _description(rule: str) -> str:
    return "A model file that can be run" if rule == IN_FILE else f"{rule} as DirectML's document allows it"


def _results(report: Report) -> Iterator[dict[str, Any]]:
    # Bytes, since a name need not be UTF-8.
    uri = quote(os.fsencode(PurePath(report.model).as_posix()))
    for each in report.problems:
        rule = f" Rule: {each.rule}; {each.remedy}." if each.rule else ""
        place = {
            # SARIF viewers require a line, even for ONNX files.
            "physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": each.line or 1}},
            "logicalLocations": [{"fullyQualifiedName": ".".join(filter(None, (each.node, each.field)))}],
        }
        text = f"{each.message}.{rule}" if each.place is None else f"{each.node}: {each.message}.{rule}"
        yield {"ruleId": each.operator or IN_FILE, "level": "error", "message": {"text": text}, "locations": [place]}


FORMS: dict[str, Callable[[Report], str]] = {"json": as_json, "junit": as_junit, "sarif": as_sarif}
"""Functions by the names of their options."""
