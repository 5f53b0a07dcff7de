"""The line of a value in a JSON text, found by its path for an error."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"')
_SCALAR = re.compile(r"[^ \t\r\n,\[\]{}]*")
_NESTING = re.compile(r'[^"\[\]{}]*+(?:"(?:[^"\\]++|\\.)*+"|([\[{])|([\]}]))', re.DOTALL)
_SKIPPED_ELEMENTS = 1000
"""Elements of a list that are stepped over at once."""

_SKIPPED_SCALARS = re.compile(rf'(?:[^"\[\]{{}},]++,){{{_SKIPPED_ELEMENTS}}}')


class JsonLines:
    """Finds the lines of values in a JSON text.

    The text is read when the first line is requested. Requests in the order of the text are the cheapest.

    Args:
        read: gives the text, without comments and trailing commas, known to be JSON; None where it is no longer there.
        through: a key of objects that a path may leave out.
    """

    def __init__(self, read: Callable[[], str | None], through: str = "Desc") -> None:
        self._read = read
        self._through = through
        self._text: str | None = None
        self._objects: dict[int, dict[str, int]] = {}
        self._elements: dict[int, tuple[int, int]] = {}
        self._counted = (0, 1)

    def line(self, keys: Sequence[str | int]) -> int | None:
        """Return the line, from 1, of the value at `keys`; if there is none, of the innermost value around it.

        Args:
            keys: keys of objects and indices of arrays, from the root on.

        Returns:
            None for the root itself, and where the text is no longer there.
        """
        if self._text is None and keys:
            self._text = self._read()
        if self._text is None or not keys:
            return None
        position = _match_end(_SPACE, self._text, 0)
        for key in keys:
            child = self._child(position, key)
            if child is None:
                break
            position = child
        return self._line_at(position)

    def _child(self, start: int, key: str | int) -> int | None:
        opening = self._text[start]  # type: ignore[index]  # there is a text where there is a position
        if opening == "[":
            return self._element(start, key) if isinstance(key, int) else None
        if opening != "{" or not isinstance(key, str):
            return None
        if start not in self._objects:
            self._objects[start] = dict(self._members(start))
        members = self._objects[start]
        if key not in members and self._through in members:
            return self._child(members[self._through], key)
        return members.get(key)

    def _members(self, start: int) -> Iterator[tuple[str, int]]:
        text = self._text or ""
        position = _match_end(_SPACE, text, start + 1)
        while text[position] != "}":
            end = _match_end(_STRING, text, position)
            key = json.loads(text[position:end])
            position = _match_end(_SPACE, text, _match_end(_SPACE, text, end) + 1)
            yield key, position
            position = _next(text, position)

    def _element(self, start: int, index: int) -> int | None:
        text = self._text or ""
        count, position = self._elements.get(start, (0, -1))
        if position < 0 or count > index:
            count, position = 0, _match_end(_SPACE, text, start + 1)
        while count < index and text[position] != "]":
            scalars = _SKIPPED_SCALARS.match(text, position) if index - count >= _SKIPPED_ELEMENTS else None
            position = _match_end(_SPACE, text, scalars.end()) if scalars else _next(text, position)
            count += _SKIPPED_ELEMENTS if scalars else 1
        self._elements[start] = count, position
        return position if text[position] != "]" else None

    def _line_at(self, position: int) -> int:
        text = self._text or ""
        before, line = self._counted if self._counted[0] <= position else (0, 1)
        self._counted = position, line + text.count("\n", before, position)
        return self._counted[1]


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return the end of a pattern's match at a position."""
    match = pattern.match(text, position)
    return match.end() if match else position


def _next(text: str, position: int) -> int:
    """Return the position after a value and its comma: of the next value, or of the bracket that ends the list."""
    if text[position] == '"':
        position = _match_end(_STRING, text, position)
    elif text[position] in "[{":
        depth, end = 1, position + 1
        while depth:
            match = _NESTING.match(text, end)
            if match is None:
                break
            end = match.end()
            depth += bool(match[1]) - bool(match[2])
        position = end
    else:
        position = _match_end(_SCALAR, text, position)
    position = _match_end(_SPACE, text, position)
    return _match_end(_SPACE, text, position + 1) if text[position] == "," else position
