"""`anydml check` for ONNX files: a verdict, a line per operator, and the nodes that were not checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anydml.cli.check_results import CheckResult, Report, lowest_level, problem_lines
from anydml.cli.onnx_commands import load_onnx
from anydml.text import count_noun, escape_controls

if TYPE_CHECKING:
    from onnx import ModelProto

    from anydml.cli.standard_input import ModelFile
    from anydml.feature_level import FeatureLevel
    from anydml.onnx.translation_findings import Finding
    from anydml.operators import OperatorDesc

SOUND, BROKEN, PARTLY = 0, 1, 3
"""Exit codes of `anydml check` for files that can be read."""

NO_COUNTS = {"not_looked_at": 0, "on_host": 0, "emulated": 0}
"""Further counts in the report on an ONNX file that cannot be read."""


@dataclass(frozen=True)
class Checked:
    """The result of a check.

    Attributes:
        findings: findings about the model's nodes.
        remarks: problems, and nodes that were not checked.
        level: the feature level.
        emulated: names of nodes that DirectML refuses at that level, and ONNX Runtime's provider emulates.
    """

    findings: Sequence[Finding]
    remarks: Sequence[CheckResult]
    level: FeatureLevel
    emulated: Collection[str] = ()

    @property
    def problems(self) -> list[CheckResult]:
        """The remarks that are problems."""
        return [remark for remark in self.remarks if remark.is_problem]

    @property
    def conforming(self) -> list[Finding]:
        """The nodes that DirectML accepts."""
        broken = {remark.node for remark in self.problems} | {*self.emulated}
        checked = (
            finding
            for finding in self.findings
            if finding.desc is not None and not finding.on_host and not finding.unchecked
        )
        return [finding for finding in checked if finding.node not in broken]

    @property
    def code(self) -> int:
        """The exit code of the command: 0 only if every movement node was looked at, and one would run."""
        from anydml.onnx.unchecked_summary import not_looked_at

        if self.problems:
            return BROKEN
        return SOUND if (self.conforming or self.emulated) and not not_looked_at(self.findings) else PARTLY

    @cached_property
    def lowest(self) -> FeatureLevel | None:
        """The lowest feature level that allows all checked nodes; None if no level does, or no node was checked."""
        return self._lowest(lambda desc, level: not desc.problems(level))

    @cached_property
    def lowest_emulated(self) -> FeatureLevel | None:
        """The lowest feature level at which each node that was checked is allowed or emulated, as `lowest`."""
        from anydml.onnx.emulation import is_emulated

        return self._lowest(lambda desc, level: not desc.problems(level) or is_emulated(desc, level))

    def _lowest(self, runs: Callable[[OperatorDesc, FeatureLevel], bool]) -> FeatureLevel | None:
        checked = [finding for finding in self.findings if not finding.on_host and finding.unchecked is None]
        descs = [finding.desc for finding in checked if finding.desc is not None]
        if not descs or any(finding.error is not None for finding in checked):
            return None
        return lowest_level(lambda level: all(runs(desc, level) for desc in descs))

    def lines(self, model: str, verbose: bool) -> Iterator[str]:
        """Yield the report as text.

        Args:
            model: name of the file.
            verbose: whether to include a line per node.
        """
        from anydml.onnx.unchecked_summary import left_out, not_looked_at, out_of_scope

        conforming, broken = self.conforming, {remark.node for remark in self.problems}
        nodes = f"{count_noun(len(conforming), 'movement node')} conform{'s' * (len(conforming) == 1)} to {self.level}"
        problems = (
            [f"{count_noun(len(self.problems), 'problem')} in {count_noun(len(broken), 'node')}"] if broken else []
        )
        unchecked, on_host = len(not_looked_at(self.findings)), sum(finding.on_host for finding in self.findings)
        missing = (
            f"{count_noun(unchecked, 'movement node')} {'was' if unchecked == 1 else 'were'} not checked"
            if unchecked
            else ""
        )
        emulation = _emulation(len(self.emulated), self.level) if self.emulated else ""
        verdict = [missing, *problems, nodes if conforming else "", emulation, out_of_scope(self.findings)]
        if not broken and not conforming and not self.emulated:
            verdict = [f"no node was checked at {self.level}", *verdict]
        if on_host:
            verdict.append(f"{count_noun(on_host, 'node')} of shape arithmetic run{'s' * (on_host == 1)} on the host")
        yield escape_controls(f"{model}: {'; '.join(filter(None, verdict))}")
        yield from problem_lines(self.problems, model, None if verbose else 1)
        broken_counts = Counter(finding.operator for finding in self.findings if finding.node in broken)
        conforming_counts = Counter(finding.operator for finding in conforming)
        emulated_counts = Counter(finding.operator for finding in self.findings if finding.node in self.emulated)
        for operator in {**conforming_counts, **emulated_counts, **broken_counts}:
            parts = (
                [f"{conforming_counts[operator]} conform{'s' * (conforming_counts[operator] == 1)}"]
                if conforming_counts[operator]
                else []
            )
            parts += [f"{emulated_counts[operator]} emulated"] if emulated_counts[operator] else []
            parts += [f"{broken_counts[operator]} with problems"] if broken_counts[operator] else []
            yield f"    {operator}: {', '.join(parts)}"
        lowest, emulated = self.lowest, self.lowest_emulated
        if lowest is not None:
            if_emulated = f"; with 64-bit integers emulated, {emulated}" if emulated != lowest else ""
            yield f"    {lowest} is the lowest level that allows all that were checked{if_emulated}"
        for line in left_out(self.findings):
            yield escape_controls(f"{model}: {line}")
        if verbose:
            for finding in conforming:
                assert finding.desc is not None, "it conforms"
                yield escape_controls(
                    f"{model}: {finding.node}: {finding.operator} conforms as {finding.desc.OPERATOR}"
                )
            for remark in self.remarks:
                if not remark.is_problem:
                    yield from remark.lines(model)

    def report(self, model: str) -> Report:
        """Return the result in the form that machine-readable reports are made of."""
        from anydml.onnx.unchecked_summary import not_looked_at

        on_host = sum(finding.on_host for finding in self.findings)
        numbers = len(not_looked_at(self.findings)), on_host, len(self.emulated)
        counts = dict(zip(NO_COUNTS, numbers, strict=True))
        conforming, lowest = [finding.node for finding in self.conforming], self.lowest
        names = [str(level) if level else None for level in (lowest, self.lowest_emulated)]
        return Report(model, str(self.level), conforming, self.remarks, counts, *names)


def check_onnx(model: ModelFile, level: FeatureLevel, sizes: Mapping[str, int]) -> Checked:
    """Check an ONNX file against DirectML at a feature level.

    Args:
        model: the model.
        level: the feature level.
        sizes: values of symbolic sizes of inputs.

    Raises:
        ModelError: the file cannot be read or is not valid, or no input has a size of that name.
    """

    def findings(loaded: ModelProto) -> list[Finding]:
        from anydml.onnx.external import load_indices
        from anydml.onnx.node_descs import describe

        path = Path(model.path)
        load_indices(loaded, path, model.folder or path.parent)
        # A list, so that nothing is printed if the file turns out to be broken.
        return list(describe(loaded, sizes))

    model_findings = load_onnx(model.path, findings)
    from anydml.onnx.emulation import is_emulated

    described = [
        finding
        for finding in model_findings
        if finding.desc is not None and not finding.on_host and not finding.unchecked
    ]
    emulated = {finding.node for finding in described if finding.desc is not None and is_emulated(finding.desc, level)}
    remarks = [remark for finding in model_findings for remark in _remarks(finding, level, finding.node in emulated)]
    return Checked(model_findings, remarks, level, emulated)


def read_sizes(texts: Sequence[str]) -> dict[str, int]:
    """Parse ``NAME=SIZE`` options.

    Raises:
        ClickException: an option has another form.
    """
    sizes: dict[str, int] = {}
    for text in texts:
        name, equals, size = text.rpartition("=")
        # isdigit alone also accepts digits of other scripts.
        if not (name and equals and size.isascii() and size.isdigit() and int(size[:20]) < 2**63):
            raise click.ClickException(
                f"--size {text}: write --size NAME=SIZE, such as N=4, with a size of 0 to 2⁶³ − 1"
            )
        sizes[name] = int(size)
    return sizes


def _emulation(count: int, level: FeatureLevel) -> str:
    """Return the verdict on nodes that are emulated, as a sentence."""
    nodes = f"{count_noun(count, 'node')} move{'s' * (count == 1)} 64-bit integers"
    return f"{nodes}, which {level} refuses and ONNX Runtime's DirectML provider emulates by 32-bit ones"


def _remarks(finding: Finding, level: FeatureLevel, is_emulated: bool) -> Iterator[CheckResult]:
    if finding.on_host and finding.error is None:
        yield CheckResult(finding.node, finding.node, message="it only determines sizes, which the host computes")
    elif finding.unchecked is not None:
        yield CheckResult(finding.node, finding.node, message=finding.unchecked)
    elif finding.error is not None:
        error = finding.error
        rule = error.rule or "ONNX's document of the operator"
        yield CheckResult(finding.node, None, error.field, error.operator, str(error), rule)
    elif is_emulated:
        message = f"{level} refuses its 64-bit integers, which ONNX Runtime's DirectML provider emulates by 32-bit ones"
        yield CheckResult(finding.node, finding.node, message=message, verdict="emulated")
    elif finding.desc is not None:
        for problem in finding.desc.problems(level):
            needs = str(problem.needs) if problem.needs else None
            remark_fields = problem.field, problem.operator, problem.message, problem.rule, needs
            yield CheckResult(finding.node, finding.node, *remark_fields)
