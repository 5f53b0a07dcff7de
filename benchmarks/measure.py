"""Timing: everything in one process, interleaved round by round, medians. The machine, described."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import random
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import anydml as dml
from anydml.core.moving import last_cache_size
from anydml.engines.cpu.threads import available_cores

Run = Callable[[], object]

SETTLE = 0.01
"""Seconds before each timed call, for the last one's threads to stop spinning: they would take a core from anybody."""

STRIDE = 0.2
"""Seconds of calls by which a run gets into its stride."""

READS = 3
"""How often each core reads its share of other memory before each timed call."""


def into_stride(runs: Mapping[str, Run]) -> None:
    """Call each until its calls are those of a loop."""
    for run in runs.values():
        end = time.perf_counter() + STRIDE
        run()
        while time.perf_counter() < end:
            run()
    for run in runs.values():
        for _ in range(3):
            run()


def medians(runs: Mapping[str, Run], rounds: int, before: Run = lambda: None) -> dict[str, float]:
    """Seconds a call: the median over rounds in which every run has its turn.

    The order is drawn anew for every round: in a fixed one, a load on the machine that comes and goes in step with the
    rounds would fall on the same run each time. Before each call the caches are filled with other memory.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    order = random.Random(7)
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            run = runs[name]
            before()
            time.sleep(SETTLE)
            _read_other_memory()
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def _read_other_memory() -> None:
    """Bring all cores into one state: awake, and with caches that hold nothing of use to anybody.

    What the last call left in the caches would otherwise be written back at the next one's cost, and a core that was
    idle takes a while to reach its speed.
    """
    threads = [threading.Thread(target=_read, args=(share,)) for share in _other_memory()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@cache
def _other_memory() -> list[np.ndarray[Any, Any]]:
    memory = np.ones(2 * last_cache_size() // 8, np.uint64)
    return np.array_split(memory, available_cores())


def _read(share: np.ndarray[Any, Any]) -> None:
    for _ in range(READS):
        share.max()


class CopyLimit:
    """The fastest plain copies known, of as many bytes as a case moves: NumPy's, PyTorch's, and our own kernel's.

    Args:
        source, destination: memory to copy from and to, as bytes.
    """

    def __init__(self, source: np.ndarray[Any, Any], destination: np.ndarray[Any, Any]) -> None:
        self._source = source
        self._destination = destination

    def runs(self, total: int) -> dict[str, Run]:
        """Copies that read and write `total` bytes together."""
        source, destination = self._source[: total // 2], self._destination[: total // 2]
        runs: dict[str, Run] = {
            "copy numpy": lambda: np.copyto(destination, source),
            "copy anydml": lambda: dml.copy(source, out=destination),
        }
        try:
            import torch
        except ImportError:
            return runs
        pair = torch.from_numpy(destination), torch.from_numpy(source)
        return {**runs, "copy torch": lambda: pair[0].copy_(pair[1])}


def _processor() -> str:
    """The processor's name, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def machine(*more: str) -> dict[str, object]:
    """What a reader must know of the machine: processor, cores, caches, memory, versions, also of more packages."""
    packages = ("numpy", "torch", "onnxruntime", *more)
    versions = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "not installed"
    return {
        "processor": _processor(),
        "threads": dml.get_num_threads(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "anydml": dml.__version__,
        **versions,
    }
