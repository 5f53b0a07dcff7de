"""Arrays in files written again, against others and cp: ``python -m benchmarks.stores [--case T1] [--rounds 3]``.

T1 and T2 make time series of maps (weather's case), L1 to L4 turn an array round that is far larger than the memory
that a process may have. Every run is a process of its own, and what it wrote is on the disk (synced) when its clock
stops; imports are not counted. What comes out is compared, in places, with the array before it is timed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.measure import machine

GROUPS = Path("/sys/fs/cgroup/memory")
"""Where control groups of version 1 bound memory, the page cache included."""


class Case(NamedTuple):
    """An array that is written in another way.

    Attributes:
        about: for people.
        source: what the name of the input ends with.
        target: likewise.
        shape: of the input.
        chunks: of the input, if it is Zarr's.
        new: of the output, if it is Zarr's.
        permute: the axes of the output.
        codec: of Zarr's chunks.
        memory: for buffers.
        limit: MiB of memory that a process may have; 0 for as much as there is.
    """

    about: str
    source: str
    target: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    new: tuple[int, ...]
    permute: tuple[int, ...]
    codec: str
    memory: str
    limit: int


MAPS, LARGE = (733, 721, 1440), (32768, 65536)
SERIES = {"none": "T1", "zstd": "T2"}
TURNED, SQUARE = (65536, 32768), (2048, 2048)
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
}  # fmt: skip


def rows_of(case: Case, first: int, count: int) -> np.ndarray[Any, Any]:
    """Some of an array's first axis: measurements to two digits around what is the same every day."""
    rng = np.random.default_rng([7, first])
    size = int(np.prod(case.shape[1:]))
    usual = 280 + 20 * np.sin(np.linspace(0, 60, size, dtype=np.float32))
    noise = rng.integers(-128, 128, (count, size), np.int8)
    return (np.round(usual, 2) + noise * np.float32(0.01)).astype(np.float32).reshape(count, *case.shape[1:])


def write_input(case: Case, path: Path) -> None:
    """The input, a part of its first axis at a time."""
    import zarr

    step = case.chunks[0] if case.chunks else 1024
    if case.source == ".npy":
        made: Any = np.lib.format.open_memmap(path, "w+", np.float32, case.shape)
    else:
        codec = None if case.codec == "none" else zarr.codecs.ZstdCodec()
        made = zarr.create_array(path, shape=case.shape, chunks=case.chunks, dtype="float32", compressors=codec)
    for first in range(0, case.shape[0], step):
        made[first : first + step] = rows_of(case, first, min(step, case.shape[0] - first))
    del made
    os.sync()


def check(case: Case, path: Path) -> None:
    """Compare what was written with the array, in the first rows of the input."""
    import zarr

    found: Any = np.load(path, mmap_mode="r") if case.target == ".npy" else zarr.open_array(path, mode="r")
    step = case.chunks[0] if case.chunks else 1024
    first = (case.shape[0] - 1) // step * step
    wanted = rows_of(case, first, min(step, case.shape[0] - first)).transpose(case.permute)
    place = [slice(None)] * len(case.shape)
    place[case.permute.index(0)] = slice(first, first + step)
    if not np.array_equal(found[tuple(place)], wanted):
        raise AssertionError(f"{path} is not what it should be")


def ours(case: Case, source: Path, target: Path) -> None:
    """By a plan."""
    from anydml import stores

    codec = case.codec if case.target == ".zarr" else None
    stores.rechunk(source, target, case.new or None, case.permute, codec=codec, memory=case.memory).run()


def dask(case: Case, source: Path, target: Path) -> None:
    """By dask.array, on threads, as its pages say."""
    import dask.array as da
    import zarr

    blocks = SQUARE if case.source == ".npy" else case.chunks
    given: Any = np.load(source, mmap_mode="r") if case.source == ".npy" else zarr.open_array(source, mode="r")
    x = da.from_array(given, chunks=blocks).transpose(case.permute)
    if case.target == ".npy":
        out = np.lib.format.open_memmap(target, "w+", np.float32, x.shape)
        da.store(x, out, lock=False)
        out.flush()
        return
    codec = None if case.codec == "none" else zarr.codecs.ZstdCodec()
    new = zarr.create_array(target, shape=x.shape, chunks=case.new, dtype="float32", compressors=codec)
    da.store(x.rechunk(case.new, block_size_limit=512_000_000), new, lock=False)


def whole(case: Case, source: Path, target: Path) -> None:
    """By zarr-python and NumPy: read, transpose, write, with all of it in memory."""
    import zarr

    given: Any = np.load(source, mmap_mode="r") if case.source == ".npy" else zarr.open_array(source, mode="r")[:]
    made = given.transpose(case.permute)
    if case.target == ".npy":
        np.save(target, made)
        return
    codec = None if case.codec == "none" else zarr.codecs.ZstdCodec()
    zarr.create_array(target, shape=made.shape, chunks=case.new, dtype="float32", compressors=codec)[:] = made


def tensorstore(case: Case, source: Path, target: Path) -> None:
    """By TensorStore, from Zarr to Zarr: one asynchronous copy of the whole array, cut into chunks of the output."""
    if ".npy" in (case.source, case.target):
        raise SystemExit("it has no driver of .npy files")
    import tensorstore as ts

    cache = {"cache_pool": {"total_bytes_limit": 512_000_000}}
    kvstore = f"file://{source.resolve()}"
    given = ts.open({"driver": "zarr3", "kvstore": kvstore}, context=ts.Context(cache), read=True).result()
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    codecs += [] if case.codec == "none" else [{"name": "zstd", "configuration": {"level": 0}}]
    shape = [case.shape[d] for d in case.permute]
    grid = {"name": "regular", "configuration": {"chunk_shape": list(case.new)}}
    meta = {"shape": shape, "data_type": "float32", "chunk_grid": grid, "codecs": codecs}
    new = ts.open({"driver": "zarr3", "kvstore": f"file://{target.resolve()}", "metadata": meta}, create=True).result()
    view = given.transpose(case.permute)
    # Columns of whole chunks at a time, as many as the memory holds: each chunk is written once.
    step = max(1, 512_000_000 // (4 * math.prod(shape[:-1])) // case.new[-1]) * case.new[-1]
    for first in range(0, shape[-1], step):
        last = min(first + step, shape[-1])
        new[..., first:last].write(view[..., first:last]).result()


def cubed(case: Case, source: Path, target: Path) -> None:
    """By cubed, from Zarr to Zarr, on threads, as its pages say."""
    if ".npy" in (case.source, case.target):
        raise SystemExit("it reads and writes Zarr")
    import cubed as library

    spec = library.Spec(work_dir=target.parent, allowed_mem=512_000_000, reserved_mem=0)
    x = library.from_zarr(str(source), spec=spec)
    library.to_zarr(x.rechunk(case.new), str(target), executor=library.runtime.create.create_executor("threads"))


def cp(_: Case, source: Path, target: Path) -> None:
    """The input's bytes as they are."""
    subprocess.run(["cp", "-r", "--reflink=never", str(source), str(target)], check=True)


WAYS = {"anydml": ours, "dask": dask, "tensorstore": tensorstore, "cubed": cubed, "zarr": whole, "cp": cp}


def child(case: Case, way: str, source: Path, target: Path) -> None:
    """One run, timed; prints seconds and MiB."""
    # Imports are not counted.
    import dask.array  # noqa: F401
    import zarr  # noqa: F401

    import anydml.stores  # noqa: F401

    start = time.perf_counter()
    WAYS[way](case, source, target)
    # What others write at the same time is waited for as well, by every way alike.
    subprocess.run(["sync", "-f", str(target)], check=True)
    spent = time.perf_counter() - start
    peak = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line)
    print(json.dumps({"seconds": spent, "mib": peak / 1024}))


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
    """Median seconds, and MiB at most, of each way; None where it was killed for memory."""
    case = CASES[name]
    source = folder / f"{len(case.shape)}d-{case.codec if case.chunks else case.memory}{case.source}"
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
    return {"seconds": statistics.median(run["seconds"] for run in runs), "mib": max(run["mib"] for run in runs)}


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
    about = machine("zarr", "dask", "tensorstore", "cubed")
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    kept: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        for name, case in CASES.items():
            if arguments.case and name not in arguments.case:
                continue
            figures = measure(name, arguments.rounds, Path(arguments.folder or made), arguments.only)
            size = 4 * int(np.prod(case.shape))
            limit = f", {case.limit} MiB of memory" if case.limit else ""
            print(f"{name}  {case.about}, {case.shape} float32, {size / 1e9:.2f} GB, budget {case.memory}{limit}")
            for way, each in figures.items():
                told = "killed" if each is None else f"{each['seconds']:7.2f} s  {each['mib']:6.0f} MiB"
                print(f"    {way:11} {told}", flush=True)
            kept[name] = {"about": case.about, "bytes": size, "limit_mib": case.limit, "ways": figures}
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
