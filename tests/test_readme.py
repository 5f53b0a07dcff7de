"""The README's code runs and prints what it shows, and its commands and links are right."""

import inspect
import json
import re
import shutil
import subprocess
import sysconfig
import tomllib
import warnings

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
    assert run_session("\n".join(blocks("python")), "README.md") > 15


def test_the_operators_are_counted():
    """SCATTER_ELEMENTS is SCATTER by another name."""
    directmls = {name for name in REGISTRY if name.startswith("DML_")}
    others = len(REGISTRY) - len(directmls)
    distinct = len(directmls - {"DML_OPERATOR_SCATTER_ELEMENTS"})
    assert f"{distinct} of DirectML's operators and {['none', 'one', 'two'][others]} of ONNX Runtime's" in TEXT


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


def test_every_python_block_is_a_session():
    for block in blocks("python"):
        assert block.startswith(">>> ")
        assert block.endswith("\n\n"), "the empty line ends the last output"


def repository():
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]


def test_the_first_commands_install_it_and_print_what_is_shown(tmp_path):
    install, *_ = (block.strip() for block in blocks("sh"))
    install, *commands = re.split(r" &&\s", install)
    assert (install, commands[0]) == (f"git clone {repository()}", "cd anydml\npip install .")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    assert printed(commands[1:], tmp_path) == blocks("text")[0]


def printed(commands, folder):
    """What commands of anydml print, which is not an error."""
    path = sysconfig.get_path("scripts")
    lines = [[shutil.which(name, path=path), *rest] for name, *rest in map(str.split, commands)]
    done = [subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True) for line in lines]
    assert not any(each.stderr for each in done)
    return "".join(each.stdout for each in done)


def test_a_training_run_becomes_a_release(tmp_path):
    """The six commands, over what PyTorch saves of a model and its optimizer."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import load_file

    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    model = {name: each.float() for name, each in load_file(ROOT / "examples/llama/model.safetensors").items()}
    states = {name: {"exp_avg": each / 2, "step": torch.tensor(5.0)} for name, each in model.items()}
    state = {"model": model, "optimizer": {"state": states, "lr": 0.1}, "step": 5}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(state, checkpoint_id=tmp_path / "run", no_dist=True)
    commands = next(block for block in blocks("sh") if "--only model" in block).splitlines()
    assert len(commands) == 6
    assert printed(commands, tmp_path) == next(block for block in blocks("text") if block.startswith("run:"))
    found = load_file(tmp_path / "model/model.safetensors")
    assert found.keys() == model.keys()
    assert all(torch.equal(found[name], each.bfloat16()) for name, each in model.items())


def test_a_model_file_of_directml_prints_what_is_shown():
    shown = next(block for block in blocks("text") if block.startswith("Running"))
    assert untimed(printed([blocks("sh")[-1]], ROOT)) == untimed(shown)


def test_the_second_command_is_what_is_checked():
    install, run = blocks("sh")[1].strip().split(" && ")
    assert run == "pytest -n auto"
    assert install == 'pip install -e ".[test]"'
    checks = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert install.replace("install", "install --no-compile --quiet") in checks
    assert f"\n{run} " in checks


def test_the_first_screen_says_what_it_is_how_to_start_and_when_not_to_use_it():
    parts = (
        "\n**",
        "\npip install .",
        " reshard ",
        "<img ",
        "```python",
        "| median × |",
        "\n**When not",
        "\n## ",
    )
    places = [TEXT.find(part) for part in parts]
    assert places[0] > -1
    assert places == sorted(places)
    assert TEXT[: places[-1]].count("\n") < 58


def test_the_headlines_are_those_of_the_kept_results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks import headlines

    assert headlines.with_table(TEXT) == TEXT, "run python -m benchmarks.headlines --write"
    assert all(
        f"| {work} |" in TEXT for name, work in headlines.GRIDS.items() if (headlines.RESULTS / f"{name}.json").exists()
    )
    kept = {"cases": {"C1": {"about": "a", "seconds": {"anydml": 2.0, "cp": 1.0, "b": 8.0, "c": 6.0}}}}
    assert headlines.ratios(kept) == {"C1: a": 3.0}
    streams = {"streams": [{"case": "pad", "size": 256, "door": "numpy", "anydml": 2.0, "numpy": 1.0}]}
    assert headlines.ratios(streams) == {"0: pad of 256 bytes": 0.5}


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
