"""Output of the commands that write checkpoints and arrays: their plans as text, or as one line of JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from anydml.cli.command import with_options
from anydml.cli.output import print_line, warn
from anydml.errors import ModelError
from anydml.text import bytes_text, count_noun, escape_controls

if TYPE_CHECKING:
    from anydml.stores import Plan

json_option = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON instead of text.")
"""The option of commands that print JSON."""


def print_json(report: dict[str, Any]) -> None:
    """Print one line of JSON, in ASCII; its `error` is null."""
    print_line(json.dumps({"error": None, **report}, allow_nan=False))


def values_as_json(values: Any) -> Any:
    """Return nested lists of elements; numbers that JSON has no form for, such as nan, as strings."""
    if isinstance(values, list):
        return [values_as_json(value) for value in values]
    is_number = isinstance(values, int) or (isinstance(values, float) and math.isfinite(values))
    return values if is_number or isinstance(values, str) else str(values)


def array_as_json(array: Any) -> dict[str, Any]:
    """Return the name, dtype, shape and bytes of an array."""
    from anydml.stores.formats.block_types import name_of, shape_in_elements

    dtype, shape = name_of(array.dtype), [*shape_in_elements(array.shape, array.dtype)]
    return {"name": array.name, "dtype": dtype, "shape": shape, "bytes": array.nbytes}


class PlanOutput:
    """The output of a command that makes a plan.

    Args:
        output: the command's OUT.
        quiet: whether only errors are printed.
        as_json: whether one line of JSON is printed instead of text, also if `quiet`.
    """

    def __init__(self, output: str, quiet: bool, as_json: bool) -> None:
        self.shows_progress = not quiet
        self._difference: str | None = None
        self._output, self._prints_text, self._as_json = output, not quiet and not as_json, as_json

    def print_plan(self, plan: Plan, lists_arrays: bool, is_dry: bool = True) -> None:
        """Print what a plan would do.

        Args:
            plan: a plan that has not run.
            lists_arrays: whether a line is printed for each array.
            is_dry: whether the plan will not be run, so that an output that exists is reported.
        """
        from anydml.stores.running.run import refusal_of_outputs

        refusal = refusal_of_outputs(plan) if is_dry else None
        refused = None if refusal is None else with_options(refusal)
        if self._as_json:
            dry = {"refused": refused} if is_dry else {}
            print_json({**self._report(plan), "written": False, **dry, "files": _files(plan, lists_arrays)})
            return
        self._describe(plan)
        for file, file_targets in plan.by_file():
            if file is None:
                for target in file_targets:
                    self._print(f"  {target!r}")
                continue
            self._print(f"  {file.path.name}: {count_noun(len(file_targets), 'tensor')}, {bytes_text(file.size)}")
            for target in file_targets if lists_arrays else ():
                array = array_as_json(target)
                self._print(f"    {array['name']}: {array['dtype']} {array['shape']}")
        if refused is not None:
            # Also said if quiet, for it is an error of the command that writes.
            print_line(escape_controls(f"would be refused: {refused}"))

    def run_and_verify(self, plan: Plan, scheduler: str | None) -> int:
        """Describe a plan, run it, compare its outputs with its inputs, and report both; the exit code."""
        self.run(plan, scheduler, lambda: plan.verify(self.shows_progress))
        return 1 if self._difference else 0

    def run(self, plan: Plan, scheduler: str | None, verify: Callable[[], str | None] | None = None) -> None:
        """Describe a plan, run it and report its result.

        Args:
            plan: a plan that has not run.
            scheduler: as in `anydml.stores.Plan.run`.
            verify: returns a difference of what was written, if there is one.

        Raises:
            ModelError: an output exists and may not be replaced; the plan is then not printed.
        """
        from anydml.stores.running.run import refusal_of_outputs

        if (refused := refusal_of_outputs(plan)) is not None:
            raise ModelError(refused)
        self._describe(plan)
        plan.run(progress=self.shows_progress, scheduler=scheduler)
        verified = {}
        if verify is not None:
            self._difference = verify()
            verified = {"verified": self._difference is None, "difference": self._difference}
        if self._as_json:
            outcome = {
                "written": True,
                "already_complete": plan.already_complete,
                "blocks_resumed": plan.resumed,
                **verified,
            }
            print_json({**self._report(plan), **outcome, "files": _files(plan, False)})
        elif plan.already_complete:
            self._print(f"'{self._output}' is complete: this command wrote it before, and nothing has changed since")
        else:
            if plan.resumed:
                self._print(f"resumed: {plan.resumed} of {len(plan.blocks)} blocks were already written")
            self._print(f"written to '{self._output}'")
        if verified and not self._as_json:
            # Also said if quiet, because it is an error.
            print_line(escape_controls(self._difference)) if self._difference else self._print(
                "verified: it holds the elements of its input"
            )

    def report_task(self, file: str, task: int) -> None:
        """Report a task of a plan in a file."""
        if self._as_json:
            print_json({"plan": file, "task": task, "written": True})
        else:
            self._print(f"task {task} of '{file}' is written")

    def report_finished(self, plan: Plan) -> None:
        """Report a plan whose tasks have ended."""
        self._output = ", ".join(
            str(path) for path in dict.fromkeys(plan.folder or output.path for output in plan.outputs)
        )
        if self._as_json:
            outcome = {"written": True, "already_complete": plan.already_complete, "blocks_resumed": plan.resumed}
            print_json({**self._report(plan), **outcome})
        elif plan.already_complete:
            self._print(f"'{self._output}' is complete: this plan was finished before, and nothing has changed since")
        else:
            self._print(f"tasks had written {plan.resumed} of {count_noun(len(plan.blocks), 'block')}")
            self._print(f"written to '{self._output}'")

    def _report(self, plan: Plan) -> dict[str, Any]:
        totals = plan.totals
        return {
            "output": self._output,
            "arrays_read": len(plan.inputs),
            "arrays_written": len(plan.outputs),
            "bytes_read": totals.bytes_read,
            "bytes_written": totals.bytes_written,
            "is_estimate": plan.blocking.is_estimate,
            "blocks": len(plan.blocks),
            "remarks": plan.remarks,
        }

    def _describe(self, plan: Plan) -> None:
        for line in str(plan).splitlines():
            self._print(line)
        for remark in () if self._prints_text or self._as_json else plan.remarks:
            # Also said if quiet: an array that cannot be read.
            if remark.startswith('leaves out "'):
                warn(f"{plan.name} {remark}")

    def _print(self, line: str) -> None:
        if self._prints_text:
            print_line(escape_controls(line))


def _files(plan: Plan, lists_arrays: bool) -> Sequence[dict[str, Any]]:
    """Return the files and Zarr arrays that a plan writes."""
    files: list[dict[str, Any]] = []
    for file, file_targets in plan.by_file():
        if file is None:
            files += [
                {"path": str(target.path), **array_as_json(target), "chunks": [*target.chunks]}
                for target in file_targets
            ]
        else:
            arrays = {"arrays": [array_as_json(target) for target in file_targets]} if lists_arrays else {}
            files.append({"path": str(file.path), "bytes": file.size, "count": len(file_targets), **arrays})
    return files
