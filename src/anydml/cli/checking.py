"""`anydml check`: the problems of model files, as text or as documents for programs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from anydml.cli.command import Command
from anydml.cli.json_checking import check_json
from anydml.cli.json_checking import lines as lines_of
from anydml.cli.onnx_checking import BROKEN, PARTLY, SOUND, check_onnx, read_sizes
from anydml.cli.onnx_commands import is_onnx, refuse_options
from anydml.cli.options import allow_outside, exclude, feature_level
from anydml.cli.output import LocalPath, fail, say
from anydml.cli.remarks import Report

if TYPE_CHECKING:
    from anydml.feature_level import FeatureLevel

UNREADABLE = 2
"""Exit code for a file that cannot be read."""

STANDARD_INPUT = "-"
"""Stands for a model that is read from standard input."""


@click.command(cls=Command, short_help="List the problems of model files without running them.")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True, type=LocalPath(reads_input=True))
@feature_level
@allow_outside
@click.option("--size", "sizes", multiple=True, metavar="NAME=SIZE", help="Value of a symbolic size of an ONNX model.")
@click.option("--json", is_flag=True, help="Print a line of JSON for each MODEL.")
@click.option("--junit", is_flag=True, help="Print JUnit XML, which CI servers show as tests.")
@click.option("--sarif", is_flag=True, help="Print SARIF, which code scanning shows beside the files.")
@click.option(
    "-v", "--verbose", is_flag=True, help="List every problem, and every node of an ONNX model with its result."
)
def check(
    models: tuple[str, ...], feature_level: str, allow_outside: bool, sizes: tuple[str, ...], verbose: bool,
    **forms: bool,
) -> int:  # fmt: skip
    """List the problems of each MODEL, a JSON or ONNX file, or - for standard input, without running it.

    For an ONNX file, also report how many nodes that would run on a device conform to DirectML at the feature level,
    how many ONNX Runtime's provider emulates, how many were not looked at because sizes are unknown, how many only
    compute shapes on the host, and which compute.

    The exit code is 0 if there are no problems, 1 if there are, 2 if a MODEL cannot be read, and 3 if a movement node
    of an ONNX file was not looked at, or there is none. Of several files, 2 precedes 1, which precedes 3.
    """
    from anydml.feature_level import FeatureLevel

    level = FeatureLevel.parse(feature_level)
    chosen = [name for name, wanted in forms.items() if wanted]
    exclude(*forms)
    given = read_sizes(sizes)
    if models.count(STANDARD_INPUT) > 1:
        raise click.UsageError("standard input, -, is read once", click.get_current_context())
    if not any(is_onnx(model) or model == STANDARD_INPUT for model in models):
        refuse_options(click.get_current_context(), ["sizes"], "ONNX models")
    codes, reports = set[int](), list[Report]()
    for model in models:
        options = model, level, allow_outside, given, verbose
        report, lines, code = _from_input(*options) if model == STANDARD_INPUT else _checked(*options)
        codes.add(code)
        reports.append(report)
        for line in () if chosen else lines:
            say(line)
        if report.error is not None:
            fail(report.error)
    if chosen:
        from anydml.cli.reports import FORMS

        for line in FORMS[chosen[0]](reports).splitlines():
            say(line)
    return next(code for code in (UNREADABLE, BROKEN, PARTLY, SOUND) if code in codes)


def _from_input(
    model: str, level: FeatureLevel, allow_outside: bool, sizes: Mapping[str, int], verbose: bool
) -> tuple[Report, Iterable[str], int]:
    """Return what `_checked` does of a file with what standard input has: a text, or else an ONNX model."""
    stream = sys.stdin.buffer
    with TemporaryDirectory() as folder:
        begin = stream.read(1)
        path = Path(folder, "model.json" if begin.isspace() or begin in (b"{", b"[", b"/", b"\xef") else "model.onnx")
        with path.open("wb") as file:
            file.write(begin)
            shutil.copyfileobj(stream, file)
        report, lines, code = _checked(str(path), level, allow_outside, sizes, verbose)
        error = None if report.error is None else report.error.replace(str(path), "standard input")
        return replace(report, model=model, error=error), [line.replace(str(path), model) for line in lines], code


def _checked(
    model: str, level: FeatureLevel, allow_outside: bool, sizes: Mapping[str, int], verbose: bool
) -> tuple[Report, Iterable[str], int]:
    """Return the report on a file, its lines, and the exit code that it asks for."""
    try:
        if is_onnx(model):
            checked = check_onnx(model, level, sizes)
            return checked.report(model), checked.lines(model, verbose), checked.code
        report = check_json(model, level, allow_outside)
        return report, lines_of(report, verbose), BROKEN if report.problems else SOUND
    except (ValueError, OSError) as error:
        return Report(model, str(level), (), (), error=str(error)), (), UNREADABLE
