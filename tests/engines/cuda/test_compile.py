"""The kernel compiles for NVIDIA's and AMD's GPUs, with or without one here, and its code is what a GPU is fast at.

NVIDIA's code is run, too: see `emulate_gpu.py`.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import anydml

TESTS = pathlib.Path(__file__).parents[2]
SOURCE = pathlib.Path(anydml.__file__).parents[1]
WIDE = ("equal parts by value", "unequal parts by value", "32 unequal parts", "many parts", "join", "64 bits")
TARGETS = os.environ.get("ANYDML_GPU_TARGETS", "sm_90 gfx942").split()
"""Of NVIDIA also sm_80 and sm_100, which each night asks for."""
CASES = os.environ.get("ANYDML_EMULATED_CASES", "2")
"""For an operator, to be run on the host."""
ROWS = ("rows by INT32", "rows by INT64", "rows by UINT32", "rows by UINT64")


def run(script, *arguments, cache):
    """What a script prints; it may compile for GPUs, and import what tests share."""
    environment = {
        **os.environ,
        "TRITON_INTERPRET": "0",
        "TRITON_CACHE_DIR": str(cache),
        "PYTHONPATH": os.pathsep.join((str(SOURCE), str(TESTS))),
    }
    return subprocess.run(
        [sys.executable, str(TESTS / script), *arguments], capture_output=True, text=True, env=environment, check=False
    )


@pytest.mark.parametrize("target", TARGETS)
def test_the_kernel_compiles(target, tmp_path):
    done = run("compile_kernels.py", target, cache=tmp_path)
    if target == "gfx942" and "linker" in done.stderr and "not found" in done.stderr:
        pytest.skip("this Triton has no linker for AMD")
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    kernels = {name: facts for name, (facts,) in result["kernels"].items()}
    is_amd = target == "gfx942"
    for name, facts in kernels.items():
        assert facts["accesses"], name
        assert facts["local"] == 0, f"{name} spills registers"
        assert facts["shared bytes"] == 0, f"{name} hands elements from thread to thread"
        assert facts["wide offsets"] == (name == "64 bits"), name
        assert facts["loads before the first store"] >= facts["stores"], f"{name} waits for loads one by one"
        assert facts.get("registers", 0) <= 48, f"{name} lets too few threads run"
        if name != "small":
            assert facts["stores"] >= (2 if is_amd else 4), f"{name} has too few loads in flight"
    for name in (*WIDE, *ROWS):
        wide = [access.endswith("dwordx4" if is_amd else ".v2.b64") for access in kernels[name]["accesses"]]
        assert sum(wide) == 2, f"{name} moves fewer than 16 bytes at once"
        assert all(wide) or name in (*ROWS, "many parts"), name
    for name, every in result["moves"].items():
        for facts in every:
            assert facts["local"] == 0, f"{name} spills registers"
            assert facts["shared bytes"] == 0, f"{name} hands elements from thread to thread"
            assert facts.get("registers", 0) <= 48, f"{name} lets too few threads run"
    launches = {name: len(every) for name, every in result["moves"].items()}
    assert launches == {"scatter of rows": 3, "scatter": 3, "two lookups": 1, "lookup in a lookup": 1, "one hot": 1}
    # Sizes are data: new ones must not mean a new kernel.
    assert result["of 24 changing sizes"]["splits"] <= 6
    assert all(count <= 3 for name, count in result["of 24 changing sizes"].items() if name != "splits")


def test_compiled_code_does_what_numpy_does(tmp_path):
    done = run("emulate_gpu.py", CASES, "0", cache=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    ran = json.loads(done.stdout)
    assert ran["cases"] == ran["launches"] > 100
    assert ran["kernels"] > 100
    assert ran["programs"] == 2 * int(CASES)
