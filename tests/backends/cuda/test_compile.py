"""The kernel compiles for NVIDIA's and AMD's GPUs, with or without one here, and moves 16 bytes at once."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

import anydml

SCRIPT = pathlib.Path(__file__).parents[2] / "compile_kernels.py"


@pytest.mark.parametrize("target, wide", [("cuda", ".v2.b64"), ("hip", "dwordx4")])
def test_the_kernel_compiles(target, wide, tmp_path):
    source = str(pathlib.Path(anydml.__file__).parents[1])
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), target], capture_output=True, text=True, env=environment, check=False
    )
    if target == "hip" and "linker" in done.stderr and "not found" in done.stderr:
        pytest.skip("this Triton has no linker for AMD")
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    found = result["accesses"]
    for name in ("equal parts by value", "unequal parts by value", "64 bits", "rows by INT64", "rows by UINT32"):
        assert any(access.endswith(wide) for access in found[name]), (name, found[name])
    assert all(found.values())
    # SplitTraining's sizes are data: new ones must not mean a new kernel.
    assert result["kernels of 24 fresh splits"] <= 6
