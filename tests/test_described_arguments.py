"""Docstrings describe arguments that there are."""

import ast
import re
from pathlib import Path

import pytest

import anydml as dml

SOURCES = Path(dml.__file__).parent
CONSTRUCTORS = ("__init__", "__cinit__", "__new__")


def described(node):
    """The names in the section "Args" of a docstring."""
    section = re.search(r"^Args:\n((?:\n|[ ].*\n?)*)", ast.get_docstring(node) or "", re.M)
    lines = re.findall(r"^ {4}(\*{0,2}\w+(?:, \*{0,2}\w+)*):", section[1] if section else "", re.M)
    return {name.strip("* ") for line in lines for name in line.split(",")}


def parameters(function):
    """The names of a function's parameters."""
    arguments = function.args
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {parameter.arg for parameter in listed if parameter is not None}


def own_names(definition):
    """What a class may be called with by its own text: fields, and parameters of its constructors."""
    fields = {each.target.id for each in definition.body if isinstance(each, ast.AnnAssign)}
    functions = (each for each in definition.body if isinstance(each, ast.FunctionDef) and each.name in CONSTRUCTORS)
    return fields.union(*map(parameters, functions))


TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCES.rglob("*.py")}
CLASSES = [node for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def names(node):
    """What a function, or a class with its bases of this package, may be called with."""
    if not isinstance(node, ast.ClassDef):
        return parameters(node)
    # Modules may have classes of the same name: any of them may be the base.
    bases = {ast.unparse(base) for base in node.bases}
    return own_names(node).union(*(names(each) for each in CLASSES if each.name in bases and each is not node))


@pytest.mark.parametrize("package", sorted({path.relative_to(SOURCES).parts[0] for path in TREES}))
def test_described_arguments_are_parameters(package):
    wrong = [
        f"{path}:{node.lineno} {node.name}: {name}"
        for path, tree in TREES.items()
        if path.relative_to(SOURCES).parts[0] == package
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.ClassDef))
        for name in sorted(described(node) - names(node))
    ]
    assert not wrong


def test_a_wrong_name_is_noticed():
    lines = ["def cut(a, *b, c=0):", '"""Cut.', "", "Args:", "    a: one.", "    *b: many.", "    d: none.", '"""']
    text = "\n    ".join(lines)
    (function,) = ast.parse(text).body
    assert described(function) - names(function) == {"d"}
