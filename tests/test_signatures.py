"""Functions that NumPy has under the same name take the same arguments in the same order, but for what the docs say."""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import anydml as dml
from anydml.operators.registry import FUNCTIONS

PAGE = (Path(__file__).parents[1] / "docs" / "arrays.md").read_text("utf-8")
NONE = inspect.Parameter.empty


def shared():
    names = {*FUNCTIONS, "compress", "copy", "nonzero_coordinates"}
    return sorted(name for name in names if callable(getattr(np, name, None)))


def parameters(function):
    """Names and defaults of what may be given by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [(p.name, p.default) for p in inspect.signature(function).parameters.values() if p.kind in kinds]


def documented():
    """By function: our parameters and NumPy's, and what the table says of the difference."""
    rows = re.findall(r"^\| `(\w+)\(([^)]*)\)` \| `np\.\1\(([^)]*)\)` \| ?(.*?) ?\|$", PAGE, re.MULTILINE)
    return {name: (ours, theirs, about) for name, ours, theirs, about in rows}


def text(function):
    given = [
        name if default is NONE else f"{name}={default!r}".replace("'", '"') for name, default in parameters(function)
    ]
    return ", ".join(given)


def test_the_table_has_every_function_that_numpy_has_too():
    assert sorted(documented()) == shared()


@pytest.mark.parametrize("name", shared())
def test_the_table_says_what_is_so(name):
    ours, theirs, about = documented()[name]
    assert ours == text(getattr(dml, name))
    try:
        own = text(getattr(np, name)).split(", ")
    except ValueError:
        pytest.skip("this version of NumPy does not say")
    # But for what arrays of other classes need, and what makes them.
    assert [each for each in own if not each.startswith(("subok", "order", "out"))] == theirs.split(", ")
    defaults = [[each.partition("=")[2] for each in each_side.split(", ")] for each_side in (ours, theirs)]
    assert about or defaults[0] == defaults[1]
