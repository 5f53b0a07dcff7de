"""What is derived from operators' files: functions with true signatures, names that are everywhere the same."""

import importlib
import inspect
import linecache
import pickle
import re
import subprocess
import sys
import traceback
import typing
from pathlib import Path

import numpy as np
import pytest

import anydml as dml
from anydml import functions
from anydml.operators import DESCS, FUNCTIONS, REGISTRY, registry


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


def test_names_pyi_lists_every_operator():
    """What it does not list is imported with the package: slower, which nobody would notice."""
    folder = Path(registry.__file__).parent
    listed = dict(re.findall(r"^from anydml\.operators\.(\w+) import (.*)", (folder / "names.pyi").read_text(), re.M))
    assert {*listed}.isdisjoint(registry.SHARED)
    assert {*listed, *registry.SHARED} == {path.stem for path in folder.glob("[!_]*.py")}
    for stem, names in listed.items():
        module = importlib.import_module(f"anydml.operators.{stem}")
        here = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        expected = {name for name in here if name in FUNCTIONS or hasattr(getattr(module, name), "OPERATOR")}
        assert {*re.findall(r"(\w+) as \1\b", names)} == expected


FIRST_USES = """
import random, sys, threading
sys.setswitchinterval(1e-6)
import anydml as dml
names = [*dml.functions.__all__, *dml.operators.DESCS, "fuse", "Device", "GraphDesc", "no_such_name"]
orders = [random.Random(seed).sample(names, len(names)) for seed in range(8)]
barrier, seen = threading.Barrier(len(orders)), []
def use(order):
    barrier.wait()
    seen.append({name: id(getattr(dml, name, None)) for name in order})
threads = [threading.Thread(target=use, args=(order,)) for order in orders]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(seen), all(each == seen[0] for each in seen))
"""


def test_names_may_be_used_first_in_many_threads():
    run = subprocess.run([sys.executable, "-c", FIRST_USES], capture_output=True, text=True, timeout=120, check=True)
    assert run.stdout.split() == ["8", "True"], run.stderr


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
