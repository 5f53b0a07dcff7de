"""`anydml check`: the problems of model files, as text or as documents for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from anydml.cli.check_results import Report
from anydml.cli.command import Command
from anydml.cli.json_checking import check_json
from anydml.cli.json_checking import lines as lines_of
from anydml.cli.onnx_checking import BROKEN, NO_COUNTS, PARTLY, SOUND, check_onnx, read_sizes
from anydml.cli.onnx_commands import is_onnx, refuse_options
from anydml.cli.options import allow_outside, exclude, feature_level
from anydml.cli.output import LocalPath, fail, print_line, quiet_option
from anydml.cli.standard_input import STANDARD_INPUT, ModelFile, model_file

if TYPE_CHECKING:
    from anydml.feature_level import FeatureLevel

UNREADABLE = 2
"""Exit code for a file that cannot be read."""


@click.command(
    cls=Command,
    short_help="List the problems of model files without running them.",
    examples=("model.json --feature-level 2_1", "model.onnx --size N=4 -v", "*.onnx --junit > report.xml"),
)
@click.argument(
    "models",
    metavar="MODEL...",
    nargs=-1,
    required=True,
    type=LocalPath(is_read=True, reads_input=True, is_checked=False),
)
@feature_level
@allow_outside
@click.option("--size", "sizes", multiple=True, metavar="NAME=SIZE", help="Value of a named size of an ONNX model.")
@click.option("--json", is_flag=True, help="Print a line of JSON for each MODEL.")
@click.option("--junit", is_flag=True, help="Print JUnit XML, which CI servers show as tests.")
@click.option("--sarif", is_flag=True, help="Print SARIF, which code scanning shows beside the files.")
@click.option(
    "-v", "--verbose", is_flag=True, help="List every problem, and every node of an ONNX model with its result."
)
@quiet_option("errors and problems")
def check(
    models: tuple[str, ...], feature_level: str, allow_outside: bool, sizes: tuple[str, ...], verbose: bool,
    quiet: bool, **forms: bool,
) -> int:  # fmt: skip
    """List the problems of each MODEL, a JSON or ONNX file, or - for standard input, without running it.

    For an ONNX file, also report how many nodes that would run on a device conform to DirectML at the feature level,
    how many ONNX Runtime's provider emulates, how many were not checked because sizes are unknown, how many only
    compute shapes on the host, and which compute.

    The exit code is 0 if there are no problems, 1 if there are, 2 if a MODEL cannot be read, and 3 if a movement node
    of an ONNX file was not checked, or there is none. With several files, 2 takes precedence over 1, and 1 over 3.
    """
    from anydml.feature_level import FeatureLevel

    level = FeatureLevel.parse(feature_level)
    chosen = [name for name, is_chosen in forms.items() if is_chosen]
    exclude(*forms)
    size_values = read_sizes(sizes)
    if models.count(STANDARD_INPUT) > 1:
        raise click.UsageError(
            "standard input (-) can be read only once: name files for the other models", click.get_current_context()
        )
    if not any(is_onnx(model) or model == STANDARD_INPUT for model in models):
        refuse_options(click.get_current_context(), ["sizes"], "ONNX models")
    codes, reports = set[int](), list[Report]()
    for model in models:
        with model_file(model) as file:
            report, lines, code = _check_file(file, level, allow_outside, size_values, verbose)
        codes.add(code)
        reports.append(report)
        for line in () if chosen or (quiet and code == SOUND) else lines:
            print_line(line)
        if report.error is not None:
            fail(report.error)
    if chosen:
        from anydml.cli.reports import FORMS

        for line in FORMS[chosen[0]](reports).splitlines():
            print_line(line)
    return next(code for code in (UNREADABLE, BROKEN, PARTLY, SOUND) if code in codes)


def _check_file(
    file: ModelFile, level: FeatureLevel, allow_outside: bool, sizes: Mapping[str, int], verbose: bool
) -> tuple[Report, Iterable[str], int]:
    """Return the report on a model, its lines, and the exit code that it asks for."""
    try:
        if is_onnx(file.path):
            checked = check_onnx(file, level, sizes)
            return checked.report(file.name), checked.lines(file.name, verbose), checked.code
        report = replace(check_json(file, level, allow_outside), model=file.name)
        lines = [file.with_name(line) for line in lines_of(report, verbose)]
        return report, lines, BROKEN if report.problems else SOUND
    except (ValueError, OSError) as error:
        counts = NO_COUNTS if is_onnx(file.path) else {}
        return Report(file.name, str(level), (), (), counts, error=file.with_name(str(error))), (), UNREADABLE
