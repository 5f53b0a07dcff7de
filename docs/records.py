"""An extension of griffe, which reads the sources for the reference: constructors of records, from their fields."""

from __future__ import annotations

import re
from typing import Any

import griffe

TAKEN = ((r"ListOf\[(.*)\]", r"Sequence[\1]"), (r"Named\[(.*)\]", r"\1 | str"), (r"Given\[(.*), \w+\]", r"\1"))
"""What is given for a field, by its annotation (see `anydml.records`)."""


class Records(griffe.Extension):
    """Gives every class that is decorated with `record`, and has no constructor, one."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Add the constructor."""
        if "__init__" in cls.members or not any(str(each.value) == "record" for each in cls.decorators):
            return
        fields = _fields(cls)
        parameters = griffe.Parameters(
            *(
                griffe.Parameter(
                    each.name,
                    annotation=_taken(str(each.annotation)),
                    kind=griffe.ParameterKind.positional_or_keyword,
                    default=None if each.value is None else str(each.value),
                )
                for each in fields
            )
        )
        cls.set_member("__init__", griffe.Function("__init__", parameters=parameters, lineno=cls.lineno))


def _fields(cls: griffe.Class) -> list[Any]:
    """Return a record's fields, after those of its bases in the same file."""
    bases = [cls.parent.members.get(str(base)) for base in cls.bases] if cls.parent else []
    fields = [field for base in bases if isinstance(base, griffe.Class) for field in _fields(base)]
    own = [each for each in cls.members.values() if each.is_attribute and each.annotation is not None]
    return fields + [each for each in own if "ClassVar" not in str(each.annotation)]


def _taken(annotation: str) -> str:
    for pattern, taken in TAKEN:
        annotation = re.sub(f"^{pattern}$", taken, annotation)
    return annotation
