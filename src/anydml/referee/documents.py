"""Reports of what an engine makes of cases: text, JSON, JUnit XML, SARIF, and a page with pictures."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

import onnx
from onnx import numpy_helper

from anydml._version import __version__
from anydml.errors import AnydmlError
from anydml.explain import Explanation
from anydml.referee.case_folders import StoredCase
from anydml.referee.causes import Cause, by_operator, causes_of, readings_of
from anydml.referee.directml.model_folders import StoredDirectml
from anydml.referee.judging import EngineReport
from anydml.referee.protos import model_of
from anydml.referee.verdicts import AGREES, FAILURES, MISSING, NOT_RUN, REFUSES, UNREADABLE, VERDICTS
from anydml.referee.webnn.calls_to_nodes import call_in
from anydml.referee.webnn.test_files import StoredWebnn
from anydml.text import count_noun, escape_controls

SARIF = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
MAX_PICTURES = 40
MAX_REASONS = 12
MAX_CAUSES = 60
"""Causes that are listed as text, and drawn."""


def lines_of(judged: EngineReport) -> Iterator[str]:
    """Yield a table of operators, the causes, and the readings taken, as text."""
    yield f"{judged.engine}: {count_noun(len(judged.verdicts), 'case')} of {judged.folder} in {judged.seconds:.0f} s"
    shown = [verdict for verdict in VERDICTS if judged.counts[verdict]]
    rows = [("operator", *shown)]
    for operator, counts in by_operator(judged).items():
        rows.append((operator, *(str(counts.get(verdict, 0) or "") for verdict in shown)))
    rows.append(("all", *(str(judged.counts[verdict]) for verdict in shown)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *numbers in rows:
        cells = (cell.rjust(width) for cell, width in zip(numbers, widths[1:], strict=True))
        yield "  ".join(["", first.ljust(widths[0]), *cells]).rstrip()
    yield from _ways(judged)
    causes = causes_of(judged)
    for cause in causes[:MAX_CAUSES]:
        first_one = next(verdict for verdict in cause.verdicts if verdict.case == cause.example.name)
        yield f"{cause}"
        yield f"    {cause.example.name}: {_line(first_one.detail)}"
        if cause.verdict != REFUSES and cause.example.about:
            yield f"    {cause.example.about['document']}: {cause.example.about['sentence']}"
    if len(causes) > MAX_CAUSES:
        yield f"and {len(causes) - MAX_CAUSES} more causes"
    reasons = Counter(verdict.detail for verdict in judged.verdicts if verdict.verdict == NOT_RUN)
    for reason, count in reasons.most_common(MAX_REASONS):
        yield f"{count} not run: {_line(reason)}"
    if len(reasons) > MAX_REASONS:
        yield f"and {len(reasons) - MAX_REASONS} more reasons"
    for (operator, question), reading_counts in readings_of(judged).items():
        counts_text = ", ".join(f"{count} × {words}" for words, count in reading_counts.items())
        yield f"{operator}, ambiguous: {question}: {counts_text}"
    if judged.undone:
        names = ", ".join(judged.undone[:3])
        crashes = count_noun(len(judged.undone), "crash")
        yield f"{crashes} left out, which did not come again when the case was alone: {names}"
    if judged.doubted:
        yield (
            f"{count_noun(judged.doubted, 'refusal')} of illegal cases may be of their operators, of which no legal "
            "case ran: judge legal and illegal cases in one folder"
        )
    if inexact := sum(not case.is_exact for case in judged.cases):
        yield f"compared as onnx does, rtol 1e-3, atol 1e-7: {count_noun(inexact, 'case')} without case.json"


def _ways(judged: EngineReport) -> Iterator[str]:
    """Yield how many cases were run in which way, and why, if the engine has several."""
    ways = Counter[str]()
    for way, count in judged.ways.items():
        ways[way.partition(": ")[0]] += count
    if ways:
        yield "run " + ", ".join(f"{count} × by {way}" for way, count in ways.most_common())
    reasons = [(way, count) for way, count in judged.ways.items() if ": " in way]
    for way, count in reasons[:MAX_REASONS]:
        yield f"    {count} by {_line(way)}"
    if len(reasons) > MAX_REASONS:
        yield f"    and for {count_noun(len(reasons) - MAX_REASONS, 'more reason')}"


def _line(text: str, limit: int = 300) -> str:
    return " ".join(text.split())[:limit]


def as_json(judged: EngineReport) -> str:
    """Return a JSON document, in ASCII.

    Its keys are `error` (null), `engine`, `folder`, `seconds`, `counts` (by verdict), `operators` (counts by operator),
    `ways` (counts by how cases were run, if the engine has several ways), `causes` (each with `operator`, `verdict`,
    `kind`, `common`, `failed`, `having`, `cases`, `example`), `readings`, `undone` (cases whose crash did not come
    again when they were alone), `doubted` (how many illegal cases are refused where no legal case of the operator ran),
    and `verdicts` (one per case).
    """
    causes = [
        {
            **{key: value for key, value in cause._asdict().items() if key not in ("verdicts", "example")},
            "cases": [verdict.case for verdict in cause.verdicts],
            "example": cause.example.name,
        }
        for cause in causes_of(judged)
    ]
    readings = [
        {"operator": operator, "question": question, "taken": reading_counts}
        for (operator, question), reading_counts in readings_of(judged).items()
    ]
    return json.dumps(
        {
            "error": None,
            "engine": judged.engine,
            "folder": str(judged.folder),
            "seconds": round(judged.seconds, 3),
            "counts": judged.counts,
            "operators": by_operator(judged),
            "ways": judged.ways,
            "undone": judged.undone,
            "doubted": judged.doubted,
            "causes": causes,
            "readings": readings,
            "verdicts": [verdict._asdict() for verdict in judged.verdicts],
        }
    )


def as_junit(judged: EngineReport) -> str:
    """Return JUnit XML, in ASCII: a test per case, which fails unless the engine agrees, or is skipped if not run.

    One that cannot be read, or has no outputs, is an error.
    """
    failed = sum(judged.counts[verdict] for verdict in FAILURES)
    broken = sum(verdict.kind in (UNREADABLE, MISSING) for verdict in judged.verdicts)
    counts = {
        "tests": str(len(judged.verdicts)), "failures": str(failed), "errors": str(broken),
        "skipped": str(judged.counts[NOT_RUN] - broken), "time": f"{judged.seconds:.3f}",
    }  # fmt: skip
    suite = ElementTree.Element("testsuite", {"name": escape_controls(judged.engine), **counts})
    for judged_case in judged.verdicts:
        case = ElementTree.SubElement(
            suite, "testcase", classname=escape_controls(judged_case.operator), name=escape_controls(judged_case.case)
        )
        if judged_case.kind in (UNREADABLE, MISSING):
            ElementTree.SubElement(
                case, "error", type=judged_case.kind, message=escape_controls(_line(judged_case.detail))
            )
        elif judged_case.verdict == NOT_RUN:
            ElementTree.SubElement(case, "skipped", message=escape_controls(_line(judged_case.detail)))
        elif judged_case.verdict != AGREES:
            message = escape_controls(f"{judged_case.verdict}: {_line(judged_case.detail)}")
            ElementTree.SubElement(case, "failure", type=judged_case.verdict, message=message)
    ElementTree.indent(suite)
    text: bytes = ElementTree.tostring(suite, encoding="us-ascii", xml_declaration=True)
    return text.decode()


def as_sarif(judged: EngineReport) -> str:
    """Return SARIF 2.1.0, in ASCII: a result per cause, which leads to its smallest case.

    Cases that cannot be read, or have no outputs, are notifications.
    """
    causes = causes_of(judged)
    rules = dict.fromkeys(f"{cause.operator}/{cause.verdict}" for cause in causes)
    driver = {
        "name": "anydml judge",
        "version": __version__,
        "rules": [{"id": rule, "shortDescription": {"text": rule.replace("/", " ")}} for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "results": [_result(judged, cause) for cause in causes],
        "invocations": [
            {
                "executionSuccessful": True,
                "toolExecutionNotifications": [
                    {"level": "error", "message": {"text": f"{verdict.kind}: {_line(verdict.detail)}"}}
                    for verdict in judged.verdicts
                    if verdict.kind in (UNREADABLE, MISSING)
                ],
            }
        ],
        "properties": {"engine": judged.engine, "counts": judged.counts},
    }
    return json.dumps({"$schema": SARIF, "version": "2.1.0", "runs": [run]}, indent=1)


def _result(judged: EngineReport, cause: Cause) -> dict[str, Any]:
    uri = quote((cause.example.model).as_posix())
    about = cause.example.about
    decided = f" {about['document']}: {about['sentence']}" if about else ""
    detail = next(verdict.detail for verdict in cause.verdicts if verdict.case == cause.example.name)
    location = {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": {"startLine": 1}}}
    return {
        "ruleId": f"{cause.operator}/{cause.verdict}",
        "level": "error",
        "message": {"text": f"{judged.engine}: {cause}. {_line(detail)}.{decided}"},
        "locations": [location],
    }


def page(judged: EngineReport) -> Explanation:
    """Return a page that draws the moves of the smallest case of each cause, if they can be drawn."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in judged.counts.items() if count)
    sections: list[Any] = []
    causes = causes_of(judged)
    for cause in causes:
        if cause.verdict != REFUSES and len(sections) < MAX_PICTURES:
            detail = next(verdict.detail for verdict in cause.verdicts if verdict.case == cause.example.name)
            title = f"{cause}. {cause.example.name}: {_line(detail)}. {cause.example.about.get('sentence', '')}"
            sections += [dataclasses.replace(picture, title=title) for picture in _pictures(cause.example)[:1]]
    return Explanation(f"{judged.engine}: {counts}", sections, [*lines_of(judged)])


def _pictures(stored: StoredCase) -> Any:
    """Return pictures of anydml's moves for a model whose inputs but the first are constants; none if it cannot run."""
    from anydml.explain import explain

    try:
        match stored:
            case StoredDirectml():
                return explain(stored.desc()).sections
            case StoredWebnn():
                call = call_in(stored.test)
                node = call.node._replace(constant=frozenset(range(1, len(call.node.inputs))))
                return explain(model_of(node, stored.outputs())).sections
        model = onnx.load(stored.model)
        infos = [*model.graph.input]
        for info, value in [*zip(infos, stored.inputs(), strict=False)][1:]:
            model.graph.initializer.append(numpy_helper.from_array(value, info.name))
            model.graph.input.remove(info)
        return explain(model).sections
    except (AnydmlError, ValueError, TypeError, KeyError):
        return ()


FORMS: dict[str, Callable[[EngineReport], str]] = {"json": as_json, "junit": as_junit, "sarif": as_sarif}
"""Functions by the names of their options."""
