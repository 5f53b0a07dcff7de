"""The lists of docs/reference.md: names and members, with signatures and the first paragraphs of docstrings."""

from __future__ import annotations

import enum
import functools
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from anydml.operators import REGISTRY, OperatorDesc

OPERATOR_PAGES = {path.stem for path in Path(__file__).with_name("operators").glob("*.md")}
OPERATOR = re.compile(r" \((?:DML_OPERATOR_(\w+)|com\.microsoft (\w+), version 1)(?:, without its limits)?\)")
WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")
NAMED_DEFAULT = re.compile(r"<(?:built-in function )?(\w+(?:\.\w+)?)(?:: [^<>]+)?>")
OTHER_DEFAULT = re.compile(r"<function .*>(?=[,)])")
SELF = re.compile(r"^\((?:self|cls)(?:, )?")
SECTIONS = {
    "anydml.device": "devices",
    "anydml.errors": "errors",
    "anydml.graph.desc": "graphs",
    "anydml.graph.structs": "graphs",
    "anydml.operators.enums": "enumerations",
    "anydml.tensor": "tensors",
    "anydml.feature_level": "rules",
    "anydml.operators.base": "rules",
    "anydml.operators.problem": "rules",
}
"""The sections of the names in `anydml` that are neither functions nor operator descs, by defining module."""

INTERNAL = {"by_file", "call_in_python", "lower_call"}
"""Members that other modules of anydml call, and users do not."""

RETURNED = ("anydml.stores", "anydml.dxdispatch", "anydml.explain", "anydml.tracing", "anydml.slim", "anydml.proving")
"""Modules whose objects come from functions: users do not call their classes."""


def names(section: str) -> str:
    """List the public names of a section of `anydml`, or of a module in it, such as `stores`."""
    is_module = section not in {"functions", "descs", *SECTIONS.values()}
    module = importlib.import_module(f"anydml.{section}" if is_module else "anydml")
    entries = []
    for name in sorted(module.__all__, key=str.lower):
        value = getattr(module, name)
        if _is_listed(name, value, module) and (is_module or _section(value) == section):
            entries += [f"- {_entry(name, value)}\n", *(f"    - {member}\n" for member in _members(value))]
    return "".join(entries)


def _members(value: Any) -> list[str]:
    """Return the entries of a class's methods and properties; those of every desc are listed once, by OperatorDesc."""
    if not isinstance(value, type) or issubclass(value, enum.Enum | Exception) or value in REGISTRY.values():
        return []
    entries = []
    for name in dir(value):
        owner = next((kind for kind in value.__mro__ if name in vars(kind)), value)
        member = vars(owner).get(name)
        is_inherited = owner is OperatorDesc and value is not OperatorDesc
        if name.startswith("_") or name in INTERNAL or is_inherited or not owner.__module__.startswith("anydml"):
            continue
        method = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(method):
            entries.append(f"`.{name}{SELF.sub('(', _signature(method))}`: {_summary(member)}")
        elif isinstance(member, property | functools.cached_property):
            entries.append(f"`.{name}`: {_summary(member)}")
    return entries


def _summary(value: Any) -> str:
    return " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split()).replace("``", "`")


def _section(value: Any) -> str:
    if not isinstance(value, type):
        return "functions"
    return "descs" if value in REGISTRY.values() else SECTIONS[value.__module__]


def _is_listed(name: str, value: Any, module: ModuleType) -> bool:
    """Return whether a name has an entry; the page's text names aliases, and operators of PyDirectML that compute."""
    if name.startswith("__") or (not isinstance(value, type | ModuleType) and not inspect.isroutine(value)):
        return False
    package = importlib.import_module("anydml")
    is_repeated = module is not package and value is getattr(package, name, None)
    return not is_repeated and not getattr(value, "__module__", "").endswith("computing_operators")


def _entry(name: str, value: Any) -> str:
    summary = _summary(value)
    page = _operator_page(value, summary)
    arguments = _signature(value) if _is_called(value) else ""
    title = f"[`{name}`](operators/{page}.md)`{arguments}`" if page else f"`{name}{arguments}`"
    return f"{title}: {OPERATOR.sub('', summary)}{_values(value)}"


def _operator_page(value: Any, summary: str) -> str | None:
    found = OPERATOR.search(summary)
    operator = value.OPERATOR.removeprefix("DML_") if value in REGISTRY.values() else found and (found[1] or found[2])
    page = WORD_START.sub("_", operator or "").lower()
    return page if page in OPERATOR_PAGES else None


def _is_called(value: Any) -> bool:
    if not isinstance(value, type):
        return callable(value)
    is_returned = value.__module__.startswith(RETURNED) or value.__name__.startswith(("Compiled", "Bound"))
    return not is_returned and not issubclass(value, enum.Enum | Exception) and value is not OperatorDesc


def _signature(value: Any) -> str:
    signature = inspect.signature(value)
    parameters = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    return OTHER_DEFAULT.sub("…", NAMED_DEFAULT.sub(r"\1", text))


def _values(value: Any) -> str:
    is_enum = isinstance(value, type) and issubclass(value, enum.Enum)
    return f" Values: {', '.join(f'`{name}`' for name in value.__members__)}." if is_enum else ""
