"""What names in operators' texts mean, and the types and numbers in C that they become."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCES = Path("src/anydml")
PACKAGE = "anydml"

TYPES = {
    **dict.fromkeys(("Sizes", "Integers"), "verbs.Integers *"),
    **dict.fromkeys(("int", "int64"), "int64_t"),
    **{"Sequence[Sizes]": "verbs.Shapes", "View": "verbs.Box *", "Views": "verbs.Boxes", "Maker": "verbs.Maker *"},
    **{"bool": "bint", "HostIntegers": "arguments.HostIntegers", "None": "int"},
    **dict.fromkeys(("Item", "Item | None"), "verbs.Item"),
    **dict.fromkeys(("Text", "OutOfRange"), "int64_t"),
}
WORDS = {"error": "REFUSE", "clamp": "ANYDML_CLAMP", "skip": "ANYDML_SKIP"}
"""Numbers of words; others get one when they are met."""


class Found(NamedTuple):
    """What a name of a module means: a function's definition, or a number."""

    module: str
    node: ast.expr | ast.FunctionDef


@cache
def parsed(module: str) -> ast.Module:
    """Parse a module of the package."""
    return ast.parse((SOURCES / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))


@cache
def meaning(module: str, name: str) -> Found | None:
    """Follow a name to a definition in the package; None if it has none."""
    for node in parsed(module).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return Found(module, node)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return Found(module, node.value)
        if isinstance(node, ast.ImportFrom) and any(each.name == name for each in node.names):
            root, _, source = str(node.module).partition(".")
            return meaning(source, name) if root == PACKAGE and source else None
    return None


def type_of(annotation: ast.expr | None) -> str:
    """Return the type in C of an annotation."""
    text = ast.unparse(annotation) if annotation else "Any"
    if text.startswith("tuple["):
        parts = [TYPES.get(part.strip(), "int") for part in text[6:-1].split(",")]
        return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
    return TYPES.get(text, "object")


@cache
def module_of(verb: str) -> str:
    """Return the module of the core that has a verb."""
    for name in ("verbs", "results", "lookup_verbs", "sizing"):
        if re.search(rf"^cdef .*\b{verb}\(Maker", (SOURCES / f"core/{name}.pxd").read_text(encoding="utf-8"), re.M):
            return name
    raise LookupError(f"the core has no verb {verb}")


def word(text: str) -> ast.expr:
    """Return a word's number."""
    return ast.Name(WORDS.setdefault(text, str(len(WORDS))))


def number(found: Found) -> ast.expr:
    """Return what a name stands for, as one number if it is made of numbers."""
    names = {each.id for each in ast.walk(found.node) if isinstance(each, ast.Name)}
    known = {name: meaning(found.module, name) for name in names}
    if not all(each and isinstance(each.node, ast.expr) for each in known.values()):
        return found.node  # type: ignore[return-value]
    values = {name: ast.literal_eval(number(each)) for name, each in known.items() if each}
    return ast.Constant(eval(ast.unparse(found.node), {"__builtins__": {}}, values))
