"""An operator is one file: a made-up one is added to a copy, and has all that the others have there."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documents import copy_of_sources

import anydml

HERE = Path(__file__).parent
SOURCES = Path(anydml.__file__).parent


def test_one_file(tmp_path):
    sources = tmp_path / "src"
    copy_of_sources(sources)
    shutil.copy(HERE / "one_file" / "swap_halves.py", sources / "anydml" / "operators")

    checks = shutil.copy(HERE / "one_file" / "checks.py", tmp_path / "test_checks.py")
    paths = os.pathsep.join([str(sources), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(checks)]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


@pytest.mark.parametrize("operator", ["gather", "gather_elements", "gather_nd"])
def test_few_files_name_an_operator(operator):
    # The referee has formulas of its own, which judge engines.
    paths = [path for path in SOURCES.rglob("*.py") if "referee" not in path.relative_to(SOURCES).parts]
    named = [path for path in paths if re.search(rf"\b{operator}(_rule)?\b", path.read_text(encoding="utf-8"))]
    assert len(named) <= 9, named
