"""Where in a model file something stands, so that every error can say so."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from anydml.errors import ModelError
from anydml.text import printable

_PLAIN = re.compile(r"[\w$-]+")


@dataclass(frozen=True, slots=True)
class Place:
    """A JSON path in a model file: ``Place("model.json") / "dispatchables" / "split"``.

    Attributes:
        file: the file as the user named it.
        path: the JSON path; keys that are not plain words are quoted: ``resources["my input"]``.
    """

    file: str
    path: str = ""

    def __truediv__(self, key: str | int) -> Place:
        if isinstance(key, int):
            return Place(self.file, f"{self.path}[{key}]")
        if not _PLAIN.fullmatch(key):
            return Place(self.file, f"{self.path}[{json.dumps(key)}]")
        return Place(self.file, f"{self.path}.{key}" if self.path else key)

    def __str__(self) -> str:
        return f"{self.file}: {self.path}" if self.path else self.file

    def error(self, message: str, operator: str | None = None, rule: str | None = None) -> ModelError:
        """The error that says `message` about this place."""
        return ModelError(f"{self}: {message}", operator=operator, field=self.path or None, rule=rule)


def show(value: Any) -> str:
    """A JSON value in an error message: as it was written where that is short, else what kind of thing it is."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if isinstance(value, int) and abs(value) >= 10**40:
        return "an integer of more than 40 digits"
    text = printable(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= 60 else f"{text[:57]}..."


def names(known: Iterable[str]) -> str:
    """The names that would have been right, for an error message; the first ten of them."""
    listed = [show(name) for name in known]
    return ", ".join(listed[:10]) + (f" and {len(listed) - 10} more" if len(listed) > 10 else "") or "none"
