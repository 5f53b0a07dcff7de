"""JSON as DxDispatch reads it: comments and trailing commas are legal, and what follows the root value is ignored.

The text is blanked, never shortened, before Python's own parser reads it, so its line and column numbers hold. Memory
beside the values is at most three texts, whatever stands in them.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from anydml.errors import ModelError
from anydml.files.json_path import JsonPath

# A string comes first, so that nothing inside one is taken for a comment. Every alternative matches to the end of the
# text when its own end is missing: one pass, whatever the text.
_COMMENT = re.compile(r'"(?:[^"\\]++|\\.)*+"?|//[^\n\r]*|/\*.*?(?:\*/|\Z)|(?<![\w.])-?(?:NaN|Infinity)\b', re.DOTALL)
_COMMA = re.compile(r'"(?:[^"\\]++|\\.)*+"?|,(?=[ \t\r\n]*[\]}])|[\[{\]}]', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_VISIBLE = re.compile(r"[^\r\n]")

MOST_DEPTH = 100
"""Arrays and objects in each other; a model needs eight."""


class _Repeated(dict[str, Any]):
    """An object in which a key stood twice."""

    key: str = ""


A_MODEL = "a model must be a JSON object, or an ONNX model whose name ends in .onnx"


def plain(text: str, place: JsonPath) -> str:
    """A text of the same length and lines that has no comments and trailing commas.

    Args:
        text: as for `loads`.
        place: the file, for errors.

    Raises:
        ModelError: a comment that does not end, a number that JSON does not have, or nesting beyond `MOST_DEPTH`.
    """

    def blank_comment(match: re.Match[str]) -> str | None:
        token = match[0]
        if token[0] == '"':
            return None
        if token[0] != "/":
            raise _syntax(text, match.start(), f'{token} is not JSON; write "{_quoted(token)}"', place)
        if token[1] == "*" and (len(token) < 4 or not token.endswith("*/")):
            raise _syntax(text, match.start(), "this comment has no end", place)
        return _VISIBLE.sub(" ", token)

    depth, ended = 0, False

    def blank_comma(match: re.Match[str]) -> str | None:
        nonlocal depth, ended
        token = match[0]
        if token in ("[", "{"):
            depth += 1
            if depth > MOST_DEPTH and not ended:
                reason = f"arrays and objects are nested too deeply to be read, more than {MOST_DEPTH}"
                raise _syntax(text, match.start(), reason, place)
        elif token in ("]", "}"):
            depth -= 1
            ended = ended or depth <= 0
        return " " if token == "," and not _stays(match) else None

    return _blanked(_blanked(text, _COMMENT, blank_comment), _COMMA, blank_comma)


def loads(text: str, place: JsonPath) -> Any:
    """The value of a JSON text with comments and trailing commas.

    Args:
        text: the text; after its root value anything may follow, as in DxDispatch.
        place: the file, for errors.

    Raises:
        ModelError: a syntax error (with line and column), a repeated key (with its JSON path), or nesting beyond
            `MOST_DEPTH`.
    """
    if _SPACE.fullmatch(text):
        raise place.error("the file is empty", rule="a model must be a JSON object")
    blanked = plain(text, place)
    repeated: list[_Repeated] = []

    def make(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) == len(pairs):
            return value
        seen: set[str] = set()
        marked = _Repeated(value)
        marked.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        repeated.append(marked)
        return marked

    try:
        start = _SPACE.match(blanked)
        root, _ = json.JSONDecoder(object_pairs_hook=make).raw_decode(blanked, start.end() if start else 0)
    except json.JSONDecodeError as error:
        message = _what_is_wrong(error.msg, 0 < len(blanked.rstrip()) <= error.pos)
        if error.msg == "Expecting value" and not blanked[: error.pos].strip():
            message += f": this is no JSON, and {A_MODEL}"
        raise _syntax(text, error.pos, message, place) from None
    except ValueError:
        # Python refuses to convert integers of thousands of digits.
        raise place.error("a number has more digits than can be read") from None
    if repeated:
        # One that is gone stood at a key that another took, so that the object around them is marked, too.
        where, key = next(_find(root, place))
        raise (where / key).error("this key stands twice in one object; remove one of them")
    return root


def _what_is_wrong(message: str, is_at_the_end: bool) -> str:
    if message.startswith("Unterminated string"):
        return "a string begins here that has no end"
    said = message[:1].lower() + message[1:]
    return f"the file ends here: {said}" if is_at_the_end else said


def _blanked(text: str, pattern: re.Pattern[str], blank: Callable[[re.Match[str]], str | None]) -> str:
    """A text with the matches replaced for which `blank` has something to put there; itself where there are none."""
    written, end = io.StringIO(), 0
    for match in pattern.finditer(text):
        instead = blank(match)
        if instead is not None:
            written.write(text[end : match.start()])
            written.write(instead)
            end = match.end()
    if not end:
        return text
    written.write(text[end:])
    return written.getvalue()


def _stays(comma: re.Match[str]) -> bool:
    """Whether a comma before a bracket has no value before it: an error, left to JSON."""
    before = comma.start() - 1
    while before >= 0 and comma.string[before] in " \t\r\n":
        before -= 1
    return before < 0 or comma.string[before] in "[{,:"


def _find(root: Any, place: JsonPath) -> Iterator[tuple[JsonPath, str]]:
    """The objects with a repeated key, in the order of the file."""
    if isinstance(root, _Repeated):
        yield place, root.key
    items = root.items() if isinstance(root, dict) else enumerate(root) if isinstance(root, list) else ()
    for key, item in items:
        if isinstance(item, dict | list):
            yield from _find(item, place / key)


def _quoted(token: str) -> str:
    return token.lower().replace("infinity", "inf")


def _syntax(text: str, position: int, message: str, place: JsonPath) -> ModelError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return place.error(f"line {line}, column {column}: {message}")
