"""Models converted, against cp and transformers: ``python -m benchmarks.converting [--case qwen3_moe] [--rounds 3]``.

A synthetic model in shards as it is published becomes one as transformers loads it; the Llama also becomes a
distributed checkpoint of PyTorch, and comes back from one that four processes wrote. Each is done by a process of its
own (PyTorch's way to a distributed checkpoint by four): seconds by the clock, seconds of processor, and the largest
memory are those of the process, with the import of PyTorch and transformers where it is needed, for which anydml starts
another process; its memory is given beside. The inputs are in the page cache; every output is new, and synced.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import machine

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3_moe": (
        "Qwen3MoeForCausalLM",
        {"vocab_size": 32000, "hidden_size": 1024, "moe_intermediate_size": 256, "num_hidden_layers": 10,
         "num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 64, "num_experts": 128,
         "num_experts_per_tok": 8},
    ),
    "llama": (
        "LlamaForCausalLM",
        {"vocab_size": 32000, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 14,
         "num_attention_heads": 32, "num_key_value_heads": 8},
    ),
}  # fmt: skip

ANYDML = (
    "import resource, sys; from anydml import stores; stores.convert(sys.argv[1], sys.argv[2]).run()\n"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
)

TRANSFORMERS = """
import sys, transformers
kind = getattr(transformers, sys.argv[3])
model = kind.from_pretrained(sys.argv[1], dtype="auto")
model.save_pretrained(sys.argv[2], save_original_format=False)
"""

MADE = """
import sys, json, torch, transformers
from transformers.core_model_loading import revert_weight_conversion
kind = getattr(transformers, sys.argv[2])
config = kind.config_class(**json.loads(sys.argv[3]), architectures=[sys.argv[2]], dtype="bfloat16")
config.save_pretrained(sys.argv[1])
with torch.device("meta"):
    model = kind(config)
found = revert_weight_conversion(model, model.state_dict())
print(json.dumps({name: [*each.shape] for name, each in found.items()}))
"""


RANKS = 4
"""Processes that write and read a distributed checkpoint of PyTorch."""

IN_RANKS = """
import os, sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh, zeros
from safetensors import safe_open
import glob
rank, source, out = int(os.environ["RANK"]), sys.argv[1], sys.argv[2]
dist.init_process_group("gloo")
mesh, made = init_device_mesh("cpu", (dist.get_world_size(),)), {}
for path in sorted(glob.glob(source + "/*.safetensors")):
    with safe_open(path, "pt") as file:
        for name in file.keys():
            shape = file.get_slice(name).get_shape()
            made[name] = zeros(shape, dtype=torch.bfloat16, device_mesh=mesh, placements=[Shard(0)])
dcp.load(made, storage_reader=HuggingFaceStorageReader(source))
dcp.save(made, checkpoint_id=out)
dist.destroy_process_group()
"""
"""Hugging Face's files to a distributed checkpoint, each process with its rows of each tensor."""

TO_WHOLE = """
import sys, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
made = {}
reader = dcp.FileSystemReader(sys.argv[1])
_load_state_dict(made, storage_reader=reader, planner=_EmptyStateDictLoadPlanner(), no_dist=True)
dcp.save(made, storage_writer=HuggingFaceStorageWriter(sys.argv[2]), no_dist=True)
"""
"""A distributed checkpoint to Hugging Face's files, as PyTorch's format_utils load it."""

RESHARD = "import sys; from anydml import stores; stores.reshard([sys.argv[1]], sys.argv[2], **eval(sys.argv[3])).run()"


def distributed(source: Path) -> dict[str, dict[str, list[Any]]]:
    """Commands of both ways, between a model and a distributed checkpoint that is written here."""
    saved, out = source.parent / "saved", source.parent / "out"
    ranks = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={RANKS}", "--no-python", sys.executable,
             "-c", IN_RANKS]  # fmt: skip
    subprocess.run([*ranks, source, saved], check=True, capture_output=True)
    ours = [sys.executable, "-c", RESHARD]
    back = f"{{'ranks': {{'fsdp': {RANKS}}}, 'dcp': True, 'extras': False}}"
    return {
        "from_dcp": {"anydml": [*ours, saved, out, "{}"], "cp": ["cp", "-r", "--reflink=never", saved, out],
                     "torch": [sys.executable, "-c", TO_WHOLE, saved, out]},
        "to_dcp": {"anydml": [*ours, source, out, back], "cp": ["cp", "-r", "--reflink=never", source, out],
                   "torch": [*ranks, source, out]},
    }  # fmt: skip


def make(folder: Path, kind: str, config: dict[str, Any]) -> int:
    """Random shards of at most 500 MB, an index, and config.json; the bytes of all tensors."""
    import ml_dtypes
    from safetensors.numpy import save_file

    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", MADE, folder, kind, json.dumps(config)], check=True, capture_output=True, text=True
    )
    shapes: dict[str, list[int]] = json.loads(done.stdout.splitlines()[-1])
    rng = np.random.default_rng(7)
    shards: list[dict[str, Any]] = [{}]
    total, weight_map = 0, {}

    def write() -> None:
        name = f"model-{len(shards):05}.safetensors"
        save_file(shards[-1], folder / name, {"format": "pt"})
        weight_map.update(dict.fromkeys(shards[-1], name))
        shards.append({})

    for name, shape in shapes.items():
        size = int(np.prod(shape))
        total += 2 * size
        shards[-1][name] = rng.integers(0, 0x3F80, size, np.uint16).view(ml_dtypes.bfloat16).reshape(shape)
        if sum(each.nbytes for each in shards[-1].values()) > 500e6:
            write()
            shards[-2].clear()
    write()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return total


def timed(command: list[Any], out: Path) -> dict[str, float]:
    """Seconds, seconds of processor and MiB of a process, and MiB of the largest that it started, synced."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    code = (
        "import subprocess, resource, sys\n"
        "pipes = {'stdout': subprocess.PIPE, 'stderr': subprocess.DEVNULL}\n"
        "done = subprocess.run(sys.argv[1:], check=True, text=True, **pipes)\n"
        "largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024\n"
        "last = done.stdout.split()[-1:]\n"
        "print(*(last if last and last[0].replace('.', '').isdigit() else [largest]), largest)"
    )
    # Modules are compiled once, as those of an installed package are.
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True, env=env)
    for path in out.iterdir():
        descriptor = os.open(path, os.O_RDWR)
        os.fsync(descriptor)
        os.close(descriptor)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    own, largest = map(float, done.stdout.split())
    return {"seconds": seconds, "processor": processor, "mib": own, "largest": largest}


def conversions(kind: str, source: Path) -> dict[str, list[Any]]:
    """Commands that convert a model."""
    out = source.parent / "out"
    return {
        "anydml": [sys.executable, "-c", ANYDML, source, out],
        "cp": ["cp", "-r", "--reflink=never", source, out],
        "transformers": [sys.executable, "-c", TRANSFORMERS, source, out, kind],
    }


def measure(runs: dict[str, list[Any]], out: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Medians of each, after a round that does not count."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in runs}
    names, order = [*runs], random.Random(7)
    for _ in range(rounds + 1):
        order.shuffle(names)
        for name in names:
            shutil.rmtree(out, ignore_errors=True)
            # Files that are removed are not done with until the disk has been told.
            os.sync()
            found[name].append(timed(runs[name], out))
    shutil.rmtree(out, ignore_errors=True)
    return {
        name: {key: statistics.median(one[key] for one in own[1:]) for key in own[0]} for name, own in found.items()
    }


def check(kind: str, source: Path) -> None:
    """What is written is, bit for bit, what transformers writes."""
    from anydml import stores

    theirs = source.parent / "theirs"
    subprocess.run([sys.executable, "-c", TRANSFORMERS, source, theirs, kind], check=True, capture_output=True)
    difference = stores.verify(source, theirs, to="transformers")
    shutil.rmtree(theirs)
    if difference is not None:
        raise AssertionError(difference)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", action="append", choices=[*CASES], help="only this case (may be repeated)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the files lie (default: the system's folder for temporary files)")
    parser.add_argument("--json", metavar="FILE", help="keep the figures there; cases that it has already stay")
    arguments = parser.parse_args()
    print(", ".join(f"{key} {value}" for key, value in machine("transformers").items()))
    kept: dict[str, Any] = {}
    for name in arguments.case or CASES:
        kind, config = CASES[name]
        with tempfile.TemporaryDirectory(dir=arguments.folder) as made:
            source = Path(made) / "in"
            size = make(source, kind, config)
            check(kind, source)
            out = source.parent / "out"
            cases = {name: conversions(kind, source)}
            if name == "llama":
                cases |= distributed(source)
            for case, runs in cases.items():
                found = measure(runs, out, arguments.rounds)
                print(f"{case}: {kind}, {size / 1e9:.2f} GB")
                for who, each in found.items():
                    seconds, processor, mib, most = (each[key] for key in ("seconds", "processor", "mib", "largest"))
                    figures = f"{seconds:6.2f} s  {processor:6.2f} s of processor  {mib:6.0f} MiB (largest {most:.0f})"
                    print(f"    {who:12} {figures}", flush=True)
                kept[case] = {"about": kind, "bytes": size, "found": found}
    if arguments.json:
        path = Path(arguments.json)
        before = json.loads(path.read_text())["cases"] if path.exists() else {}
        now = datetime.datetime.now(datetime.UTC).date().isoformat()
        whole = {"date": now, "command": "python -m benchmarks.converting", "machine": machine("transformers")}
        path.write_text(json.dumps({**whole, "cases": {**before, **kept}}, indent=1) + "\n")


if __name__ == "__main__":
    main()
