"""An operator is written once: what spells one again, beside its rule, is found."""

import ast
from collections import Counter
from pathlib import Path

import anydml
from anydml.moves.verbs import Maker

SOURCES = Path(anydml.__file__).parent
MOVING = (
    "moves/",
    "engines/",
    "core/",
    "stores/planning/",
    "explain/",
    "graph/graph_lowering.py",
    "operators/nonzero_",
    "stores/checkpoints/answers.py",
)
"""Where moves are made by hand: they have no operators, or one without a rule, whose sizes are data, or were kept."""
MADE = {"Move", "Access", "Lookup"}
AGAIN = {"moves", "lower", "by_numpy", "in_place", "_updated", "_pick", "chosen", "surrounded", "scattered"}
"""Names of functions that spell an operator beside its rule."""


def made(call):
    """The class of moves that a call makes, under any name of a module, or without checks; None for other calls."""
    names = ast.unparse(call.func).removesuffix("._make").split(".")
    if names[-1] == "new" and call.args:
        names = ast.unparse(call.args[0]).split(".")
    return names[-1] if names[-1] in MADE else None


def problems():
    rules, stubs, twins = Counter(), set(), {}
    for path in sorted(SOURCES.rglob("*.py")):
        place = path.relative_to(SOURCES).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            at = f"{place}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.FunctionDef):
                name, marks = node.name, " ".join(map(ast.unparse, node.decorator_list))
                # Some verbs of the core have the names of functions.
                if place.startswith(("core/", "functions/")) and not hasattr(Maker, name):
                    twins[name] = at
                if place.startswith("operators/") and not place.endswith(("/base.py", "/nonzero_coordinates.py")):
                    rules[name] += marks == "rule"
                    stubs |= {name} if marks.startswith("function(") else set()
                    if name in AGAIN or "_lower" in name or "compose" in name or name.endswith("_moves"):
                        yield f"{at} spells an operator again: {name}"
            if isinstance(node, ast.Call) and made(node) and not place.startswith(MOVING):
                yield f"{at} makes a {made(node)} by hand"
    yield from (f"{twins[name]} is a twin of operators' {name}" for name in sorted(stubs & twins.keys()))
    yield from (f"{count} rules are called {name}" for name, count in rules.items() if count > 1)


def test_operators_are_written_once():
    assert [*problems()] == []
