"""`anydml doctor`: facts that can be checked, and reasons that can be made."""

import importlib
import sys
from importlib import metadata

import pytest
from anydml.engines.cpu.pool import available_cores

import anydml as dml
from anydml import core
from anydml.cli import main
from anydml.engines.cpu import compiler


@pytest.fixture
def doctor(capsys):
    def run():
        with pytest.raises(SystemExit) as ended:
            main(["doctor"])
        found = capsys.readouterr()
        assert (ended.value.code or 0, found.err) == (0, "")
        facts, _, slow = found.out.partition("\n\n")
        pairs = (line.split(maxsplit=1) for line in facts.replace("largest cache", "cache").splitlines())
        return dict(pairs), slow.splitlines()

    return run


def test_facts(doctor):
    facts, _ = doctor()
    assert facts["anydml"].startswith(dml.__version__)
    assert facts["numpy"] == metadata.version("numpy")
    assert facts["threads"].startswith(f"{dml.get_num_threads()} ")
    assert facts["cores"].startswith(str(available_cores()))
    assert facts["compiler"] == "works"
    assert int(facts["kernels"].split()[0]) > 0
    assert {"python", "numba", "torch", "onnx", "memory", "gpu"} <= set(facts)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_compiled_core_is_named_and_its_lack_is_slow(doctor, monkeypatch, is_compiled):
    monkeypatch.setattr(core, "IS_COMPILED", is_compiled)
    monkeypatch.setattr(core, "instruction_set", lambda: "x86-64-v2")
    facts, slow = doctor()
    assert facts["core"] == ("compiled, x86-64-v2" if is_compiled else "not compiled")
    assert any("compiled core is not there" in line for line in slow) is not is_compiled


def test_threads_that_do_not_fit_the_cores_are_slow(doctor):
    before = dml.get_num_threads()
    try:
        dml.set_num_threads(available_cores() + 3)
        _, slow = doctor()
        assert any(f"ANYDML_NUM_THREADS={available_cores()}" in line for line in slow)
        if available_cores() > 1:
            dml.set_num_threads(1)
            assert any(f"1 of {available_cores()} cores work" in line for line in doctor()[1])
    finally:
        dml.set_num_threads(before)


def test_without_a_compiler_numpy_is_named(doctor, monkeypatch):
    def refuse():
        raise compiler.NoCompilerError("no \x1b[31mLLVM")

    monkeypatch.setattr(compiler, "import_kernels", refuse)
    facts, slow = doctor()
    assert facts["compiler"] == "does not work"
    assert any("NumPy moves everything" in line and r"no \x1b[31mLLVM" in line for line in slow)


def test_kernels_that_cannot_be_kept_are_slow(doctor, monkeypatch):
    kept = importlib.import_module("anydml.engines.cpu.kernels.kept")
    monkeypatch.setattr(kept, "folders", lambda: iter(()))
    facts, slow = doctor()
    assert facts["kernels"] == "none kept on disk"
    assert any("NUMBA_CACHE_DIR" in line for line in slow)


def test_a_compiler_that_does_not_work_is_named_where_kernels_are_kept(doctor, monkeypatch):
    monkeypatch.setitem(sys.modules, "anydml.engines.cpu.kernels.compilation", None)
    facts, slow = doctor()
    assert facts["compiler"] == "does not work"
    assert any("NumPy moves everything" in line for line in slow)
