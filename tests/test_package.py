"""The package as a whole: what importing it brings along, its names, its version."""

import importlib.metadata
import pathlib
import subprocess
import sys

import pytest

import anydml as dml

HEAVY = {"numba", "llvmlite", "torch", "triton", "onnx", "onnxruntime", "click", "rich", "pydantic"}
OPTIONAL = {"dask": "dask", "onnx": "onnx", "proving": "onnx", "slim": "onnx", "torch": "torch"}
NAMES = {
    *(
        "DataType",
        "TensorDesc",
        "TensorFlags",
        "FeatureLevel",
        "Device",
        "AnydmlError",
        "DescError",
        "BindingError",
        "ModelError",
    ),
    *("SplitOperatorDesc", "JoinOperatorDesc", "SliceOperatorDesc", "Slice1OperatorDesc", "GatherOperatorDesc"),
    *("split", "join", "slice", "slice1", "gather", "split_training", "concat_training"),
}


def modules_after(code):
    """The top-level modules that a fresh interpreter has after `code`."""
    script = f"{code}\nimport sys; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_brings_nothing_heavy():
    loaded = modules_after("import anydml")
    assert {"anydml", "numpy"} <= loaded
    assert not loaded & {*HEAVY, "ml_dtypes"}


def test_importing_and_calls_on_arrays_bring_no_devices_nor_dataclasses():
    code = "import numpy as np, anydml as dml; dml.split(np.arange(4), 2); dml.copy(np.arange(4)[::-1])"
    unwanted = "{'anydml.device', 'anydml.graph', 'anydml.functions.python_calls', 'dataclasses'} & {*sys.modules}"
    assert modules_after(f"import sys; {code}; assert not {unwanted}, {unwanted}")


def test_threads_may_be_the_first_to_need_what_is_imported_later():
    uses = "lambda: dml.Device, lambda: dml.GraphDesc, lambda: dml.flip([1, 2]), lambda: dml.fuse, lambda: dml.stores"
    edge = "lambda: dml.InputGraphEdgeDesc(0, 0, 0)"
    pool = "from concurrent.futures import ThreadPoolExecutor as Pool"
    run = "with Pool(16) as threads: [done.result() for done in [threads.submit(use) for use in uses * 4]]"
    assert modules_after(f"import anydml as dml\n{pool}\nuses = [{uses}, {edge}]\n{run}")


def test_the_command_brings_nothing_that_its_help_does_not_need():
    loaded = modules_after("import sys; sys.argv = ['anydml']; import anydml.cli")
    assert "click" in loaded
    assert not loaded & ({*HEAVY, "numpy"} - {"click"})


@pytest.mark.parametrize("name", ["copy", "fuse", "Device", "explain", "split", "SliceOperatorDesc", "stores"])
def test_names_are_there_in_the_command(name):
    code = f"import sys; sys.argv = ['anydml']; import anydml as dml; assert dml.{name} is dml.{name}"
    assert "anydml" in modules_after(f"{code}; from anydml import {name}; assert {name} is dml.{name}")


@pytest.mark.parametrize("name, answer", [("conact", "no attribute 'conact'"), ("stroes", "did you mean stores")])
def test_an_unknown_name_says_which_is_meant(name, answer):
    with pytest.raises(AttributeError, match=answer):
        getattr(dml, name)
    with pytest.raises(ImportError, match=f"cannot import name '{name}'"):
        exec(f"from anydml import {name}")


@pytest.mark.parametrize("name", ["dask", "dxdispatch", "onnx", "proving", "pydirectml", "slim", "stores", "torch"])
def test_packages_are_there_without_an_import_of_their_own(name):
    if name in OPTIONAL:
        pytest.importorskip(OPTIONAL[name])
    code = f"import anydml as dml\nfound = dml.{name}\nassert found.__name__ == 'anydml.{name}'"
    assert "anydml" in modules_after(code)


def test_a_package_whose_library_is_missing_says_what_to_install():
    code = "import sys, anydml\nsys.modules['onnx'] = None\ntry: anydml.onnx\nexcept ImportError as error: exit(error)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == 'anydml.onnx needs the package onnx: pip install "anydml[onnx]"\n'


def test_the_version_stands_in_one_place():
    assert dml.__version__ == importlib.metadata.version("anydml")


def test_the_package_is_typed():
    assert pathlib.Path(dml.__file__).with_name("py.typed").exists()
