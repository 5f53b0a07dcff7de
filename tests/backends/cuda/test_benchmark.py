"""The GPU benchmark's work, small and on the host: its ways agree, and its grid is the CPU's times 8."""

import dataclasses
import pathlib
import subprocess
import sys

import pytest
from cuda_memory import ON_GPU

pytest.importorskip("torch", reason="the GPU benchmark compares with PyTorch")
sys.path.append(str(pathlib.Path(__file__).parents[3]))

from benchmarks import gpu, gpu_work
from benchmarks.grid import GRID

SMALL = {
    "S1": {"shape": (8, 50), "parts": (2,) * 4},
    "S2": {"shape": (16, 96), "parts": (32,) * 3},
    "S3": {"shape": (16, 96), "parts": (64, 16, 16)},
    "S4": {"shape": (300, 3)},
    "S5": {"shape": (100, 12)},
    "S6": {"shape": (4, 40 * 8), "parts": (8,) * 40},
    "S7": {"shape": (2, 5, 7, 3)},
    "S8": {"shape": (50, 6)},
    "J1": {"shape": (16, 96), "parts": (32,) * 3},
    "J2": {"shape": (300, 3)},
    "L1": {"shape": (2, 3, 16, 16), "window": ((0, 0, 4, 4), (2, 3, 8, 8), (1,) * 4)},
    "L2": {"shape": (4, 33), "window": ((0, 0), (4, 33), (1, -1))},
    "L3": {"shape": (4, 33), "window": ((0, 0), (4, 33), (1, 2))},
    "L4": {"shape": (4, 33), "window": ((0, 0), (4, 33), (-1, 1))},
    "L5": {"shape": (2, 3, 5, 3), "window": ((0,) * 4, (2, 3, 5, 3), (1, 1, -1, 1))},
    "L6": {"shape": (4, 33), "window": ((0, 0), (4, 33), (1, 4))},
    "G1": {"shape": (50, 64), "indices": (100,)},
    "G2": {"shape": (50, 64), "indices": (20,)},
    "G3": {"shape": (200,), "indices": (100,)},
    "G4": {"shape": (16, 32), "indices": (32,)},
    "G5": {"shape": (3, 20, 4), "indices": (4, 5)},
    "G6": {"shape": (50, 64), "indices": (100,)},
    "T1": {"shape": (16, 96)},
    "T2": {"shape": (8, 34 * 5), "parts": (4, 6) * 17},
}


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_every_way_of_a_case_agrees(case):
    small = dataclasses.replace(case, **SMALL[case.name])
    work = gpu_work.Work(small, "cuda" if ON_GPU else "cpu", sets=2)
    for name, run in (("anydml", work.ours()), *work.peers()):
        work.check(name, run)


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_the_gpus_grid_can_be_described(case):
    scaled = gpu_work.scaled(case, gpu.FACTOR)
    assert scaled.shape == (8 * case.shape[0], *case.shape[1:])
    if not case.fresh:
        gpu_work.describe(scaled).check()


def test_a_wrong_result_is_found():
    small = dataclasses.replace(GRID[1], **SMALL["S2"])
    work = gpu_work.Work(small, "cuda" if ON_GPU else "cpu", sets=1)
    with pytest.raises(AssertionError, match="S2: nothing is wrong"):
        work.check("nothing", lambda k: None)


def test_a_report_becomes_a_table():
    case = {"name": "S1", "about": "a split", "bytes": 10**9, "uploads": 0.0}
    case["seconds"] = {"anydml": 0.001, "cat": 0.002, "slow": 0.003, "copy": 0.0009}
    report = {"machine": {"gpu": "a GPU"}, "factor": 8, "rounds": 3, "cases": [case], "small": {"split": 4.0}}
    lines = gpu.table(report).splitlines()
    assert "| S1 | a split | 1.000 | 1000 | 90 % | 2.000 cat | 2.00 | 0 |" in lines
    assert lines[-1] == "split: 4.0 µs of the host"


@pytest.mark.skipif(ON_GPU, reason="nothing is missing")
def test_without_a_gpu_one_line_says_so():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu"],
        capture_output=True, text=True, check=False, cwd=pathlib.Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("benchmarks.gpu: ")
    assert done.stderr.count("\n") == 1
