"""What `anydml check` has to say, in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from anydml.text import printable


@dataclasses.dataclass(frozen=True)
class Remark:
    """A problem, or a node that was not checked.

    Attributes:
        node: what it is about: a node of a graph, a dispatchable, or a JSON path; empty where it is the whole file.
        place: what lines begin with, where the message does not name the node itself.
        field: of the operator.
        operator: its name.
        message: what is wrong, or why it was not checked.
        rule: that is broken, empty where the message says it; None where nothing was checked.
        needs: the feature level that allows it, if there is one.
        line: of the file, from 1, where it is known.
    """

    node: str
    place: str | None
    field: str | None = None
    operator: str | None = None
    message: str = ""
    rule: str | None = None
    needs: str | None = None
    line: int | None = None

    @property
    def is_problem(self) -> bool:
        """Whether the remark is a problem."""
        return self.rule is not None

    @property
    def remedy(self) -> str:
        """Which feature level allows it."""
        return f"{self.needs} allows it" if self.needs else "no feature level allows it"

    def lines(self, model: str) -> Iterator[str]:
        """Yield the remark as text."""
        if self.rule is None:
            yield printable(f"{model}: {self.place}: not checked: {self.message}")
            return
        # Errors of ONNX's rules name their node themselves.
        where = [model] if self.place is None else [model, f"{self.place}.{self.field}", self.operator or ""]
        if self.line is not None:
            where.insert(1, f"line {self.line}")
        yield printable(": ".join([*where, self.message]))
        if self.rule:
            yield printable(f"    rule: {self.rule}")
            yield f"    {self.remedy}"


@dataclasses.dataclass(frozen=True)
class Report:
    """What was found in a file.

    Attributes:
        model: the file's name.
        level: the feature level.
        conforming: names of the nodes, or dispatchables, that DirectML accepts.
        remarks: what is wrong, and what was not checked.
    """

    model: str
    level: str
    conforming: Sequence[str]
    remarks: Sequence[Remark]

    @property
    def problems(self) -> list[Remark]:
        """What is wrong."""
        return [remark for remark in self.remarks if remark.is_problem]

    @property
    def unchecked(self) -> list[Remark]:
        """What was not looked at."""
        return [remark for remark in self.remarks if not remark.is_problem]
