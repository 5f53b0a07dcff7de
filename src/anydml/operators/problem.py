"""One broken rule of an operator, and how documents write what it names."""

from __future__ import annotations

import dataclasses
import functools
import re

from anydml.errors import DescError
from anydml.feature_level import FeatureLevel
from anydml.records import Record, record
from anydml.text import with_rule


@record
class Problem(Record):
    """One broken rule.

    Attributes:
        operator: ``"DML_SPLIT"``.
        field: ``"OutputTensors[1].Sizes"``.
        message: field and values, as a sentence.
        rule: the rule, as the document has it.
        needs: the lowest feature level that would allow it, None where no level does.
        is_of_level: whether the feature level alone refuses it; `message` names the level and what it has.

    Examples:
        >>> T = dml.TensorDesc
        >>> problem, = dml.SplitOperatorDesc(T("INT8", [4]), [T("INT8", [4])], axis=1).problems()
        >>> problem.field, problem.rule
        ('Axis', 'Axis must be 0 to InputTensor.DimensionCount − 1')
    """

    operator: str
    field: str
    message: str
    rule: str
    needs: FeatureLevel | None = None
    is_of_level: bool = dataclasses.field(default=False, repr=False)

    def __str__(self) -> str:
        message = self.message if self.is_of_level else with_rule(self.message, self.rule)
        return f"{self.operator}: {message}" + (f"; it needs {self.needs}" if self.needs else "")

    def error(self) -> DescError:
        """The error that says this."""
        return DescError(str(self), self.operator, self.field, self.rule)


@functools.lru_cache(4096)
def camel(field: str) -> str:
    """DirectML's spelling of a field: ``input_tensor`` is ``InputTensor``."""
    return re.sub(r"(?:^|_)(\w)", lambda match: match[1].upper(), field)


def dimension_text(low: int, high: int) -> str:
    """A range of dimension counts as the documents write it: ``4`` or ``1 to 8``."""
    return str(low) if low == high else f"{low} to {high}"
