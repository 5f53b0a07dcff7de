"""Checkpoints made whole, against PyTorch and cp: ``python -m benchmarks.checkpoints [--case C1] [--rounds 3]``.

Shards of a distributed checkpoint, eight in most cases, become one safetensors file (C); a checkpoint of layers becomes
one, as it is or laid out in another way (R), against the safetensors library. What comes out is compared, bit for bit,
with the tensors before it is timed. The inputs are in the page cache; every output is a new file and is on the disk
(synced) when the clock stops, for everybody.
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

import ml_dtypes  # noqa: F401 (NumPy knows bfloat16 by it)
import numpy as np
from safetensors.numpy import load_file, save_file

from anydml import stores
from anydml.torch import consolidate_safetensors_files
from benchmarks.measure import machine

Run = Callable[[Path], None]


class Case(NamedTuple):
    """Tensors, each cut along an axis into as many pieces as there are shards.

    Attributes:
        name: which.
        shapes: of the tensors.
        axis: along which they are cut; None for whole tensors in files of layers, as Hugging Face has them.
        dtype: of the elements.
        shards: files.
        layout: rules in TOML, for whole tensors.
    """

    name: str
    shapes: tuple[tuple[int, ...], ...]
    axis: int | None
    dtype: str = "bfloat16"
    shards: int = 8
    layout: str = ""

    @property
    def bytes(self) -> int:
        """Of all tensors."""
        return np.dtype(self.dtype).itemsize * sum(int(np.prod(shape)) for shape in self.shapes)

    @property
    def about(self) -> str:
        """What it is, for people."""
        files = f"{self.shards} file{'s' * (self.shards != 1)}"
        along = f"along axis {self.axis}" if self.axis is not None else "laid out" if self.layout else "as they are"
        return f"{len(self.shapes)} × {self.shapes[0]} {self.dtype} {along}, {files}"


DENSE, EXPERTS = ((4096, 14336),) * 8, ((64, 2048, 2816),)
ORDER = [row * 1021 % 4096 for row in range(4096)]
LAYOUT = f"""
[[rules]]
match = "layers.{{n}}.weight"
gather = 0
indices = {ORDER}
[[rules]]
match = "layers.{{n}}.weight"
split = ["layers.{{n}}.gate", "layers.{{n}}.up"]
axis = 1
sizes = [7168, 7168]
"""
"""Rows in another order, then two halves."""

CASES = (
    *(Case(f"C{axis + 1}", DENSE, axis) for axis in range(2)),
    *(Case(f"C{axis + 3}", EXPERTS, axis) for axis in range(3)),
    *(Case(f"C{6 + k}", DENSE, 1, shards=shards) for k, shards in enumerate((1, 2, 16))),
    Case("C9", ((4096, 7168),) * 8, 1, "float32"),
    Case("C10", ((4096, 28672),) * 8, 1, "int8"),
    Case("R1", DENSE, None),
    Case("R2", DENSE, None, layout=LAYOUT),
)


def tensors_of(case: Case) -> dict[str, np.ndarray[Any, Any]]:
    """Random bits; no two tensors are alike."""
    rng = np.random.default_rng(7)
    made = {}
    for k, shape in enumerate(case.shapes):
        size = int(np.prod(shape)) * np.dtype(case.dtype).itemsize
        words = rng.integers(0, 1 << 63, size // 8, np.int64)
        made[f"layers.{k}.weight"] = words.view(case.dtype).reshape(shape)
    return made


def laid_out(case: Case, tensors: dict[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """The tensors as they are to be."""
    if not case.layout:
        return tensors
    found = {}
    for name, tensor in tensors.items():
        halves = np.split(tensor[ORDER], 2, 1)
        for what, half in zip(("gate", "up"), halves, strict=True):
            found[name.replace("weight", what)] = np.ascontiguousarray(half)
    return found


def write_layers(folder: Path, tensors: dict[str, np.ndarray[Any, Any]]) -> None:
    """A file for each tensor, and an index."""
    folder.mkdir()
    files = {name: f"model-{k + 1:05}-of-{len(tensors):05}.safetensors" for k, name in enumerate(tensors)}
    for name, file in files.items():
        save_file({name: tensors[name]}, folder / file, {"format": "pt"})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": files}))


def write_shards(folder: Path, tensors: dict[str, np.ndarray[Any, Any]], axis: int, shards: int) -> None:
    """The files that PyTorch's HuggingFaceStorageWriter leaves."""
    folder.mkdir()
    for shard in range(shards):
        own, said = {}, {}
        for name, tensor in tensors.items():
            size = tensor.shape[axis] // shards
            own[name] = np.ascontiguousarray(np.split(tensor, shards, axis)[shard])
            said[name] = {"saved_offsets": [shard * size if d == axis else 0 for d in range(tensor.ndim)]}
        metadata = {"DCP_SHARDING_INFO": json.dumps(said), "DCP_VERSION": "1.0", "format": "pt"}
        save_file(own, folder / f"shard-{shard:05}-model-00001-of-00001.safetensors", metadata)


def synced(folder: Path) -> None:
    """Bring all files of a folder to the disk."""
    for path in folder.iterdir():
        descriptor = os.open(path, os.O_RDWR)
        os.fsync(descriptor)
        os.close(descriptor)


def runs_of(case: Case, source: Path, names: list[str]) -> dict[str, Run]:
    """Ours and the peers, each into an empty folder."""

    def resharded(out: Path) -> None:
        rules = source.parent / "layout.toml"
        rules.write_text(case.layout)
        stores.reshard([source], out / "model.safetensors", rules if case.layout else None).run()

    def library(out: Path) -> None:
        tensors: dict[str, np.ndarray[Any, Any]] = {}
        for path in sorted(source.glob("*.safetensors")):
            tensors |= load_file(path)
        save_file(laid_out(case, tensors), out / "model.safetensors", {"format": "pt"})
        synced(out)

    def ours(out: Path) -> None:
        consolidate_safetensors_files(str(source), str(out), dict.fromkeys(names, 1))

    def cp(out: Path) -> None:
        subprocess.run(["cp", "--reflink=never", *map(str, source.iterdir()), str(out)], check=True)
        synced(out)

    def theirs(out: Path) -> None:
        from torch.distributed.checkpoint import _consolidate_hf_safetensors as module

        module.consolidate_safetensors_files(str(source), str(out), dict.fromkeys(names, 1))
        synced(out)

    if case.axis is None:
        return {"anydml": resharded, "cp": cp, "safetensors": library}
    # PyTorch's function takes floating point alone.
    runs: dict[str, Run] = {"anydml": ours, "cp": cp}
    if case.dtype != "int8":
        runs["torch"] = theirs
    return runs


def measure(case: Case, rounds: int, folder: Path, only: list[str]) -> dict[str, float]:
    """Median seconds of each."""
    tensors = tensors_of(case)
    source, out = folder / "in", folder / "out"
    if case.axis is None:
        write_layers(source, tensors)
    else:
        write_shards(source, tensors, case.axis, case.shards)
    synced(source)
    runs = {name: run for name, run in runs_of(case, source, [*tensors]).items() if not only or name in only}
    if "anydml" in runs:
        out.mkdir()
        runs["anydml"](out)
        wanted, found = laid_out(case, tensors), stores.open(out)
        for name, tensor in wanted.items():
            if not np.array_equal(found[name].read().view(np.uint8), tensor.view(np.uint8)):
                raise AssertionError(f"{case.name}: {name} is not what it should be")
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
    print(", ".join(f"{key} {value}" for key, value in machine("safetensors").items()))
    kept: dict[str, Any] = {}
    for case in CASES:
        if arguments.case and case.name not in arguments.case:
            continue
        with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
            seconds = measure(case, arguments.rounds, Path(made), arguments.only)
            growth = grown(case, Path(made)) if case.axis is not None else None
        print(
            f"{case.name}  {case.about}, {case.bytes / 1e9:.2f} GB"
            + ("" if growth is None else f": grew by {growth:.0f} MiB")
        )
        for name, each in seconds.items():
            print(f"    {name:8} {each:6.2f} s   {each / seconds.get('anydml', each):5.2f} × ours", flush=True)
        kept[case.name] = {"about": case.about, "bytes": case.bytes, "seconds": seconds, "grown_mib": growth}
    if arguments.json:
        path = Path(arguments.json)
        before = json.loads(path.read_text())["cases"] if path.exists() else {}
        now = datetime.datetime.now(datetime.UTC).date().isoformat()
        whole = {"date": now, "command": "python -m benchmarks.checkpoints", "machine": machine("safetensors")}
        path.write_text(json.dumps({**whole, "cases": {**before, **kept}}, indent=1) + "\n")


if __name__ == "__main__":
    main()
