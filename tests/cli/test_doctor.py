"""`anydml doctor`: facts that can be checked, and reasons that can be made."""

from importlib import metadata

import pytest

import anydml as dml
from anydml import core
from anydml.cli import main
from anydml.engines.cpu.threads import available_cores


@pytest.fixture
def doctor(capsys):
    def run():
        with pytest.raises(SystemExit) as ended:
            main(["doctor"])
        captured = capsys.readouterr()
        assert (ended.value.code or 0, captured.err) == (0, "")
        facts, _, slow = captured.out.partition("\n\n")
        pairs = (line.split(maxsplit=1) for line in facts.replace("largest cache", "cache").splitlines())
        return dict(pairs), slow.splitlines()

    return run


def test_facts(doctor):
    facts, _ = doctor()
    assert facts["anydml"].startswith(dml.__version__)
    assert facts["numpy"] == metadata.version("numpy")
    assert facts["threads"].startswith(f"{dml.get_num_threads()} ")
    assert facts["cores"].startswith(str(available_cores()))
    assert {"python", "core", "torch", "onnx", "memory", "gpu"} <= set(facts)


@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_compiled_core_is_named_and_its_lack_is_slow(doctor, monkeypatch, is_compiled):
    monkeypatch.setattr(core, "IS_COMPILED", is_compiled)
    monkeypatch.setattr(core, "instruction_set", lambda: "x86-64-v2")
    facts, slow = doctor()
    assert facts["core"] == ("compiled, x86-64-v2" if is_compiled else "not compiled")
    assert any("no compiled core" in line for line in slow) is not is_compiled


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
