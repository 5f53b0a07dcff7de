"""A broken rule of an operator, and DirectML's spelling of fields."""

from __future__ import annotations

import functools

from anydml.errors import DescError
from anydml.feature_level import FeatureLevel
from anydml.records import Record, record
from anydml.text import with_rule


@record
class Problem(Record):
    """A broken rule of an operator.

    Attributes:
        operator: the operator, such as ``"DML_SPLIT"``.
        field: the field, such as ``"OutputTensors[1].Sizes"``.
        message: field and values, as a sentence.
        rule: the rule, by the operator's document.
        needs: the lowest feature level that would allow it, or None.
        comes_from_level: whether only the feature level forbids it; `message` names the level and what it supports.

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
    comes_from_level: bool = False

    def __repr__(self) -> str:
        fields = [f"{name}={getattr(self, name)!r}" for name in self.__match_args__ if name != "comes_from_level"]
        return f"Problem({', '.join(fields)})"

    def __str__(self) -> str:
        message = self.message if self.comes_from_level else with_rule(self.message, self.rule)
        return f"{self.operator}: {message}" + (f"; it needs {self.needs}" if self.needs else "")

    def error(self) -> DescError:
        """Return the `DescError` that `check` raises for this problem."""
        return DescError(str(self), self.operator, self.field, self.rule)


@functools.lru_cache(4096)
def camel(field: str) -> str:
    """Convert a field's name to DirectML's spelling: ``input_tensor`` to ``InputTensor``."""
    return "".join(word[:1].upper() + word[1:] for word in field.split("_"))


def dimension_text(low: int, high: int) -> str:
    """Format a range of dimension counts: ``4`` or ``1 to 8``."""
    return str(low) if low == high else f"{low} to {high}"
