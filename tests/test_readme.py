"""The README's code runs and prints what it shows, and its commands and links are right."""

import inspect
import json
import re
import shutil
import subprocess
import sysconfig
import tomllib

import documents
import pytest
from documents import ROOT, run_session, untimed

import anydml as dml
from anydml.operators import REGISTRY

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
ABOUT_PROGRAMS = {"explain", "fuse", "empty_cache", "get_num_threads", "set_cache_limit", "set_num_threads"}


def blocks(language):
    """The code blocks of one language."""
    return [block.body for block in documents.blocks(TEXT, language)]


def test_python_blocks_print_what_they_show():
    assert run_session("\n".join(blocks("python")), "README.md") > 20


def test_the_operators_are_counted():
    own = sum(name.startswith("DML_") for name in REGISTRY)
    assert f"{own} of DirectML's operators and {['none', 'one', 'two'][len(REGISTRY) - own]} of ONNX Runtime's" in TEXT


OPERATORS = (ROOT / "docs/operators/index.md").read_text(encoding="utf-8").split("\n## ")[0]


def test_the_operators_are_listed():
    listed = OPERATORS
    for name, kind in REGISTRY.items():
        shown = kind.__name__.removesuffix("OperatorDesc") if name.startswith("ORT_") else name.split("OPERATOR_")[1]
        assert re.search(rf"\b{shown}\b", listed), name
        assert f"`{kind.__name__}`" in listed


def test_the_functions_are_listed():
    listed = OPERATORS
    functions = {name for name in dml.__all__ if inspect.isfunction(getattr(dml, name))} - ABOUT_PROGRAMS
    assert len(functions) > 30
    assert functions <= set(re.findall(r"`(\w+)`", listed))


def test_figures_say_what_measured_them():
    speed = documents.sections(TEXT)["Speed"]
    assert re.search(r"on \d{4}-\d\d-\d\d, \d+ cores of an [A-Z]", speed)
    rows = [line for line in speed.splitlines() if line.startswith("|")][2:]
    assert len(rows) >= 5
    for row in rows:
        assert re.search(r"\| `python -m benchmarks\.\w+[\w -]*` \|$", row), row


def test_every_python_block_is_a_session():
    for block in blocks("python"):
        assert block.startswith(">>> ")
        assert block.endswith("\n\n"), "the empty line ends the last output"


def repository():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]


def test_the_first_command_prints_what_is_shown():
    clone, commands = blocks("sh")[0].strip().split("\n")
    assert clone == f"git clone {repository()} && cd anydml"
    install, run = commands.split(" && ")
    assert install == "pip install ."
    name, *arguments = run.split()
    program = shutil.which(name, path=sysconfig.get_path("scripts"))
    done = subprocess.run([program, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    shown = next(block for block in blocks("text") if block.startswith("Running"))
    assert untimed(done.stdout) == untimed(shown)
    assert done.stderr == ""


def test_the_second_command_is_what_is_checked():
    install, run = blocks("sh")[1].strip().split(" && ")
    assert run == "pytest -n auto"
    assert install == 'pip install -e ".[test]"'
    checks = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert install.replace("install", "install --no-compile --quiet") in checks
    assert f"\n{run} " in checks


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#:]+)\)|`((?:src|examples)/[\w/.]*)`", TEXT))
def test_paths_exist(target):
    assert (ROOT / "".join(target)).exists()


def test_the_cells_in_which_others_are_faster_are_those_of_the_kept_grid():
    cells = json.loads((ROOT / "benchmarks/results/sizes.json").read_text(encoding="utf-8"))["cells"]
    below = [cell["ratio"] < 0.99 for cell in cells if cell["state"] == "hot"]
    large = [cell["ratio"] < 0.99 for cell in cells if cell["state"] == "hot" and cell["size"] >= 64 << 10]
    text = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    assert f"{sum(below)} of {len(below)}" in text
    assert f"{sum(large)} of {len(large)}" in text
