"""Timing on a GPU: device events around every run, all ways interleaved round by round, medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

import anydml as dml
from benchmarks.gpu_work import Run

AHEAD = 4_000_000
"""Clock cycles that the GPU idles before a round, so that the host is ahead of it and launches never wait."""


def medians(runs: Mapping[str, Run], rounds: int, sets: int) -> dict[str, float]:
    """Seconds a run on the device: the median over rounds in which every way has its turn, first ones rotating."""
    names = list(runs)
    events: dict[str, list[tuple[Any, Any]]] = {name: [] for name in names}
    for turn in range(rounds):
        torch.cuda._sleep(AHEAD)
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            runs[name](turn % sets)
            end.record()
            events[name].append((start, end))
        torch.cuda.synchronize()
    return {
        name: statistics.median(start.elapsed_time(end) for start, end in pairs) / 1000
        for name, pairs in events.items()
    }


class CopyLimit:
    """The device-to-device copy of as many bytes as a case moves."""

    def __init__(self, most: int) -> None:
        self._source = torch.randint(0, 256, (most // 2,), dtype=torch.uint8, device="cuda")
        self._destination = torch.zeros_like(self._source)

    def run(self, total: int) -> Run:
        """A copy that reads and writes `total` bytes together."""
        half = total // 2
        return lambda k: self._destination[:half].copy_(self._source[:half])


def uploads(run: Run, sets: int) -> float:
    """Copies from host to device for each run, counted by PyTorch's profiler."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        for k in range(sets):
            run(k)
        torch.cuda.synchronize()
    names = [event.name for event in profile.events()]
    return sum("HtoD" in name for name in names) / sets


def host_seconds(call: Callable[[], object], calls: int = 2000) -> float:
    """Seconds of the host's time for one of many calls that the device keeps up with."""
    for _ in range(20):
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
        "torch": torch.__version__,
        "triton": triton.__version__,
        "anydml": dml.__version__,
    }
