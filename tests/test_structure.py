"""The package's layers, which CONTRIBUTING.md lists from the lowest on: no import leads upward, or in a circle."""

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter

import pytest
from documents import ROOT

SOURCES = ROOT / "src"
ROW = re.compile(r"\| (\d+) \| (`.*?) \| \S.* \|")


def modules():
    """The files of all modules, by their names."""
    found = {}
    for path in sorted((SOURCES / "anydml").rglob("*.py")):
        name = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()

CHANGED = "anydml.moves.move"
"""To which tests add what they want to see found."""


def layers():
    """Layers from the lowest on, each a list of its packages and modules from the lowest on."""
    lines = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("\n")
    rows = [match.groups() for match in map(ROW.fullmatch, lines) if match]
    assert [int(number) for number, _ in rows] == [*range(1, len(rows) + 1)]
    return [re.findall(r"`([\w.]+)`", names) for _, names in rows]


LAYERS = layers()
HEIGHT = {name: height for height, name in enumerate(name for layer in LAYERS for name in layer)}


def nearest(name):
    """The module that a dotted name leads to: itself, or the package that has it as an attribute."""
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name


@cache
def imported(module, text):
    """The modules that a module's text imports, wherever it does, even if only for a type checker.

    A text that is the name of a module counts as well, as tables of what is imported later have them; a package's
    modules may say its own name.
    """
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: a relative import"
            found += [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Constant) and node.value in MODULES and not module.startswith(node.value):
            found.append(node.value)
    return found


def arrows(more=""):
    """All imports of one module of the package by another.

    Args:
        more: text to add to the module `CHANGED`.
    """
    for module, path in MODULES.items():
        text = path.read_text("utf-8") + (more if module == CHANGED else "")
        for name in imported(module, text):
            target = nearest(name) if name.split(".")[0] == "anydml" else ""
            if target and target != module:
                yield module, target


def place(module):
    """The package or module of a layer that a module belongs to; the package itself is `anydml`."""
    return module.split(".")[1] if "." in module else module


def upward(found):
    """Imports that lead to a higher package or layer."""
    return [f"{a} imports {b}" for a, b in found if HEIGHT[place(a)] < HEIGHT[place(b)]]


def circle(found):
    """Modules that import each other in a circle, or None."""
    graph = {module: set() for module in MODULES}
    for a, b in found:
        graph[a].add(b)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return None


def test_every_module_is_on_one_layer():
    listed = [name for layer in LAYERS for name in layer]
    assert sorted(listed) == sorted({place(module) for module in MODULES})


def test_no_import_leads_upward():
    assert upward(arrows()) == []


def test_no_modules_import_each_other():
    assert circle(arrows()) is None


@pytest.mark.parametrize(
    "line",
    [
        "import anydml.cli",
        "from anydml import device",
        "def later():\n    from anydml.torch.torch_functions import tensor_function",
        "NAME = 'anydml.stores.functions'",
        "if TYPE_CHECKING:\n    from anydml.tracing.fused import Fused",
    ],
)
def test_an_import_that_leads_upward_is_seen(line):
    found = arrows(f"\n{line}\n")
    assert len(upward(found)) == 1


def test_a_circle_is_seen():
    found = arrows("\ndef later():\n    from anydml.moves.program import Program\n")
    assert {CHANGED, "anydml.moves.program"} <= {*circle(found)}
