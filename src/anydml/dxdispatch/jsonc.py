"""Parse JSON as DxDispatch does, with comments and trailing commas. Unlike there, nothing may follow the root value.

Comments and trailing commas are replaced by spaces before Python's parser reads the text, so that line and column
numbers in errors stay correct. Besides the values, parsing takes at most three times the memory of the text.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from anydml.errors import ModelError
from anydml.files.location import Location

# Strings are matched first, so that nothing inside a string is taken for a comment. Unterminated tokens match up to the
# end of the text, so that the scan takes linear time on any input.
_COMMENT = re.compile(r'"(?:[^"\\]++|\\.)*+"?|//[^\n\r]*|/\*.*?(?:\*/|\Z)|(?<![\w.])-?(?:NaN|Infinity)\b', re.DOTALL)
_COMMA = re.compile(r'"(?:[^"\\]++|\\.)*+"?|,(?=[ \t\r\n]*[\]}])|[\[{\]}]', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_VISIBLE = re.compile(r"[^\r\n]")

MAX_DEPTH = 100
"""Largest nesting of arrays and objects; a model needs eight levels."""


class _WithDuplicate(dict[str, Any]):
    """An object with a duplicate key, the first of which is `key`."""

    key: str = ""


A_MODEL = "a model must be a JSON object, or an ONNX model whose name ends in .onnx"


def without_comments(text: str, location: Location) -> str:
    """Replace comments and trailing commas by spaces; line breaks stay.

    Args:
        text: as for `loads`.
        location: the file, for errors.

    Raises:
        ModelError: a comment is unterminated, a number is NaN or Infinity, or nesting exceeds `MAX_DEPTH`.
    """

    def blank_comment(match: re.Match[str]) -> str | None:
        token = match[0]
        if token[0] == '"':
            return None
        if token[0] != "/":
            raise _syntax(text, match.start(), f'{token} is not JSON; write "{_number_word(token)}"', location)
        if token[1] == "*" and (len(token) < 4 or not token.endswith("*/")):
            raise _syntax(text, match.start(), "this comment has no end", location)
        return _VISIBLE.sub(" ", token)

    depth = 0

    def blank_comma(match: re.Match[str]) -> str | None:
        nonlocal depth
        token = match[0]
        if token in ("[", "{"):
            depth += 1
            if depth > MAX_DEPTH:
                reason = f"arrays and objects are nested too deeply to be read, more than {MAX_DEPTH}"
                raise _syntax(text, match.start(), reason, location)
        elif token in ("]", "}"):
            depth -= 1
        return " " if token == "," and not _is_stray(match) else None

    return _blank_out(_blank_out(text, _COMMENT, blank_comment), _COMMA, blank_comma)


def loads(text: str, location: Location) -> Any:
    """Parse JSON with comments and trailing commas.

    Args:
        text: the text.
        location: the file, for errors.

    Raises:
        ModelError: the text has a syntax error (reported with line and column) or a duplicate key (reported with its
            JSON path), or nesting exceeds `MAX_DEPTH`.
    """
    if _SPACE.fullmatch(text):
        raise location.error("the file is empty", rule="a model must be a JSON object")
    blanked = without_comments(text, location)
    duplicates: list[_WithDuplicate] = []

    def make(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) == len(pairs):
            return value
        earlier_keys: set[str] = set()
        marked = _WithDuplicate(value)
        marked.key = next(key for key, _ in pairs if key in earlier_keys or earlier_keys.add(key))  # type: ignore[func-returns-value]
        duplicates.append(marked)
        return marked

    try:
        start = _SPACE.match(blanked)
        root, end = json.JSONDecoder(object_pairs_hook=make).raw_decode(blanked, start.end() if start else 0)
    except json.JSONDecodeError as error:
        message = _syntax_message(error.msg, 0 < len(blanked.rstrip()) <= error.pos)
        if error.msg == "Expecting value" and not blanked[: error.pos].strip():
            message += f": this is not JSON, and {A_MODEL}"
        raise _syntax(text, error.pos, message, location) from None
    except ValueError:
        # Python does not convert integers of more than 4,300 digits.
        raise location.error("a number has more digits than can be read") from None
    after = _SPACE.match(blanked, end)
    if after is not None and after.end() < len(blanked):
        raise _syntax(text, after.end(), "the model ends before this text; remove it", location)
    if duplicates:
        # A marked object may itself have been replaced by a duplicate key, but then its parent is marked.
        place_of_key, key = next(_find(root, location))
        raise (place_of_key / key).error("this key stands twice in one object; remove one of them")
    return root


_MISSING = {
    "Expecting property name enclosed in double quotes": 'a "key" or }',
    "Expecting ',' delimiter": "a comma or the closing bracket",
    "Expecting ':' delimiter": "a colon",
    "Expecting value": "a value",
}
"""What is missing where a file ends, by the errors of Python's parser."""


def _syntax_message(message: str, is_at_end: bool) -> str:
    if message.startswith("Unterminated string"):
        return "the string that begins here has no end"
    if is_at_end and message in _MISSING:
        return f"the file ends here, and {_MISSING[message]} is missing"
    return message[:1].lower() + message[1:].removesuffix(" at")


def _blank_out(text: str, pattern: re.Pattern[str], blank: Callable[[re.Match[str]], str | None]) -> str:
    """Replace each match of `pattern` by `blank(match)`, except where that is None."""
    written, end = io.StringIO(), 0
    for match in pattern.finditer(text):
        replacement = blank(match)
        if replacement is not None:
            written.write(text[end : match.start()])
            written.write(replacement)
            end = match.end()
    if not end:
        return text
    written.write(text[end:])
    return written.getvalue()


def _is_stray(comma: re.Match[str]) -> bool:
    """Return whether a comma before a closing bracket follows no value: an error that the JSON parser reports."""
    before = comma.start() - 1
    while before >= 0 and comma.string[before] in " \t\r\n":
        before -= 1
    return before < 0 or comma.string[before] in "[{,:"


def _find(root: Any, location: Location) -> Iterator[tuple[Location, str]]:
    """Yield the objects with a duplicate key and that key, in the order of the file."""
    if isinstance(root, _WithDuplicate):
        yield location, root.key
    items = root.items() if isinstance(root, dict) else enumerate(root) if isinstance(root, list) else ()
    for key, item in items:
        if isinstance(item, dict | list):
            yield from _find(item, location / key)


def _number_word(token: str) -> str:
    return token.lower().replace("infinity", "inf")


def _syntax(text: str, position: int, message: str, location: Location) -> ModelError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return location.error(f"line {line}, column {column}: {message}")
