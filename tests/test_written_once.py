"""An operator is written once: what spells one again, beside its rule, is found."""

import ast
from collections import Counter
from pathlib import Path

import anydml

SOURCES = Path(anydml.__file__).parent
MOVING = (
    "moves/",
    "engines/",
    "core/",
    "stores/planning/",
    "explain/",
    "graph/graph_lowering.py",
    "operators/nonzero_",
)
"""Where moves are made by hand: they have no operators, or one without a rule, whose sizes are data."""
VERBS = {"core/results.py", "core/looking.py"}
"""Verbs of the core, some of which have the names of functions."""
AGAIN = {"moves", "lower", "by_numpy", "in_place", "_updated", "_pick", "chosen", "surrounded", "scattered"}
"""Names of functions that spell an operator beside its rule."""


def problems():
    rules, stubs, core = Counter(), set(), {}
    for path in sorted(SOURCES.rglob("*.py")):
        place = path.relative_to(SOURCES).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            at = f"{place}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.FunctionDef):
                name, marks = node.name, " ".join(map(ast.unparse, node.decorator_list))
                core |= {name: at} if place.startswith("core/") and place not in VERBS else {}
                if place.startswith("operators/") and not place.endswith(("/base.py", "/nonzero_coordinates.py")):
                    rules[name] += marks == "rule"
                    stubs |= {name} if marks.startswith("function(") else set()
                    if name in AGAIN or "_lower" in name or "compose" in name or name.endswith("_moves"):
                        yield f"{at} spells an operator again: {name}"
            is_made = isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"Move", "Access", "Lookup"}
            if is_made and not place.startswith(MOVING):
                yield f"{at} makes a {node.func.id} by hand"
    yield from (f"{core[name]} is a twin of operators' {name}" for name in sorted(stubs & core.keys()))
    yield from (f"{count} rules are called {name}" for name, count in rules.items() if count > 1)


def test_operators_are_written_once():
    assert [*problems()] == []
