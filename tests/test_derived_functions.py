"""What is derived from operators' files: functions with true signatures, names that are everywhere the same."""

import inspect
import linecache
import pickle
import traceback
import typing
from pathlib import Path

import numpy as np
import pytest

import anydml as dml
from anydml import functions
from anydml.operators import DESCS, FUNCTIONS, REGISTRY


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_look_as_their_stubs(name):
    made, stub = getattr(dml, name), FUNCTIONS[name].stub
    assert made is getattr(functions, name)
    assert inspect.signature(made) == inspect.signature(made, follow_wrapped=False) == inspect.signature(stub)
    assert typing.get_type_hints(made).keys() == {*inspect.signature(stub).parameters, "return"}
    assert made.__doc__ == stub.__doc__
    assert all(section in made.__doc__ for section in ("Args:", "Returns:", "Raises:"))
    assert all(f"{each}: " in made.__doc__ for each in inspect.signature(stub).parameters)
    assert pickle.loads(pickle.dumps(made)) is made


def test_the_package_has_every_name():
    assert {*DESCS, *FUNCTIONS} <= set(dml.__all__)
    assert all(getattr(dml, name) is desc for name, desc in DESCS.items())
    assert set(REGISTRY.values()) == set(DESCS.values())


def test_defaults_are_those_of_the_stub():
    x = np.arange(6).reshape(2, 3)
    assert np.array_equal(dml.gather(x, [1]), x[[1]])
    assert np.array_equal(dml.gather(indices=[1], axis=1, x=x), x[:, [1]])
    with pytest.raises(TypeError, match="positional"):
        dml.gather(x, [1], 0, "error")


def test_tracebacks_show_lines():
    with pytest.raises(dml.DescError) as caught:
        dml.slice(np.arange(3), [0], [4])
    lines = [linecache.getline(each.filename, each.lineno) for each in traceback.extract_tb(caught.tb)]
    assert any("return call_from_python(" in line for line in lines)


def test_functions_are_made_once_and_listed():
    assert {*FUNCTIONS} <= {*dir(dml)} & {*dir(functions)}
    assert all(getattr(dml, name) is getattr(dml, name) for name in FUNCTIONS)
    for module in (dml, functions):
        with pytest.raises(AttributeError, match="has no attribute 'no_such_function'"):
            _ = module.no_such_function


def test_every_function_is_in_the_table_of_those_who_come_from_elsewhere():
    text = (Path(__file__).parents[1] / "docs" / "arrays.md").read_text(encoding="utf-8")
    table = text.partition("## Beside NumPy")[2].partition("```python")[0]
    assert [
        name for name in (*FUNCTIONS, "compress", "copy", "nonzero_coordinates") if f"`dml.{name}" not in table
    ] == []
