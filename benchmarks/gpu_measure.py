"""Timing on a GPU: device events around every run, all ways interleaved round by round, medians."""

from __future__ import annotations

import math
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

import anydml as dml
from benchmarks import gpu_work
from benchmarks.gpu_work import Run, Work
from benchmarks.grid import Case
from benchmarks.report import Result

CYCLES = 2_000_000_000
"""Clock cycles a second, of the fastest GPUs."""

MIN_AHEAD, MAX_AHEAD = 0.0005, 0.03
"""Seconds that the GPU idles before a run, so that the host is ahead of it and no launch is waited for."""


@dataclass(frozen=True)
class GpuResult(Result):
    """One case.

    Attributes:
        uploads: copies from host to device that one run of ours makes; None where they were not counted.
    """

    uploads: float | None = None


def result(case: Case, limit: CopyLimit, rounds: int) -> GpuResult:
    """Check every way of a case, then time all of them.

    Raises:
        AssertionError: a way is wrong.
    """
    sets = min(16, math.ceil(4 * torch.cuda.get_device_properties(0).L2_cache_size / case.bytes))
    work = Work(case, sets)
    runs = {"anydml": work.ours(), **dict(work.peers())}
    for name, run in runs.items():
        work.check(name, run)
        work.warm(run)
    seconds = medians({**runs, "copy": limit.run(case.bytes)}, rounds, sets)
    copy_seconds = seconds.pop("copy")
    counted = uploads(runs["anydml"], sets)
    del work, runs
    torch.cuda.empty_cache()
    return GpuResult(case.name, case.about, case.bytes, seconds, copy_seconds, counted)


def does_not_fit(case: Case) -> str:
    """Why a case cannot be measured on this GPU; empty where it can."""
    free, _ = torch.cuda.mem_get_info()
    # Inputs and outputs, those of a peer that makes new ones, and the copy's, which are as large.
    needed = int(2.6 * case.bytes)
    return f"it takes {needed / 2**30:.0f} GiB, and {free / 2**30:.0f} are free" if needed > free else ""


def medians(runs: Mapping[str, Run], rounds: int, sets: int) -> dict[str, float]:
    """Seconds a run on the device: the median over rounds in which every way has its turn, first ones rotating."""
    ahead = {name: int(CYCLES * _ahead(run)) for name, run in runs.items()}
    names = list(runs)
    events: dict[str, list[tuple[Any, Any]]] = {name: [] for name in names}
    for turn in range(rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            torch.cuda._sleep(ahead[name])
            start.record()
            runs[name](turn % sets)
            end.record()
            events[name].append((start, end))
        torch.cuda.synchronize()
    return {
        name: statistics.median(start.elapsed_time(end) for start, end in pairs) / 1000
        for name, pairs in events.items()
    }


def _ahead(run: Run) -> float:
    """Seconds that the GPU must idle for the host to have given it all of a run."""
    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run(0)
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return min(MAX_AHEAD, max(MIN_AHEAD, 2 * statistics.median(times)))


class CopyLimit:
    """The device-to-device copy of as many bytes as a case moves."""

    def __init__(self, most: int) -> None:
        self._source = torch.randint(0, 256, (most // 2,), dtype=torch.uint8, device=gpu_work.DEVICE)
        self._destination = torch.zeros_like(self._source)

    def run(self, total: int) -> Run:
        """A copy that reads and writes `total` bytes together."""
        half = total // 2
        return lambda k: self._destination[:half].copy_(self._source[:half])


def uploads(run: Run, sets: int) -> float | None:
    """Copies from host to device for each run, counted by PyTorch's profiler; None where it does not see the GPU."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for k in range(sets):
            run(k)
        torch.cuda.synchronize()
    names = [event.name for event in profile.events()]
    if not any("move_tiles" in name for name in names):
        return None
    return sum("HtoD" in name for name in names) / sets


WARM, CALLS = 400, 2000
"""Calls of small work: before the clock runs, so that all kernels are compiled, and by it."""


def host_seconds(call: Callable[[], object], calls: int = CALLS) -> float:
    """Seconds of the host's time for one of many calls that the device keeps up with."""
    for _ in range(WARM):
        call()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    seconds = (time.perf_counter() - start) / calls
    torch.cuda.synchronize()
    return seconds


def machine() -> dict[str, object]:
    """What a reader must know of the machine."""
    import triton

    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "memory_gib": round(properties.total_memory / 2**30),
        "l2_mib": round(properties.L2_cache_size / 2**20),
        "multiprocessors": properties.multi_processor_count,
        "system": platform.system(),
        "python": platform.python_version(),
        "anydml": dml.__version__,
        "torch": torch.__version__,
        "cuda": torch.version.cuda or torch.version.hip,
        "triton": triton.__version__,
    }
