"""Locations of errors: a file, a line, and a JSON path in the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from anydml.errors import ModelError
from anydml.files.json_lines import JsonLines
from anydml.text import escape_controls

_PLAIN = re.compile(r"[\w$-]+")
MAX_KEY = 60
"""Characters of a key that a path shows."""


class Location:
    """The location of an error in a file, with a JSON path: ``Location("model.json") / "dispatchables" / "split"``.

    A step costs the same however long the path is, because the text is made only when it is read.

    Args:
        file: the file as the user named it.
        path: the JSON path to start from, if it is not that of the root.
        lines: finds lines; without it, errors have the path only.
    """

    __slots__ = ("_key", "_lines", "_parent", "_start", "file")

    def __init__(self, file: str, path: str = "", lines: JsonLines | None = None) -> None:
        self.file = file
        self._start = path
        self._lines = lines
        self._parent: Location | None = None
        self._key: str | int = ""

    def __truediv__(self, key: str | int) -> Location:
        step = Location(self.file, self._start, self._lines)
        step._parent = self
        step._key = key
        return step

    def field(self, name: str) -> Location:
        """Return the location of a field, named as in errors: ``"OutputTensors[1].Sizes"``."""
        text = self
        for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", name):
            text = text / (key or int(index))
        return text

    @property
    def line(self) -> int | None:
        """The line of the file, from 1; None where it is not known, and for the whole file."""
        return self._lines.line([*self._keys()][::-1]) if self._lines else None

    @property
    def text(self) -> str:
        """File, line and path, as errors begin: ``model.json: line 12: dispatchables.split.desc.Axis``."""
        line, path = self.line, self.path
        return escape_controls(": ".join(filter(None, (self.file, f"line {line}" if line else "", path))))

    @property
    def path(self) -> str:
        """The JSON path; keys that are not plain words are quoted (``resources["my input"]``), long ones cut."""
        steps = "".join([_step(key) for key in self._keys()][::-1])
        return self._start + steps if self._start else steps.removeprefix(".")

    def _keys(self) -> Iterator[str | int]:
        text = self
        while text._parent is not None:
            yield text._key
            text = text._parent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and (self.file, self.path) == (other.file, other.path)

    def __hash__(self) -> int:
        return hash((self.file, self.path))

    def __str__(self) -> str:
        path = self.path
        return escape_controls(f"{self.file}: {path}" if path else self.file)

    def __repr__(self) -> str:
        return f"Location({self.file!r}, {self.path!r})"

    def error(self, message: str, operator: str | None = None, rule: str | None = None) -> ModelError:
        """Return the error with this location and a message, which may quote the file, as one printable line."""
        text = escape_controls(f"{self.text}: {message}")
        return ModelError(text, operator=operator, field=self.path or None, rule=rule, line=self.line)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise errors of the operating system with this location.

        Raises:
            ModelError: the file cannot be read.
        """
        try:
            yield
        except OSError as error:
            raise self.error(f"cannot be read: {error.strerror or error}") from None


def _step(key: str | int) -> str:
    if isinstance(key, int):
        return f"[{key}]"
    if _PLAIN.fullmatch(key) and len(key) <= MAX_KEY:
        return f".{key}"
    text = escape_controls(json.dumps(key[: MAX_KEY - 3] if len(key) > MAX_KEY else key, ensure_ascii=False))
    return f'[{text[:-1]}..."]' if len(key) > MAX_KEY else f"[{text}]"


def show(value: Any) -> str:
    """Return a JSON value for an error message: as it was written if that is short, otherwise its type."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"an array of {len(value)}"
    if isinstance(value, int) and abs(value) >= 10**40:
        return "an integer of more than 40 digits"
    if isinstance(value, str) and len(value) > MAX_KEY:
        value = value[:MAX_KEY]
    text = escape_controls(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= 60 else f"{text[:57]}..."


def names(allowed: Iterable[str]) -> str:
    """List the first ten allowed names, for an error message."""
    first: list[str] = []
    count = 0
    for name in allowed:
        count += 1
        if count <= 10:
            first.append(show(name))
    return ", ".join(first) + (f" and {count - 10} more" if count > 10 else "") or "none"
