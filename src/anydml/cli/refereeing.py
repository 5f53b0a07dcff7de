"""`anydml cases` and `anydml judge`: cases whose results a document decides, and verdicts on engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from anydml.cli.command import Command
from anydml.cli.options import Seconds, Size, Whole, exclude
from anydml.cli.output import LocalPath, check_target, overwrite_option, print_line, print_status, quiet_option
from anydml.cli.plan_output import json_option, print_json
from anydml.text import count_noun, parse_size

FAILED = 1
"""Exit code if a case differs, crashes, hangs, is refused, or is accepted though illegal."""


@click.command(
    cls=Command,
    short_help="Write random cases of operators with their results.",
    examples=("--count 66 --seed 1 -o cases", "transpose --as webnn -o cases", "Gather Split --invalid -o cases"),
)
@click.argument("operators", metavar="[OPERATOR...]", nargs=-1)
@click.option("-o", "--output", required=True, metavar="DIR", type=LocalPath(), help="The new folder of the cases.")
@click.option("--count", type=Whole(1), default=1000, show_default=True, help="Number of cases in all.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same cases.")
@click.option("--as", "form", type=click.Choice(["onnx", "webnn", "dxdispatch"]), default="onnx", show_default=True,
              help="Operators of ONNX, of WebNN as tests of WPT, or of DirectML as models of DxDispatch.")  # fmt: skip
@click.option("--invalid", is_flag=True, help="Cases that break one rule each, to see who accepts them.")
@click.option("--coverage", is_flag=True, help="List what the cases of each operator do not reach.")
@json_option
@quiet_option("errors")
def cases(
    operators: tuple[str, ...], output: str, count: int, seed: int, form: str, invalid: bool, coverage: bool,
    as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Write random cases of each OPERATOR of ONNX; by default, of all that move data.

    A case is a folder like those of ONNX's backend tests: model.onnx, test_data_set_0/input_0.pb and so on. Beside
    them, case.json has the sentence of ONNX's text that decides the case, and other readings if it is ambiguous.

    With --as webnn, a case is a test in the JSON of web-platform-tests, in a file per operator. With --as dxdispatch,
    it is a folder with model.json, whose commands write output_0.npy and so on, and with expected_0.npy and so on,
    which have the sizes of the tensors; the strides of a tensor give the places of its elements in output_0.npy.
    """
    from anydml.referee.case_folders import write_cases
    from anydml.referee.coverage import Coverage

    reachable, draw, group, write = _functions_of_form(form)
    covered = Coverage(reachable)
    drawn = group(covered.counting(draw(operators, count, seed, not invalid)))
    settings = {"seed": seed, "operators": [*operators], "invalid": invalid}
    written = write_cases(drawn, Path(output), write, form, **settings)
    ambiguous = f", {covered.ambiguous} of them ambiguous" if covered.ambiguous else ""
    totals = f"{count_noun(written, 'case')} of {count_noun(len(covered.reached), 'operator')}"
    missing = [] if invalid else covered.missing()
    if as_json:
        features = {} if invalid else {"features": covered.count, "not_reached": missing}
        counts = {"cases": written, "operators": len(covered.reached), "ambiguous": covered.ambiguous}
        print_json({"output": output, **counts, **features})
    print_status(f"{totals} written to '{output}'{ambiguous}")
    if form == "onnx":
        from anydml.referee.schema_texts import LAST, NEWEST

        if LAST < NEWEST:
            print_status(f"the installed onnx has opsets up to {LAST}: for cases up to opset {NEWEST}, upgrade it")
    if not invalid:
        print_status(
            f"{covered.count - len(missing)} of {covered.count} features reached"
            + (", see --coverage" if missing else "")
        )
        for line in missing if coverage else ():
            print_status(f"    {line}")


def _functions_of_form(form: str) -> tuple[Any, Any, Any, Any]:
    """Return the coverage of an operator, and the functions that draw cases, group those of one file, and write it."""
    if form == "webnn":
        from anydml.referee.webnn.cases import by_operator, webnn_cases, write_webnn
        from anydml.referee.webnn.features import reachable_features

        return reachable_features, webnn_cases, by_operator, write_webnn
    if form == "dxdispatch":
        from anydml.referee.directml.cases import directml_cases, write_directml
        from anydml.referee.directml.features import reachable_features

        return reachable_features, directml_cases, iter, write_directml
    from anydml.referee.case_folders import write_case
    from anydml.referee.cases import make_cases
    from anydml.referee.features import reachable_of

    return reachable_of, make_cases, iter, write_case


@click.command(
    cls=Command,
    short_help="Run an engine over cases and compare.",
    examples=("cases --engine anydml", "cases --engine onnxruntime --shrink smallest", "cases --engine command:./run"),
)
@click.argument("folder", metavar="DIR", type=LocalPath(is_read=True))
@click.option("--engine", required=True, metavar="ENGINE",
              help="anydml, anydml:DEVICE, onnxruntime, reference, openvino, tract, command:PROGRAM, outputs:FOLDER.",
)  # fmt: skip
@click.option("--jobs", type=Whole(1), default=None, metavar="N", help="Processes; one per core by default.")
@click.option("--seconds", type=Seconds(), default=20.0, show_default=True, help="Limit of a case.")
@click.option(
    "--memory", type=Size(), default="4GiB", show_default=True, metavar="SIZE", help="Limit of a case; 0 for none."
)
@click.option("--json", is_flag=True, help="Print one line of JSON instead of text.")
@click.option("--junit", is_flag=True, help="Print JUnit XML, which CI servers show as tests.")
@click.option("--sarif", is_flag=True, help="Print SARIF, which code scanning shows beside the files.")
@click.option("--html", metavar="FILE.html", type=LocalPath(), help="Write a page with pictures.")
@click.option(
    "--shrink", metavar="DIR", type=LocalPath(), help="Write the smallest case of each cause to a new folder."
)
@overwrite_option
@quiet_option("errors")
def judge(
    folder: str, engine: str, jobs: int | None, seconds: float, memory: str, html: str | None, shrink: str | None,
    overwrite: bool, quiet: bool, **forms: Any,
) -> int:  # fmt: skip
    """Run an engine over the cases in DIR, each in a process that may crash or hang, and report the differences.

    DIR has cases of `anydml cases`, folders like those of the package onnx, or files of WebNN's tests.

    command:PROGRAM calls a program with the model, the folder of the inputs, and the folder to write output_0.pb and so
    on to, or output_0.npy if the case is not of ONNX; an exit code other than 0 refuses the case. outputs:FOLDER reads
    the files that another machine has written beside the cases, such as CASE/FOLDER/output_0.pb. anydml:DEVICE, such
    as anydml:reference, runs DirectML's desc of a case if there is one, and reports how many have none.

    The exit code is 0 if all agree, 1 if a case differs, crashes, hangs, is refused, or is accepted though illegal, and
    2 if DIR or ENGINE cannot be used.
    """
    chosen = [name for name, is_chosen in forms.items() if is_chosen]
    exclude(*forms)
    check_target("--html", html, ".html", [], overwrite)
    from anydml.referee.case_folders import check_new
    from anydml.referee.documents import FORMS, lines_of, page
    from anydml.referee.judging import judge as judge_cases

    if shrink is not None:
        check_new(Path(shrink))
    max_bytes = parse_size(memory)
    judged = judge_cases(folder, engine, jobs, seconds, max_bytes)
    for line in FORMS[chosen[0]](judged).splitlines() if chosen else ():
        print_line(line)
    for line in () if chosen else lines_of(judged):
        print_status(line)
    if html is not None:
        page(judged).save(html)
    if shrink is not None:
        from anydml.referee.shrinking import shrink_all

        for line in shrink_all(judged, engine, Path(shrink), seconds, max_bytes):
            if not chosen:
                print_status(line)
    return 0 if judged.is_clean else FAILED
