"""What type checkers make of anydml: they accept what people write, and find every mistake."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import anydml

USES = Path(__file__).with_name("uses.py")
SOURCES = Path(anydml.__file__).parents[1]
WRONG = {k for k, line in enumerate(USES.read_text(encoding="utf-8").splitlines(), 1) if line.endswith("# wrong")}


def run(command, folder):
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False,
                          env=os.environ | {"MYPYPATH": str(SOURCES)}).stdout  # fmt: skip


def test_mypy_finds_the_mistakes_and_nothing_else(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed: pip install mypy")
    said = run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--output=json",
                f"--cache-dir={tmp_path}", "--config-file=", str(USES)], tmp_path)  # fmt: skip
    found = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    errors = {each["line"] for each in found if each["severity"] == "error" and Path(each["file"]).name == USES.name}
    assert errors == WRONG, said


def test_pyright_finds_the_mistakes_and_nothing_else(tmp_path):
    # Pyright's own package gets Node and more when it is first run; basedpyright's brings everything.
    pyright = shutil.which("basedpyright") or shutil.which("pyright")
    if pyright is None:
        pytest.skip("pyright is not installed: pip install basedpyright")
    shutil.copy(USES, tmp_path / USES.name)
    settings = {"typeCheckingMode": "standard", "extraPaths": [str(SOURCES)], "include": [USES.name]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    said = run([pyright, "--outputjson", f"--pythonpath={sys.executable}"], tmp_path)
    found = json.loads(said)["generalDiagnostics"]
    errors = {each["range"]["start"]["line"] + 1 for each in found if each["severity"] == "error"}
    assert errors == WRONG, said
