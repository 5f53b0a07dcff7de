"""The benchmark of constants: each constant of the core can be changed, and a wrong name is told."""

import shutil
from pathlib import Path

import pytest

import anydml as dml
from benchmarks import constants

CORE = Path(dml.__file__).parent / "core"


@pytest.mark.parametrize(
    "setting, file, line",
    [
        ("ANYDML_SINK=77", "kernels.h", "ANYDML_SINK = 77,"),
        ("ANYDML_TRANSPOSE_BUFFER=77", "kernels.h", "ANYDML_TRANSPOSE_BUFFER = 77,"),
        ("ANYDML_MASKS_FROM=77", "interleave_plan.h", "ANYDML_MASKS_FROM = 77 }"),
        ("ANYDML_STACK=77", "pool.h", "{ ANYDML_STACK = 77 }"),
        ("SHARED_EFFORT=77", "moving.py", "\nSHARED_EFFORT = 77\n"),
        ("MIN_SIZE=77", "memory.py", "MIN_SIZE = cython.declare(cython.size_t, 77)"),
    ],
)
def test_a_constant_is_changed(tmp_path, setting, file, line):
    core = shutil.copytree(CORE, tmp_path / "core", ignore=shutil.ignore_patterns("*.so"))
    constants.change(core, setting)
    differ = [path.name for path in CORE.glob("*.[hp]*") if path.read_bytes() != (core / path.name).read_bytes()]
    assert differ == [file]
    assert line in (core / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("setting", ["ANYDML_NO_SUCH=1", "ANYDML_SINK", "ANYDML_SINK="])
def test_a_wrong_setting_is_told(setting):
    with pytest.raises(SystemExit, match=r"pass NAME=VALUE, with the name of a constant in src/anydml/core"):
        constants.change(CORE, setting)


def test_every_case_is_measured(monkeypatch):
    monkeypatch.setattr(constants, "SIZES", (4096,))
    monkeypatch.setattr(constants, "LEAST_SECONDS", 0)
    seconds = constants.measure()
    assert len(seconds) == len([*constants.cases()])
    assert min(seconds.values()) > 0
