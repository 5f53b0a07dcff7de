"""Checks of model files in JSON, for `anydml check`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from anydml.cli.check_results import CheckResult, Report, lowest_level, problem_lines
from anydml.text import escape_controls

if TYPE_CHECKING:
    from anydml.cli.standard_input import ModelFile
    from anydml.dxdispatch import Model
    from anydml.feature_level import FeatureLevel

MAX_PROBLEMS = 1000
"""Largest number of problems that are reported, since a file may have millions."""

DEFAULT_SHOWN = 3
"""Problems of a rule that are listed."""

_NUMBERED = re.compile(r"line (\d+): ")


def check_json(model: ModelFile, level: FeatureLevel, allow_outside: bool) -> Report:
    """Report the problems of a model file in JSON at a feature level.

    Args:
        model: the file.
        level: the feature level.
        allow_outside: whether files that the model names may lie outside its folder.

    Raises:
        ModelError: the file cannot be read, or is not such a model.
    """
    from anydml import dxdispatch
    from anydml.dxdispatch.model import Dispatchable

    loaded = dxdispatch.load(model.path, allow_outside=allow_outside, folder=model.folder)
    remarks = [*_remarks(loaded, level)]
    broken = {remark.node for remark in remarks}
    operators = [
        dispatchable.location.path
        for dispatchable in loaded.dispatchables.values()
        if isinstance(dispatchable, Dispatchable)
    ]
    conforming = [operator for operator in operators if operator not in broken]
    lowest = lowest_level(lambda level: next(loaded.problems(level), None) is None) if operators else None
    return Report(model.path, str(level), conforming, remarks, lowest=str(lowest) if lowest else None)


def lines(report: Report, verbose: bool) -> Iterator[str]:
    """Yield a report as text; all problems that break the same rule, if `verbose`, or the first of them."""
    yield from problem_lines(report.problems, report.model, None if verbose else DEFAULT_SHOWN)
    if not report.remarks:
        yield f"{escape_controls(report.model)}: no problems at {report.level}"
    if report.lowest is not None and all(remark.operator for remark in report.remarks):
        yield f"    {report.lowest} is the lowest level that allows all operators"


def _remarks(model: Model, level: FeatureLevel) -> Iterator[CheckResult]:
    from anydml.dxdispatch.out_of_range_indices import find_out_of_range_indices
    from anydml.dxdispatch.runner import allocate
    from anydml.dxdispatch.schedule import schedule
    from anydml.errors import ModelError

    yield from (_file_remark(model, line) for line in model.warnings)
    problems = model.problems(level)
    is_valid = True
    for location, problem in islice(problems, MAX_PROBLEMS):
        is_valid = False
        desc = location.path.removesuffix(f".{problem.field}")
        needs = str(problem.needs) if problem.needs else None
        yield CheckResult(
            desc, desc, problem.field, problem.operator, problem.message, problem.rule, needs, location.line
        )
    if next(problems, None) is not None:
        yield _file_remark(model, f"and more; only the first {MAX_PROBLEMS} problems are shown")
    if is_valid:
        try:
            # Bindings can only be checked once the tensors are valid.
            scheduled = schedule(model)
            for index_location, line in find_out_of_range_indices(
                scheduled, lambda resource: allocate(resource, scheduled.sizes[resource])
            ):
                yield CheckResult(
                    index_location.path,
                    None,
                    message=f"{index_location.path}: {line}",
                    rule="",
                    line=index_location.line,
                )
        except ModelError as error:
            yield _file_remark(model, str(error), error.field or "")


def _file_remark(model: Model, text: str, node: str = "") -> CheckResult:
    """Return a message about the file as a remark; it may begin with the file's name and a line number."""
    text = text.removeprefix(escape_controls(f"{model.location}: "))
    numbered = _NUMBERED.match(text)
    line = int(numbered[1]) if numbered else None
    return CheckResult(node, None, message=text[numbered.end() :] if numbered else text, rule="", line=line)
