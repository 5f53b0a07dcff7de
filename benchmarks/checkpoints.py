"""Checkpoints made whole, against PyTorch and cp: ``python -m benchmarks.checkpoints [--case C1] [--rounds 3]``.

Eight shards of a distributed checkpoint become one safetensors file. What comes out is compared, bit for bit, with the
tensors before it is timed. The inputs are in the page cache; every output is a new file and is on the disk (synced)
when the clock stops, for cp and PyTorch's function as for ours.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from anydml import stores
from anydml.torch import consolidate_safetensors_files
from benchmarks.measure import machine

SHARDS = 8

Run = Callable[[Path], None]


class Case(NamedTuple):
    """Tensors, each cut along an axis into as many pieces as there are shards.

    Attributes:
        name: which.
        shapes: of the tensors, bfloat16.
        axis: along which they are cut.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    axis: int

    @property
    def bytes(self) -> int:
        """Of all tensors."""
        return 2 * sum(int(np.prod(shape)) for shape in self.shapes)


DENSE, EXPERTS = ((4096, 14336),) * 8, ((64, 2048, 2816),)
CASES = (
    *(Case(f"C{axis + 1}", DENSE, axis) for axis in range(2)),
    *(Case(f"C{axis + 3}", EXPERTS, axis) for axis in range(3)),
)


def tensors_of(case: Case) -> dict[str, np.ndarray[Any, Any]]:
    """Random bits; no two tensors are alike."""
    rng = np.random.default_rng(7)
    made = {}
    for k, shape in enumerate(case.shapes):
        words = rng.integers(0, 1 << 63, int(np.prod(shape)) // 4, np.int64)
        made[f"layers.{k}.weight"] = words.view(ml_dtypes.bfloat16).reshape(shape)
    return made


def write_shards(folder: Path, tensors: dict[str, np.ndarray[Any, Any]], axis: int) -> None:
    """The files that PyTorch's HuggingFaceStorageWriter leaves."""
    folder.mkdir()
    for shard in range(SHARDS):
        own, said = {}, {}
        for name, tensor in tensors.items():
            size = tensor.shape[axis] // SHARDS
            own[name] = np.ascontiguousarray(np.split(tensor, SHARDS, axis)[shard])
            said[name] = {"saved_offsets": [shard * size if d == axis else 0 for d in range(tensor.ndim)]}
        metadata = {"DCP_SHARDING_INFO": json.dumps(said), "DCP_VERSION": "1.0", "format": "pt"}
        save_file(own, folder / f"shard-{shard:05}-model-00001-of-00001.safetensors", metadata)


def synced(folder: Path) -> None:
    """Bring all files of a folder to the disk."""
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDWR)
        os.fsync(descriptor)
        os.close(descriptor)


def runs_of(source: Path, names: list[str]) -> dict[str, Run]:
    """Ours and the peers, each into an empty folder."""

    def ours(out: Path) -> None:
        consolidate_safetensors_files(str(source), str(out), dict.fromkeys(names, 1))

    def cp(out: Path) -> None:
        subprocess.run(["cp", "--reflink=never", *map(str, source.iterdir()), str(out)], check=True)
        synced(out)

    def theirs(out: Path) -> None:
        from torch.distributed.checkpoint import _consolidate_hf_safetensors as module

        module.consolidate_safetensors_files(str(source), str(out), dict.fromkeys(names, 1))
        synced(out)

    return {"anydml": ours, "cp": cp, "torch": theirs}


def measure(case: Case, rounds: int, folder: Path, only: list[str]) -> dict[str, float]:
    """Median seconds of each."""
    tensors = tensors_of(case)
    source, out = folder / "in", folder / "out"
    write_shards(source, tensors, case.axis)
    synced(source)
    runs = {name: run for name, run in runs_of(source, [*tensors]).items() if not only or name in only}
    if "anydml" in runs:
        out.mkdir()
        runs["anydml"](out)
        for name, store in stores.open(out).items():
            if not np.array_equal(store.read().view(np.uint16), tensors[name].view(np.uint16)):
                raise AssertionError(f"{case.name}: {name} is not what it was")
        shutil.rmtree(out)
    del tensors
    times: dict[str, list[float]] = {name: [] for name in runs}
    order, names = random.Random(7), [*runs]
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            out.mkdir()
            start = time.perf_counter()
            runs[name](out)
            times[name].append(time.perf_counter() - start)
            shutil.rmtree(out)
    return {name: statistics.median(each) for name, each in times.items()}


def grown(case: Case, folder: Path) -> float:
    """MiB by which consolidating grows a process that has imported everything."""
    code = (
        "import sys; from anydml import stores; from anydml.torch import consolidate_safetensors_files as f\n"
        "def peak(): return int(next(line.split()[1] for line in open('/proc/self/status') if 'VmHWM' in line))\n"
        "before = peak(); f(sys.argv[1], sys.argv[2], dict.fromkeys(stores.open(sys.argv[1] + '/' + sys.argv[3]), 1))\n"
        "print((peak() - before) / 1024)"
    )
    out = folder / "out"
    out.mkdir()
    first = min(path.name for path in (folder / "in").iterdir())
    command = [sys.executable, "-c", code, str(folder / "in"), str(out), first]
    found = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    shutil.rmtree(out)
    return found


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", help="only this case (may be repeated)")
    parser.add_argument("--only", action="append", default=[], help="only anydml, cp or torch (may be repeated)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the files lie (default: the system's folder for temporary files)")
    parser.add_argument("--json", metavar="FILE", help="keep the figures there; cases that it has already stay")
    arguments = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    kept: dict[str, Any] = {}
    for case in CASES:
        if arguments.case and case.name not in arguments.case:
            continue
        with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
            seconds = measure(case, arguments.rounds, Path(made), arguments.only)
            growth = grown(case, Path(made))
        about = f"{len(case.shapes)} × {case.shapes[0]} bfloat16 along axis {case.axis}"
        print(f"{case.name}  {about}, {case.bytes / 1e9:.2f} GB: grew by {growth:.0f} MiB")
        for name, each in seconds.items():
            print(f"    {name:8} {each:6.2f} s   {each / seconds.get('anydml', each):5.2f} × ours", flush=True)
        kept[case.name] = {"about": about, "bytes": case.bytes, "seconds": seconds, "grown_mib": growth}
    if arguments.json:
        path = Path(arguments.json)
        before = json.loads(path.read_text())["cases"] if path.exists() else {}
        now = datetime.datetime.now(datetime.UTC).date().isoformat()
        whole = {"date": now, "command": "python -m benchmarks.checkpoints", "machine": machine()}
        path.write_text(json.dumps({**whole, "cases": {**before, **kept}}, indent=1) + "\n")


if __name__ == "__main__":
    main()
