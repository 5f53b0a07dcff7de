"""What `anydml check` has to say, for people and for machines."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence

from anydml.text import printable


@dataclasses.dataclass(frozen=True)
class Remark:
    """One thing that is wrong, or that was not checked.

    Attributes:
        node: what it is about.
        place: what lines begin with, where the message does not name the node itself.
        field: of the operator.
        operator: its name.
        message: what is wrong, or why it was not checked.
        rule: that is broken; None where nothing was checked.
        needs: the feature level that allows it, if there is one.
    """

    node: str
    place: str | None
    field: str | None = None
    operator: str | None = None
    message: str = ""
    rule: str | None = None
    needs: str | None = None

    @property
    def is_problem(self) -> bool:
        """Whether it is wrong."""
        return self.rule is not None

    def lines(self, model: str) -> Iterator[str]:
        """For people."""
        if self.rule is None:
            yield printable(f"{model}: {self.place}: not checked: {self.message}")
            return
        # Errors of ONNX's rules name their node themselves.
        where = model if self.place is None else f"{model}: {self.place}.{self.field}: {self.operator}"
        yield printable(f"{where}: {self.message}")
        yield printable(f"    rule: {self.rule}")
        yield f"    {self.needs} allows it" if self.needs else "    no feature level allows it"


def report(model: str, level: str, remarks: Sequence[Remark], conforming: int) -> str:
    """For machines: one line of JSON, in ASCII.

    Its keys: `model`, `feature_level`, `conforming` (how many nodes do), `problems` (each with `place`, `field`,
    `operator`, `message`, `rule`, `needs`), and `not_checked` (each with `place` and `message`).
    """
    problems = [dataclasses.asdict(remark) for remark in remarks if remark.is_problem]
    for problem in problems:
        del problem["node"]
    others = [{"place": each.place, "message": each.message} for each in remarks if not each.is_problem]
    head = {"model": model, "feature_level": level, "conforming": conforming}
    return json.dumps({**head, "problems": problems, "not_checked": others})
