"""The GPU benchmark's work, small and on the host: its ways agree, and its grid is the CPU's times 8."""

import contextlib
import dataclasses
import functools
import importlib.util
import json
import pathlib
import subprocess
import sys
import time
import types

import pytest
from cuda_memory import ON_GPU, needs_functions

pytest.importorskip("torch", reason="the GPU benchmark compares with PyTorch")
sys.path.append(str(pathlib.Path(__file__).parents[3]))

from benchmarks import gpu, gpu_measure, gpu_small, gpu_work
from benchmarks.grid import GRID
from benchmarks.report import Result

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


@pytest.fixture(autouse=True)
def device(monkeypatch):
    monkeypatch.setattr(gpu_work, "DEVICE", "cuda" if ON_GPU else "cpu")
    return gpu_work.DEVICE


@pytest.mark.parametrize("case", GRID, ids=lambda case: case.name)
def test_every_way_of_a_case_agrees(case):
    small = dataclasses.replace(case, **SMALL[case.name])
    work = gpu_work.Work(small, sets=2)
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
    work = gpu_work.Work(small, sets=1)
    with pytest.raises(AssertionError, match="S2: nothing is wrong"):
        work.check("nothing", lambda k: None)


def test_a_result_becomes_a_line():
    seconds = {"anydml": 0.001, "cat": 0.002, "slow": 0.003}
    result = gpu_measure.GpuResult("S1", "a split", 10**9, seconds, 0.0009, 0.0)
    assert gpu.row(result) == "| S1 | a split | 1.000 | 1000 | 90% | 2.000 cat | 2.00 | 0 |"


@pytest.fixture
def pretended(monkeypatch):
    """As much of a GPU as the benchmark asks PyTorch for, with 4 GiB free."""

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.time = time.perf_counter()

        def elapsed_time(self, end):
            return 1000 * (end.time - self.time)

    properties = types.SimpleNamespace(name="Pretended", total_memory=2**33, L2_cache_size=64, multi_processor_count=1)
    for name, value in {
        "Event": Event,
        "_sleep": lambda cycles: None,
        "synchronize": lambda: None,
        "empty_cache": lambda: None,
        "get_device_properties": lambda number: properties,
        "mem_get_info": lambda: (2**32, 2**33),
    }.items():
        monkeypatch.setattr(gpu_measure.torch.cuda, name, value)
    monkeypatch.setattr(gpu_small, "host_seconds", functools.partial(gpu_measure.host_seconds, calls=3))
    monkeypatch.setattr(gpu_measure, "WARM", 2)
    monkeypatch.setattr(gpu_work, "WARM", 2)
    monkeypatch.setattr(gpu, "what_is_missing", lambda: "")
    smaller = [dataclasses.replace(case, **SMALL[case.name]) for case in GRID if case.name in ("S2", "J2", "G1", "T1")]
    monkeypatch.setattr(gpu, "GRID", (*smaller, GRID[5]))


@pytest.mark.skipif(ON_GPU, reason="pretends that there is a GPU")
@needs_functions
@pytest.mark.filterwarnings("ignore:CUDA is not available:UserWarning")
def test_the_whole_benchmark_on_a_pretended_gpu(pretended, tmp_path, capsys):
    path = tmp_path / "gpu.json"
    assert gpu.main(["--rounds", "2", "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    report = json.loads(path.read_text(encoding="utf-8"))
    assert report["command"] == f"python -m benchmarks.gpu --rounds 2 --json {path}"
    assert time.strptime(report["date"], "%Y-%m-%d")
    assert report["machine"]["gpu"] == "Pretended"
    assert (report["factor"], report["rounds"]) == (8, 2)
    assert report["left_out"] == {"S6": "it takes 42 GiB, and 4 are free"}
    assert "S6 is left out: it takes 42 GiB" in printed
    assert "fastest device-to-device copy: " in printed
    cases = {case["name"]: case for case in report["cases"]}
    assert list(cases) == ["S2", "J2", "G1", "T1", "small"]
    for name in ("S2", "J2", "G1", "T1"):
        case = cases[name]
        assert case["uploads"] is None
        assert case["copy_seconds"] / case["seconds"]["anydml"] == pytest.approx(case["share_of_copy"])
        assert f"| {name} | " in printed
    assert [case["about"] for case in report["cases"][4:]] == [
        "SPLIT example 1, bound dispatch",
        "SPLIT example 1, function",
        "GATHER example 2, bound dispatch",
        "GATHER example 2, function",
        "SplitTraining with new sizes, function",
    ]


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (["aten::copy_", "Memcpy HtoD (Pinned -> Device)"], None),
        (["move_tiles", "move_tiles", "Memset (Device)"], 0),
        (["Memcpy HtoD (Pageable -> Device)", "move_tiles", "move_tiles", "Memcpy DtoD (Device -> Device)"], 0.5),
    ],
)
def test_uploads_are_counted_where_the_profiler_sees_the_gpu(monkeypatch, names, count):
    events = [types.SimpleNamespace(name=name) for name in names]
    seen = contextlib.nullcontext(types.SimpleNamespace(events=lambda: events))
    monkeypatch.setattr(gpu_measure.torch.profiler, "profile", lambda activities: seen)
    monkeypatch.setattr(gpu_measure.torch.cuda, "synchronize", lambda: None)
    runs = []
    assert gpu_measure.uploads(runs.append, 2) == count
    assert runs == [0, 1]


def test_the_summary_names_what_is_slow():
    slow = Result("S1", "slow", 10**9, {"anydml": 0.002, "copy_": 0.001}, 0.001)
    fast = Result("S2", "fast", 10**9, {"anydml": 0.001, "copy_": 0.002}, 0.001)
    text = gpu.summary({"cases": [slow, fast], "machine": {}, "factor": 8, "rounds": 2, "left_out": {}})
    assert "slower than PyTorch's fastest way: S1\nbelow 90% of the copy: S1\n" in text


@pytest.mark.skipif(ON_GPU, reason="pretends that there is a GPU")
def test_a_wrong_result_ends_the_benchmark_in_one_line(pretended, monkeypatch, capsys):
    monkeypatch.setattr(gpu_work.Work, "ours", lambda self: lambda k: None)
    assert gpu.main(["--case", "s2"]) == 1
    assert capsys.readouterr().err == "benchmarks.gpu: S2: anydml is wrong\n"


def test_a_case_that_is_not_there(capsys):
    with pytest.raises(SystemExit) as caught:
        gpu.main(["--case", "S99"])
    assert caught.value.code == 2
    assert "no case s99: one of S1, S2" in capsys.readouterr().err


def test_without_the_package_that_functions_need(monkeypatch, device):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "array_api_compat" else find(name))
    monkeypatch.setattr(gpu_small, "host_seconds", lambda call: 1e-6)
    left_out = {}
    assert [result.about for result in gpu_small.results(left_out)] == [
        "SPLIT example 1, bound dispatch",
        "GATHER example 2, bound dispatch",
    ]
    assert set(left_out.values()) == {"array-api-compat is not installed"}
    work = gpu_work.Work(dataclasses.replace(GRID[22], **SMALL["T1"]), sets=1)
    work.check("anydml", work.ours())


@pytest.mark.skipif(ON_GPU, reason="nothing is missing")
def test_without_a_gpu_one_line_says_so():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.gpu"],
        capture_output=True, text=True, check=False, cwd=pathlib.Path(__file__).parents[3],
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("benchmarks.gpu: ")
    assert done.stderr.count("\n") == 1
