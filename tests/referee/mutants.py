"""Breaks the referee's formulas in small ways, one at a time, and looks whether the cases that it draws show it.

    python -m tests.referee.mutants --cases 300 --seed 1 [--mutants 500] [--only Slice]

A mutant is shown by a case whose results it changes, and that are not those of another reading of the text either. A
line is printed for each that is not: SURVIVED; or equivalent, because tests/referee/equivalent_mutants.py says why no
valid case can show it.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from types import CodeType, FrameType, FunctionType
from typing import Any

from anydml.referee import make_cases
from anydml.referee.cases import Case, are_equal
from anydml.referee.nodes import Node, evaluate
from anydml.referee.operator_rules import Operator
from anydml.referee.operators import OPERATORS

from ..mutants import changes
from .equivalent_mutants import EQUIVALENT

PACKAGE = "anydml.referee."
SECONDS = 2.0
"""Of processor time; a mutant that takes more for one case hangs."""
MEMORY = 8 << 30
"""Bytes that a mutant may hold."""
OTHERS = {"floor": "ceil", "ceil": "floor"}
DROPPED = ("wrap_index", "min", "max", "reversed", "mirror_index", "sorted")
"""Calls that a mutant leaves out."""
SHARED = ("evaluate", "read_as")
"""What applies formulas, and is none."""


@dataclass(frozen=True)
class Mutant:
    """A change of one function.

    Attributes:
        function: what is changed.
        code: its code, changed.
        before: the first line that changes.
        after: what it becomes.
    """

    function: FunctionType
    code: CodeType
    before: str
    after: str

    @property
    def name(self) -> str:
        """What it is listed as, if it is equivalent."""
        return f"{self.function.__module__.removeprefix(PACKAGE)}: {self.before}  →  {self.after}"


class HangError(Exception):
    """A mutant takes too long."""


def formulas(operator: Operator) -> list[FunctionType]:
    """The functions that make an operator's results: its formula, and what that calls."""
    found: dict[FunctionType, None] = {}
    todo: list[Any] = [operator.formula]
    while todo:
        each = todo.pop()
        if isinstance(each, dict):
            todo += each.values()
        elif isinstance(each, type) and each.__module__.startswith(PACKAGE) and not issubclass(each, tuple):
            todo += vars(each).values()
        elif _is_formula(each) and each not in found:
            found[each] = None
            todo += [each.__globals__[name] for name in names(each.__code__) if name in each.__globals__]
    return [*found]


def _is_formula(value: Any) -> bool:
    is_ours = isinstance(value, FunctionType) and value.__module__.startswith(PACKAGE)
    # Methods that dataclasses have made are not in the module's file.
    is_written = is_ours and value.__code__.co_filename == sys.modules[value.__module__].__file__
    return is_written and value.__name__ not in SHARED


def names(code: CodeType) -> Iterator[str]:
    """Names that a function's code, and what is in it, looks up."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from names(each)


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand for an expression."""
    match node:
        case ast.Call(func=ast.Name(id=name), args=[first, *rest]) if name in DROPPED:
            yield first
            yield from rest[:1]
        case ast.Call(func=ast.Attribute(attr=name)) if name in OTHERS:
            other = copy.deepcopy(node)
            other.func.attr = OTHERS[name]
            yield other
        case ast.IfExp():
            yield node.body
            yield node.orelse
        case ast.Constant(value=int() as value) if type(value) is int and value:
            yield ast.Constant(value - 1)
        case ast.Tuple(elts=[_, _, *_], ctx=ast.Load()):
            for k in range(len(node.elts) - 1):
                yield ast.Tuple([*node.elts[:k], node.elts[k + 1], node.elts[k], *node.elts[k + 2 :]], ast.Load())
        case ast.Slice():
            yield ast.Slice(node.upper, node.lower, node.step)
    if isinstance(node, ast.Call) and len(node.args) == 2 and getattr(node.func, "id", "") not in DROPPED:
        yield ast.Call(node.func, node.args[::-1], node.keywords)


@cache
def parsed(path: str) -> ast.Module:
    """The tree of a module."""
    with open(path, encoding="utf-8") as file:
        return ast.parse(file.read(), path)


def place(node: ast.AST) -> tuple[int, int, int, int]:
    """Where an expression or statement stands."""
    return tuple(getattr(node, each, -1) for each in ("lineno", "col_offset", "end_lineno", "end_col_offset"))


def mutants(function: FunctionType) -> list[Mutant]:
    """Every mutant of a function."""
    code = function.__code__
    tree = parsed(code.co_filename)
    whole = next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.Lambda)
        and node.lineno == code.co_firstlineno
        and getattr(node, "name", "<lambda>") == code.co_name
        and compiled(tree, node).co_code == code.co_code
    )
    original = ast.unparse(whole).splitlines()
    found: dict[str, Mutant] = {}

    def keep() -> None:
        try:
            text = ast.unparse(whole)
            made = compiled(tree, whole)
        except (SyntaxError, ValueError):
            return
        lines = text.splitlines()
        pairs = [pair for pair in zip(original, lines, strict=False) if pair[0] != pair[1]]
        if pairs and made.co_freevars == code.co_freevars:
            found[text] = Mutant(function, made, *(each.strip() for each in pairs[0]))

    for parent, field, at in [*places(whole)]:
        node = getattr(parent, field) if at is None else getattr(parent, field)[at]
        before = {key: list(value) if isinstance(value, list) else value for key, value in vars(node).items()}
        func = vars(node.func).copy() if isinstance(node, ast.Call) else {}
        for change in changes(node):
            change(node)
            keep()
            for key, value in before.items():
                setattr(node, key, list(value) if isinstance(value, list) else value)
            if func:
                vars(node.func).update(func)
        for other in replacements(node):
            put(parent, field, at, ast.copy_location(copy.deepcopy(other), node))
            keep()
            put(parent, field, at, node)
    return [*found.values()]


def put(parent: ast.AST, field: str, at: int | None, node: ast.AST) -> None:
    """Set a child of a node."""
    if at is None:
        setattr(parent, field, node)
    else:
        getattr(parent, field)[at] = node


def places(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Children that decide something: no annotations, no texts, no assertions."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "args") and not isinstance(node, ast.Call):
            continue
        for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Assert | ast.JoinedStr):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue
            yield node, field, at
            yield from places(child)


def compiled(tree: ast.Module, node: ast.AST) -> CodeType:
    """The code of a function or lambda of a tree."""
    ast.fix_missing_locations(tree)
    names = {"<lambda>"} if isinstance(node, ast.Lambda) else {node.name}
    wanted = (node.lineno, node.col_offset)

    def within(code: CodeType) -> Iterator[CodeType]:
        for each in code.co_consts:
            if isinstance(each, CodeType):
                yield each
                yield from within(each)

    order = [
        each for each in functions_in(tree) if getattr(each, "name", "<lambda>") in names and each.lineno == node.lineno
    ]
    position = next(k for k, each in enumerate(order) if (each.lineno, each.col_offset) == wanted)
    codes = [
        each
        for each in within(compile(tree, "<mutant>", "exec"))
        if each.co_name in names and each.co_firstlineno == node.lineno
    ]
    return codes[position]


def functions_in(tree: ast.AST) -> Iterator[Any]:
    """Functions and lambdas of a tree in the order of their code."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.Lambda):
            yield child
        yield from functions_in(child)


def shows(case: Case, formula: Callable[[Node], Any]) -> bool:
    """Whether a case tells a formula from the text."""
    known = [case.outputs, *(each.outputs for each in case.alternatives if each.outputs is not None)]
    try:
        found = evaluate(case.node, formula)
        return not any(len(found) == len(each) and all(map(are_equal, found, each)) for each in known)
    # A mutant may do anything; where one reading refuses a node, that agrees.
    except Exception:
        return all(each.outputs is not None for each in case.alternatives)


def shown_by(mutant: Mutant, cases: list[Case]) -> Case | None:
    """The first case that shows a mutant."""
    original = mutant.function.__code__
    mutant.function.__code__ = mutant.code
    try:
        for case in cases:
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            try:
                if shows(case, OPERATORS[case.node.operator].formula):
                    return case
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return None
    finally:
        mutant.function.__code__ = original


def _hang(number: int, frame: FrameType | None) -> None:
    raise HangError


def every_mutant(names: list[str]) -> list[tuple[Mutant, list[str]]]:
    """The mutants of operators' formulas, each with the operators that it breaks."""
    users: dict[FunctionType, list[str]] = {}
    for name in names:
        for function in formulas(OPERATORS[name]):
            users.setdefault(function, []).append(name)
    return [(mutant, using) for function, using in users.items() for mutant in mutants(function)]


def survivors(todo: list[tuple[Mutant, list[str]]], cases: int, seed: int) -> Iterator[tuple[Mutant, str]]:
    """Yield each mutant with the case that shows it, or an empty name."""
    signal.signal(signal.SIGVTALRM, _hang)
    drawn = {name: [*make_cases([name], cases, seed)] for name in {name for _, using in todo for name in using}}
    for mutant, using in todo:
        # Operators in turn: most mutants are shown by few cases.
        found = next((case for name in using if (case := shown_by(mutant, drawn[name]))), None)
        yield mutant, found.name if found else ""


def main() -> int:
    """Try a sample of mutants; 0 where the cases show 95 % of those that are not equivalent."""
    parser = argparse.ArgumentParser(prog="python -m tests.referee.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=300, help="of each operator")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=0, help="as many as that, at random; all if not given")
    parser.add_argument("--only", action="append", help="operators")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    every = every_mutant(options.only or [*OPERATORS])
    if not options.only and (gone := EQUIVALENT.keys() - {mutant.name for mutant, _ in every}):
        print(f"listed as equivalent, but there is no such mutant: {gone}")
        return 1
    todo = random.Random(options.seed).sample(every, min(options.mutants or len(every), len(every)))
    counts: Counter[str] = Counter()
    for mutant, case in survivors(todo, options.cases, options.seed):
        reason = EQUIVALENT.get(mutant.name, "")
        verdict = "shown" if case else "equivalent" if reason else "SURVIVED"
        counts[verdict] += 1
        if not case or reason:
            print(f"{verdict}{f' by {case}' if case else ''}: {mutant.name}{f', because {reason}' if reason else ''}")
    share = counts["shown"] / max(1, len(todo) - counts["equivalent"])
    print(
        f"{len(todo)} mutants of {len(every)}: {dict(counts)}, {share:.1%} of those that are not equivalent are shown"
    )
    return 0 if share >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
