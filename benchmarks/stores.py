"""Arrays in files written again, against others and cp: ``python -m benchmarks.stores [--case T1] [--rounds 3]``.

T1 and T2 make time series of maps (weather's case), L1 to L4 turn an array round that is far larger than the memory
that a process may have, S1 to S8 write shards, or read them. Every run is a process of its own, and what it wrote is on
the disk (synced) when its clock stops; imports are not counted. What comes out is compared with the array.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import machine
from benchmarks.store_ways import SQUARE, WAYS, Case, made

GROUPS = Path("/sys/fs/cgroup/memory")
"""Where control groups of version 1 bound memory, the page cache included."""


MAPS, LARGE = (733, 721, 1440), (32768, 65536)
SERIES = {"none": "T1", "zstd": "T2"}
TURNED = (65536, 32768)
SHARDED = [
    ("volume", "float32", (512, 512, 512), (8, 512, 512), (32, 32, 32), (128, 128, 128)),
    ("image", "int16", (16384, 16384), (512, 512), (256, 1024), (4096, 4096)),
]
"""Arrays, their chunks without shards, and with shards: (128, 128, 128) are 8.4 MB, (4096, 4096) 33.6 MB."""

CASES = {
    **{
        name: Case(
            f"maps to time series, {codec}", ".zarr", ".zarr", MAPS, (1, 721, 1440), (720, 36, 72), (0, 1, 2), codec,
            "512MB", 0,
        )
        for codec, name in SERIES.items()
    },
    **{
        name: Case(
            f"a .npy file to a transposed Zarr array, {codec}", ".npy", ".zarr", LARGE, (), SQUARE, (1, 0), codec,
            "512MB", 1024,
        )
        for codec, name in (("none", "L1"), ("zstd", "L3"))
    },
    **{
        name: Case(
            f"a Zarr array, {codec}, to a transposed .npy file", ".zarr", ".npy", TURNED, SQUARE, (), (1, 0), codec,
            "512MB", 1024,
        )
        for codec, name in (("none", "L2"), ("zstd", "L4"))
    },
    **{
        f"S{number}": Case(
            f"{of} {direction}, {codec}", ".zarr", ".zarr", shape, *chunks, tuple(range(len(shape))), codec, "128MB", 0,
            dtype, *shards,
        )
        for number, ((of, dtype, shape, plain, inner, shard), codec, direction) in enumerate(
            product(SHARDED, SERIES, ("to shards", "from shards")), 1
        )
        for there in [direction == "to shards"]
        for chunks, shards in [((plain, inner), ((), shard)) if there else ((inner, plain), (shard,))]
    },
}  # fmt: skip


def rows_of(case: Case, first: int, count: int) -> np.ndarray[Any, Any]:
    """Some of an array's first axis: measurements to two digits around what is the same every day."""
    rng = np.random.default_rng([7, first])
    size = int(np.prod(case.shape[1:]))
    usual = 280 + 20 * np.sin(np.linspace(0, 60, size, dtype=np.float32))
    noise = rng.integers(-128, 128, (count, size), np.int8)
    if case.dtype == "int16":
        return ((usual * 100).astype(np.int16) + noise).astype(np.int16).reshape(count, *case.shape[1:])
    return (np.round(usual, 2) + noise * np.float32(0.01)).astype(np.float32).reshape(count, *case.shape[1:])


def step_of(case: Case) -> int:
    """Rows that are made at once: those of whole files of the input."""
    return (case.shards or case.chunks or (1024,))[0]


def write_input(case: Case, path: Path) -> None:
    """The input, a part of its first axis at a time."""
    step = step_of(case)
    if case.source == ".npy":
        new: Any = np.lib.format.open_memmap(path, "w+", np.float32, case.shape)
    else:
        new = made(case, path, case.shape, case.chunks, case.shards)
    for first in range(0, case.shape[0], step):
        new[first : first + step] = rows_of(case, first, min(step, case.shape[0] - first))
    del new
    os.sync()


def check(case: Case, path: Path) -> None:
    """Compare what was written with the array: all of it up to a GB, in the last rows of the input of larger ones."""
    import zarr

    found: Any = np.load(path, mmap_mode="r") if case.target == ".npy" else zarr.open_array(path, mode="r")
    step = step_of(case)
    last = (case.shape[0] - 1) // step * step
    for first in range(0 if case.bytes < 1e9 else last, case.shape[0], step):
        wanted = rows_of(case, first, min(step, case.shape[0] - first)).transpose(case.permute)
        place = [slice(None)] * len(case.shape)
        place[case.permute.index(0)] = slice(first, first + step)
        if not np.array_equal(found[tuple(place)], wanted):
            raise AssertionError(f"{path} is not what it should be")


def memory_of(field: str) -> float:
    """MiB of this process: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def child(case: Case, way: str, source: Path, target: Path) -> None:
    """One run, timed; prints seconds, processor seconds, MiB, and MiB before."""
    # Imports are not counted.
    import dask.array  # noqa: F401
    import zarr  # noqa: F401

    import anydml.stores  # noqa: F401

    for library in ("tensorstore", "cubed", "rechunker", "zarrs"):
        if way == library:
            importlib.import_module(library)
    before, start, used = memory_of("VmRSS"), time.perf_counter(), sum(os.times()[:4])
    WAYS[way](case, source, target)
    # Of processes that a way has started, the largest.
    of_others = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024 if way != "cp" else 0
    processor = sum(os.times()[:4]) - used
    # What others write at the same time is waited for as well, by every way alike.
    subprocess.run(["sync", "-f", str(target)], check=True)
    spent = time.perf_counter() - start
    print(
        json.dumps({"seconds": spent, "processor": processor, "mib": memory_of("VmHWM") + of_others, "before": before})
    )


@contextmanager
def bounded(mebibytes: int) -> Iterator[Path | None]:
    """A control group with so much memory; None where none is asked for."""
    if not mebibytes:
        yield None
        return
    group = GROUPS / f"anydml-{os.getpid()}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(mebibytes << 20))
        yield group
    finally:
        group.rmdir()


def run(name: str, way: str, source: Path, target: Path) -> dict[str, float] | None:
    """One run in a process of its own; nothing where it was killed for memory, None where it does not take part."""
    with bounded(CASES[name].limit) as group:
        command = [sys.executable, "-m", "benchmarks.stores", "--child", name, way, str(source), str(target)]
        if group is not None:
            # Into the group first, then what is bounded.
            command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *command]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"    {way}: ended with {done.returncode}: {done.stderr[-300:]}")
        return {} if done.returncode == -signal.SIGKILL else None
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(name: str, rounds: int, folder: Path, only: list[str]) -> dict[str, dict[str, float] | None]:
    """Median seconds and processor seconds, and MiB at most, of each way; None where it was killed for memory."""
    case = CASES[name]
    kind = case.codec if case.chunks else case.memory
    kind += "".join(f"-{each}" for each in (case.dtype, *case.shards) if case.memory == "128MB")
    source = folder / f"{len(case.shape)}d-{kind}{case.source}"
    target = folder / f"out{case.target}"
    if not source.exists():
        write_input(case, source)
    ways, order = [way for way in WAYS if not only or way in only], random.Random(7)
    found: dict[str, list[dict[str, float]]] = {}
    for number in range(rounds):
        order.shuffle(ways)
        for way in ways:
            made = run(name, way, source, target)
            if made is not None:
                found.setdefault(way, []).append(made)
                if made and way != "cp" and number == 0:
                    check(case, target)
            shutil.rmtree(target) if target.is_dir() else target.unlink(missing_ok=True)
    return {way: None if {} in runs else summary(runs) for way, runs in found.items()}


def summary(runs: list[dict[str, float]]) -> dict[str, float]:
    """Of several runs."""
    middle = {name: statistics.median(run[name] for run in runs) for name in ("seconds", "processor", "before")}
    return {**middle, "mib": max(run["mib"] for run in runs)}


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", help=f"only this one of {', '.join(CASES)} (may be repeated)")
    parser.add_argument(
        "--only", action="append", default=[], help="only this one of {}".format(", ".join(WAYS)) + " (may be repeated)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the files lie; inputs that are there already are taken")
    parser.add_argument("--json", metavar="FILE", help="keep the figures there; cases that it has already stay")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        name, way, source, target = arguments.child
        child(CASES[name], way, Path(source), Path(target))
        return
    about = machine("zarr", "zarrs", "dask", "tensorstore", "cubed", "rechunker")
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    kept: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        for name, case in CASES.items():
            if arguments.case and name not in arguments.case:
                continue
            figures = measure(name, arguments.rounds, Path(arguments.folder or made), arguments.only)
            size = case.bytes
            limit = f", {case.limit} MiB of memory" if case.limit else ""
            print(f"{name}  {case.about}, {case.shape} {case.dtype}, {size / 1e9:.2f} GB, budget {case.memory}{limit}")
            for way, each in figures.items():
                told = "killed" if each is None else f"{each['seconds']:7.2f} s  {each['mib']:6.0f} MiB"
                if each is not None:
                    told += f"  {each['processor']:7.2f} s of processor time, {each['before']:.0f} MiB before"
                print(f"    {way:11} {told}", flush=True)
            # Of the last minutes, other programs' included.
            load = round(os.getloadavg()[1], 1)
            kept[name] = {"about": case.about, "bytes": size, "limit_mib": case.limit, "load": load, "ways": figures}
    if arguments.json:
        path = Path(arguments.json)
        before = json.loads(path.read_text())["cases"] if path.exists() else {}
        now = datetime.datetime.now(datetime.UTC).date().isoformat()
        whole = {"date": now, "command": "python -m benchmarks.stores", "machine": about}
        merged = {name: {**each, "ways": {**before.get(name, {}).get("ways", {}), **each["ways"]}}
                  for name, each in kept.items()}  # fmt: skip
        path.write_text(json.dumps({**whole, "cases": {**before, **merged}}, indent=1) + "\n")


if __name__ == "__main__":
    main()
