"""Layouts: rules in TOML for the tensors of a checkpoint.

A rule has a pattern of names and one action for each tensor that matches. Rules are applied in order.
"""

from __future__ import annotations

import enum
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anydml.errors import ModelError
from anydml.files.location import Location, names, show
from anydml.stores.checkpoints.axis import Axis
from anydml.stores.checkpoints.parallel_axes import Axes
from anydml.stores.checkpoints.patterns import Pattern

MAX_BYTES = 16 << 20
"""Maximum size in bytes of a layout."""

FieldCheck = Callable[[Any], bool]


def _is_integer(value: Any) -> bool:
    return type(value) is int and abs(value) < 1 << 62


def _are_integers(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_integer, value))


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_string, value))


def _is_true(value: Any) -> bool:
    return value is True


class Action(enum.StrEnum):
    """The actions of rules, by their keys in TOML."""

    RENAME = enum.auto()
    DROP = enum.auto()
    SPLIT = enum.auto()
    JOIN = enum.auto()
    STACK = enum.auto()
    UNSTACK = enum.auto()
    SLICE = enum.auto()
    PERMUTE = enum.auto()
    UNFLATTEN = enum.auto()
    FLATTEN = enum.auto()
    GATHER = enum.auto()
    REPLICATE = enum.auto()


_INTEGER = (_is_integer, "an integer, such as 0")
_INTEGERS = (_are_integers, "a list of integers, such as [2, 3]")
_AXIS = (_is_integer, "an axis, such as 0")
_NAME = (_is_string, 'a name in quotes, such as "model.{layer}.weight"')
_NAMES = (_are_strings, 'a list of names, such as ["{layer}.q.weight", "{layer}.k.weight"]')

ACTIONS: Mapping[Action, tuple[FieldCheck, str, Mapping[str, tuple[FieldCheck, str]], frozenset[str]]] = {
    Action.RENAME: (*_NAME, {}, frozenset()),
    Action.DROP: (_is_true, "true; leave the rule out to keep the tensors", {}, frozenset()),
    Action.SPLIT: (*_NAMES, {"axis": _INTEGER, "sizes": _INTEGERS}, frozenset({"axis"})),
    Action.JOIN: (*_NAMES, {"to": _NAME, "axis": _INTEGER}, frozenset({"to", "axis"})),
    Action.STACK: (*_NAME, {"to": _NAME}, frozenset({"to"})),
    Action.UNSTACK: (*_NAME, {}, frozenset()),
    Action.SLICE: (*_AXIS, {"start": _INTEGER, "stop": _INTEGER, "step": _INTEGER}, frozenset()),
    Action.PERMUTE: (_are_integers, "a list of all axes, such as [1, 0]", {}, frozenset()),
    Action.UNFLATTEN: (*_AXIS, {"sizes": _INTEGERS}, frozenset({"sizes"})),
    Action.FLATTEN: (_are_integers, "a list of the first and the last axis, such as [0, 1]", {}, frozenset()),
    Action.GATHER: (*_AXIS, {"indices": _INTEGERS}, frozenset({"indices"})),
    Action.REPLICATE: (_is_true, "true; give an axis in [[axes]] instead to divide the tensors", {}, frozenset()),
}
"""Actions: check and description of the value, those of further fields, and the required fields."""

WITHOUT_MATCH = (Action.JOIN, Action.STACK)
"""Actions whose values are the patterns of names."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a layout: an action on the tensors whose names match.

    Attributes:
        location: the location of the rule.
        match: the pattern of names; the first name of a join.
        action: the action on each tensor that matches.
        value: the value of the action.
        fields: the values of its other fields, by key.
    """

    location: Location
    match: Pattern
    action: Action
    value: Any
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LayoutRules:
    """Rules, and the axes along which ranks share the results."""

    rules: tuple[Rule, ...]
    axes: Axes


def read_layout(path: Path | None) -> LayoutRules:
    """Read a layout; without a path, one that changes nothing.

    Raises:
        ModelError: the file cannot be read, or is not a layout.
    """
    if path is None:
        return LayoutRules((), Axes())
    location = Location(str(path))
    try:
        with location.reading():
            if path.stat().st_size > MAX_BYTES:
                raise location.error(f"is larger than {MAX_BYTES} bytes")
            text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise location.error(f"is not TOML: it has a byte at {error.start} that is not UTF-8") from None
    return parse_layout(text, location)


def parse_layout(text: str, location: Location) -> LayoutRules:
    """Parse a layout.

    Raises:
        ModelError: the string is not a layout.
    """
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise location.error(
            f"is not TOML: {str(error).splitlines()[0] if str(error) else 'it is nested too deep'}"
        ) from None
    if unknown := [key for key in content if key not in ("rules", "axes")]:
        raise (location / unknown[0]).error("is not a table of a layout: use [[rules]] and [[axes]]")
    rules = [_rule(table, location_of_table) for table, location_of_table in _tables(content, "rules", location)]
    axes = [_axis(table, location_of_table) for table, location_of_table in _tables(content, "axes", location)]
    axes += [(rule.match, Axis(None)) for rule in rules if rule.action is Action.REPLICATE]
    return LayoutRules(tuple(rules), Axes(axes))


def _tables(content: Mapping[str, Any], key: str, location: Location) -> list[tuple[dict[str, Any], Location]]:
    tables = content.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise (location / key).error(
            f"{_describe_value(tables)}, but must be a list of tables: begin each with [[{key}]]"
        )
    return [(table, location / key / k) for k, table in enumerate(tables)]


def _pattern(pattern: Any, location: Location) -> Pattern:
    if not isinstance(pattern, str):
        raise location.error(
            f"{_describe_value(pattern)}, but must be a pattern of tensor names, such as "
            '"model.layers.{layer}.*.weight"'
        )
    try:
        return Pattern(pattern)
    except ModelError as error:
        raise location.error(str(error)) from None


def _rule(table: dict[str, Any], location: Location) -> Rule:
    actions = [action for action in Action if action in table]
    if len(actions) != 1:
        other_keys = [key for key in table if key not in (*ACTIONS, "match")]
        rule = (
            f"both {' and '.join(actions)}"
            if actions
            else f"no action, and the unknown {names(other_keys)}"
            if other_keys
            else "no action"
        )
        raise location.error(f"has {rule}: each rule must have exactly one of {', '.join(ACTIONS)}")
    action = actions[0]
    check, requirement, fields, required = ACTIONS[action]
    if not check(table[action]):
        raise (location / action).error(f"{_describe_value(table[action])}, but must be {requirement}")
    options = {key: value for key, value in table.items() if key not in (action, "match")}
    for key, value in options.items():
        if key not in fields:
            raise (location / key).error(
                f"is not a field of a rule with {action}: it may have match, {', '.join((action, *fields))}"
            )
        if not fields[key][0](value):
            raise (location / key).error(f"{_describe_value(value)}, but must be {fields[key][1]}")
    if missing := sorted(required - {*options}):
        raise location.error(f"has no {missing[0]}, which {action} needs: add {missing[0]}, {fields[missing[0]][1]}")
    if action in WITHOUT_MATCH:
        if "match" in table:
            raise (location / "match").error(f"is not allowed with {action}: the names in {action} select the tensors")
        first = table[action] if isinstance(table[action], str) else table[action][0]
        match = _pattern(first, location / action)
    else:
        match = _pattern(table.get("match"), location / "match")
    texts = [table[action]] if isinstance(table[action], str) else table[action] if _are_strings(table[action]) else []
    for text in (*texts, *([options["to"]] if "to" in options else [])):
        _pattern(text, location / action)
    return Rule(location, match, action, table[action], options)


def _axis(table: dict[str, Any], location: Location) -> tuple[Pattern, Axis]:
    for key in table:
        if key not in ("match", "axis", "heads", "parts", "replicate"):
            raise (location / key).error(
                "is not a field of axes: use match with axis, and perhaps heads or parts; or match with replicate"
            )
    match = _pattern(table.get("match"), location / "match")
    if "replicate" in table:
        if table != {"match": table["match"], "replicate": True}:
            raise location.error(
                "has replicate and other fields: write replicate = true alone, or leave replicate out and give an axis"
            )
        return match, Axis(None)
    heads, parts = table.get("heads"), table.get("parts", 1)
    if not _is_integer(table.get("axis")):
        raise (location / "axis").error(
            f"{_describe_value(table.get('axis'))}, but must be {_INTEGER[1]}: the axis that ranks share"
        )
    counts: list[Any] = heads if isinstance(heads, list) and heads else [heads]
    for count in counts:
        if count is not None and (not _is_integer(count) or count < 1):
            raise (location / "heads").error(
                f"{_describe_value(heads)}, but must be the number of heads, at least 1, or a list of such numbers"
            )
    if not _is_integer(parts) or parts < 1 or (heads is not None and parts > 1):
        raise (location / "parts").error(
            f"{_describe_value(parts)}, but must be the number of parts, at least 1, and only without heads"
        )
    return match, Axis(table["axis"], tuple(heads) if isinstance(heads, list) else heads, parts)


def _describe_value(value: Any) -> str:
    """Describe a TOML value that JSON may not be able to express; None if there is no value."""
    if value is None:
        return "is missing"
    return f"is {show(value) if isinstance(value, (str, int, float, list, dict)) else str(value)[:60]}"
