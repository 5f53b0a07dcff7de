"""JSON as DxDispatch reads it: comments and trailing commas are legal, and what follows the root value is ignored.

The text is blanked, never shortened, before Python's own parser reads it, so its line and column numbers hold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from anydml.dxdispatch.place import Place
from anydml.errors import ModelError

# A string comes first, so that nothing inside one is taken for a comment. Every alternative matches to the end of the
# text when its own end is missing: one pass, whatever the text.
_COMMENT = re.compile(r'"(?:[^"\\]++|\\.)*+"?|//[^\n\r]*|/\*.*?(?:\*/|\Z)|(?<![\w.])-?(?:NaN|Infinity)\b', re.DOTALL)
_COMMA = re.compile(r'"(?:[^"\\]++|\\.)*+"?|,(?=[ \t\r\n]*[\]}])', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_VISIBLE = re.compile(r"[^\r\n]")


class _Repeated(dict[str, Any]):
    """An object in which a key stood twice."""

    key: str = ""


def loads(text: str, place: Place) -> Any:
    """The value of a JSON text with comments and trailing commas.

    Args:
        text: the text; after its root value anything may follow, as in DxDispatch.
        place: the file, for errors.

    Raises:
        ModelError: a syntax error (with line and column), a repeated key (with its JSON path), or nesting beyond what
            can be read.
    """

    def blank(match: re.Match[str]) -> str:
        token = match[0]
        if token[0] == '"':
            return token
        if token[0] != "/":
            raise _syntax(text, match.start(), f'{token} is not JSON; write "{_quoted(token)}"', place)
        if token[1] == "*" and (len(token) < 4 or not token.endswith("*/")):
            raise _syntax(text, match.start(), "this comment has no end", place)
        return _VISIBLE.sub(" ", token)

    plain = _COMMENT.sub(blank, text)
    plain = _COMMA.sub(lambda match: match[0] if _stays(match) else " ", plain)
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
        start = _SPACE.match(plain)
        root, _ = json.JSONDecoder(object_pairs_hook=make).raw_decode(plain, start.end() if start else 0)
    except json.JSONDecodeError as error:
        message = error.msg[:1].lower() + error.msg[1:]
        raise _syntax(text, error.pos, message, place) from None
    except RecursionError:
        raise place.error("arrays and objects are nested too deeply to be read") from None
    except ValueError:
        # Python refuses to convert integers of thousands of digits.
        raise place.error("a number has more digits than can be read") from None
    if repeated:
        where, key = next(_find(root, place))
        raise (where / key).error("this key stands twice in one object; remove one of them")
    return root


def _stays(comma: re.Match[str]) -> bool:
    """Whether a match is a string, or a comma before a bracket that has no value before it: an error, left to JSON."""
    if comma[0] != ",":
        return True
    before = comma.start() - 1
    while before >= 0 and comma.string[before] in " \t\r\n":
        before -= 1
    return before < 0 or comma.string[before] in "[{,:"


def _find(root: Any, place: Place) -> Iterator[tuple[Place, str]]:
    """The objects with a repeated key, in the order of the file; a stack, since nesting has no bound here."""
    stack: list[tuple[Any, Place]] = [(root, place)]
    while stack:
        value, where = stack.pop()
        if isinstance(value, _Repeated):
            yield where, value.key
        if isinstance(value, dict):
            stack.extend((item, where / key) for key, item in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend((value[i], where / i) for i in range(len(value) - 1, -1, -1))


def _quoted(token: str) -> str:
    return token.lower().replace("infinity", "inf")


def _syntax(text: str, position: int, message: str, place: Place) -> ModelError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return place.error(f"line {line}, column {column}: {message}")
