"""A word: what a library calls an operation, and how its arguments map to the operation's.

Tables of words have a line for each: its names, the operation, and the library's parameters, which are the operation's
in the same order:

    name          passed on                     @name     an array of the trace, made a constant where it is none
    name=0        0 where it is not given       @@names   a list of arrays
    -name         taken and not passed on       *names    a list, or what is left of the arguments by position
    name|other    with another name             @*names   the same, of arrays
    **names       what is left of the arguments by position, as it is

An `out` that is no None is refused, wherever it stands.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

from anydml.tracing import shaping
from anydml.tracing.refusing import named, refused
from anydml.tracing.trace import Trace

_ABSENT: Any = object()
_SIGIL = re.compile(r"^([@*]*)([^|=]+)[^=]*")


class _Parameter(NamedTuple):
    names: list[str]
    kind: str
    default: Any


class Word:
    """A line of a table.

    Args:
        operation: what is done.
        parameters: how arguments map to its own: see above.
        fixed: arguments of the operation that the word itself stands for.
    """

    def __init__(self, operation: Callable[..., Any], parameters: str, **fixed: Any) -> None:
        self.operation = operation
        self.parameters = parameters
        self.fixed = fixed

    @cached_property
    def _parsed(self) -> list[_Parameter]:
        found = []
        for text in self.parameters.split():
            name, equals, default = text.partition("=")
            kind = name[: len(name) - len(name.lstrip("@*-"))]
            given = ast.literal_eval(default) if equals else None if kind == "-" else _ABSENT
            found.append(_Parameter(name[len(kind) :].split("|"), kind, given))
        return found

    @property
    def signature(self) -> str:
        """The parameters that count, as people write them."""
        kept = [each for each in self.parameters.split() if not each.startswith("-")]
        return ", ".join(_SIGIL.sub(lambda found: "*" * ("*" in found[1]) + found[2], each) for each in kept)

    def call(self, trace: Trace, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """What the operation gives.

        Raises:
            FuseError: it computes, or its arguments do not fit.
            TypeError: an argument is missing, or has no parameter.
        """
        rest, by_name = [*arguments], {**keywords}
        values: list[Any] = []
        for names, kind, default in self._parsed:
            if kind == "**" or ("*" in kind and len(rest) > 1):
                value, rest = rest, []
            elif rest:
                value = rest.pop(0)
            else:
                value = by_name.pop(next((name for name in names if name in by_name), ""), default)
            if value is _ABSENT:
                raise TypeError(f"missing argument {names[0]!r}")
            if kind == "-":
                _check_unwritten(names[0], value)
            elif kind == "@":
                values.append(trace.array(value))
            elif kind == "@@":
                values.append(shaping.arrays_of(trace, value))
            elif kind in ("*", "@*"):
                found = [*value] if isinstance(value, (list, tuple)) else [value]
                values.append(found if kind == "*" else shaping.arrays_of(trace, found))
            else:
                values.append(value)
        _check_unwritten("out", by_name.pop("out", None))
        if rest or by_name:
            raise TypeError(f"unexpected argument {next(iter(by_name), None) or rest[0]!r}")
        return self.operation(*values, **self.fixed)


class Undecided(Word):
    """A word whose result, or its shape, would depend on elements.

    Args:
        name: what errors call it.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def call(self, trace: Trace, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> NoReturn:
        """Never.

        Raises:
            FuseError: always.
        """
        raise refused(self.name, "what it gives, or how many elements that has, would depend on elements")


Table = Mapping[str, Word]


def lines(names: str, operation: Callable[..., Any], parameters: str, **fixed: Any) -> dict[str, Word]:
    """Several names of one word."""
    return dict.fromkeys(names.split(), Word(operation, parameters, **fixed))


def said(table: Table, key: str, name: str, trace: Trace, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """What a function of a library gives.

    Args:
        table: the library's words.
        key: the word.
        name: what errors call it.
        trace: of the arrays.
        arguments: by position.
        keywords: by name.

    Raises:
        FuseError: there is no such word, it computes, or arguments do not fit.
    """
    word = table.get(key)
    if word is None:
        raise refused(f"{name} of a traced array", "it is none of the functions that are known to move elements only")
    with named(name):
        return word.call(trace, arguments, keywords)


def _check_unwritten(name: str, value: Any) -> None:
    if name == "out" and value is not None:
        raise refused("an assignment into out", "take the result instead")
