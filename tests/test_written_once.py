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
    "stores/checkpoints/mapping_results.py",
)
"""Where moves are made by hand: they have no operators, or one without a rule, whose sizes are data, or were kept."""
MADE = {"Move", "Access", "Lookup"}
AGAIN = {"moves", "lower", "move_with_numpy", "in_place", "_updated", "_pick", "chosen", "surrounded", "scattered"}
"""Names of functions that spell an operator beside its rule."""
CUTS = {"cut", "slice", "window", "windows", "narrow", "split"}
INDEPENDENT = ("proving/", "referee/", "engines/reference/", "engines/cuda/")
"""What checks the rules, or runs where they cannot."""


def made(call):
    """The class of moves that a call makes, under any name of a module, or without checks; None for other calls."""
    names = ast.unparse(call.func).removesuffix("._make").split(".")
    if names[-1] == "new" and call.args:
        names = ast.unparse(call.args[0]).split(".")
    return names[-1] if names[-1] in MADE else None


def names(*nodes):
    return {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}


def running_starts(loop):
    """Yield the cuts in a loop that begin where the one before ends, as SPLIT's and JOIN's rules do."""
    added = [
        each for each in ast.walk(loop) if isinstance(each, ast.AugAssign) and not isinstance(each.value, ast.Call)
    ]
    sums = {each.target.id for each in added if isinstance(each.target, ast.Name)}
    for each in ast.walk(loop):
        if isinstance(each, ast.Assign) and sums & names(each.value):
            sums |= names(each.targets[0])
    for call in ast.walk(loop):
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] in CUTS and sums & names(*call.args):
            yield call


def wraps(node):
    """Whether an expression counts negative indices from the end, as `moves.wrapped_indices` does."""
    if not (isinstance(node, ast.Call) and ast.unparse(node.func).endswith("where") and len(node.args) == 3):
        return False
    test, wrapped, index = map(ast.unparse, node.args)
    return test == f"{index} < 0" and index in wrapped.split(" + ")


DESCRIBING = "/base.py", "/function.py", "/nonzero_coordinates.py"
"""Files that define how operators are made into moves, or make them anew for each call."""


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
                if place.startswith("operators/") and not place.endswith(
                    ("/base.py", "/function.py", "/nonzero_coordinates.py")
                ):
                    rules[name] += marks == "rule"
                    stubs |= {name} if marks.startswith("function(") else set()
                    if name in AGAIN or "_lower" in name or "compose" in name or name.endswith("_moves"):
                        yield f"{at} spells an operator again: {name}"
            if isinstance(node, ast.For | ast.While) and not place.startswith(("operators/", *INDEPENDENT)):
                yield from (f"{place}:{call.lineno} cuts where the part before ends" for call in running_starts(node))
            if wraps(node) and not place.startswith(("moves/", *INDEPENDENT)):
                yield f"{at} wraps indices"
            if isinstance(node, ast.Call) and made(node) and not place.startswith(MOVING):
                yield f"{at} makes a {made(node)} by hand"
    yield from (f"{twins[name]} is a twin of operators' {name}" for name in sorted(stubs & twins.keys()))
    yield from (f"{count} rules are called {name}" for name, count in rules.items() if count > 1)


def test_operators_are_written_once():
    assert [*problems()] == []


def test_other_spellings_are_noticed():
    loop = "for n in sizes:\n    parts.append(x.narrow(axis, at, n))\n    at += n"
    assert [*running_starts(ast.parse(loop))]
    assert wraps(ast.parse("np.where(i < 0, n + i, i)").body[0].value)
