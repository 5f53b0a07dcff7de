"""Every public name has a docstring with an example, and the example prints what it shows."""

import doctest
import importlib
import importlib.util
import inspect
import shutil
import typing

import numpy as np
import pytest
from documents import ROOT

import anydml as dml
import anydml.dxdispatch
from anydml.memory.results import default_limit

MODULES = (
    "anydml", "anydml.dxdispatch", "anydml.explain", "anydml.tracing", "anydml.moves", "anydml.pydirectml",
    "anydml.stores",
)  # fmt: skip
OPTIONAL = [f"anydml.{library}" for library in ("onnx", "torch") if importlib.util.find_spec(library)]
NAMES = [
    f"{module}.{name}"
    for module in (
        *MODULES,
        *(f"anydml.{library}" for library in ("onnx", "torch") if importlib.util.find_spec(library)),
    )
    for name in importlib.import_module(module).__all__
    if not name.startswith("__")
]


def thing(name):
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(module), last)


def examples(found):
    return (inspect.getdoc(found) or "").partition("Examples:")[2]


def has_text(name):
    """Whether Python knows a docstring of its own: not of an alias of a type, nor of a list; PyTorch's once."""
    found = thing(name)
    if name.startswith("anydml.torch.") and examples(found) == examples(getattr(dml, found.__name__, None)):
        assert examples(found), "it has no example"
        return False
    return typing.get_origin(found) is None and not isinstance(found, list)


@pytest.fixture
def as_it_was(tmp_path, monkeypatch):
    """Where examples find files and write, and change neither threads nor memory for others."""
    shutil.copy(ROOT / "examples/split.json", tmp_path)
    monkeypatch.chdir(tmp_path)
    before = dml.get_num_threads()
    yield
    dml.set_num_threads(before)
    dml.set_cache_limit(default_limit())


@pytest.mark.parametrize("name", [name for name in NAMES if has_text(name)])
def test_the_example_prints_what_it_shows(name, as_it_was):
    text = inspect.getdoc(thing(name)) or ""
    names = {"dml": dml, "np": np}
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    assert test.examples, "it has no example"
    if "import transformers" in text:
        pytest.importorskip("transformers")
    if ".zarr" in text and not importlib.util.find_spec("zarr"):
        pytest.skip("needs zarr")
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
    assert runner.run(test, out=report.append).failed == 0, "".join(report)


def test_dir_shows_the_public_names():
    assert sorted(dir(dml)) == sorted(dml.__all__)
