"""What people see who have the package and not its sources."""

import ast
import re
from pathlib import Path

from documents import ROOT

import anydml

PACKAGE = Path(anydml.__file__).parent


def texts():
    """Texts that messages, help and docstrings are made of."""
    for path in sorted(PACKAGE.rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        yield from (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def test_no_text_names_a_file_of_the_sources():
    named = [name for text in texts() for name in re.findall(r"\b(?:docs|tests|examples|src)/[\w/-]+\.\w+", text)]
    assert [name for name in named if (ROOT / name).exists()] == []


def test_extras_are_installed_in_one_way():
    asked = [text for text in texts() if "pip install" in text and "anydml" in text]
    assert asked
    assert all(re.search(r'pip install "anydml\[\w+\]"', text) for text in asked)
