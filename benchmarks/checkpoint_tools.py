"""Checkpoints converted by other tools and by anydml: ``python -m benchmarks.checkpoint_tools [--rounds 3]``.

PyTorch's own take part, and those of NeMo Automodel, accelerate, transformers and mergekit where they are installed
(``pip install --no-deps nemo-automodel mergekit``; ``pip install accelerate transformers``). A Llama of 1.1 GB of
bfloat16. Each run is a process of its own: seconds without imports, until all is on the disk, and the MiB by which the
process grew, without the page cache. What comes out is compared bit for bit before it is timed, and what is not as in
the input is told.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from safetensors.numpy import save_file

from benchmarks.checkpoints import synced, write_shards
from benchmarks.measure import machine

HIDDEN, INNER, LAYERS, WORDS, SHARDS = 2048, 8192, 7, 32000, 8

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": HIDDEN,
    "intermediate_size": INNER, "num_hidden_layers": LAYERS, "num_attention_heads": 16, "num_key_value_heads": 4,
    "head_dim": 128, "vocab_size": WORDS, "tie_word_embeddings": False, "max_position_embeddings": 4096,
}  # fmt: skip

TOKENIZER = json.dumps({
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
    "pre_tokenizer": None, "post_processor": None, "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"},
})  # fmt: skip

BESIDE = {"config.json": json.dumps(CONFIG), "tokenizer.json": TOKENIZER, "chat_template.jinja": "{{ messages }}"}
"""Small files beside each input."""


FORMAT = {"format": "pt"}
"""Metadata of safetensors files."""


class Tool(NamedTuple):
    """What is timed.

    Attributes:
        call: Python code, in a folder with the inputs ``hf``, ``dcp``, ``model.pt`` and ``model``; it writes ``out``.
        imports: what it needs, which is not timed.
        needs: the package that it belongs to.
        write: code that writes the result of a call that only loads.
    """

    call: str
    imports: str = "from anydml import stores"
    needs: str = "anydml"
    write: str = ""


NEMO = "nemo_automodel.components.checkpoint._backports.consolidate_hf_safetensors"

CONSOLIDATE = "consolidate_safetensors_files_on_every_rank"

FORMATS = "torch.distributed.checkpoint.format_utils"

LOAD = """
state = {name: torch.empty_like(tensor, device="cpu") for name, tensor in torch.load("model.pt", mmap=True).items()}
reader, planner = BroadcastingTorchSaveReader(), DynamicMetaLoadPlanner()
dcp.load(state, storage_reader=reader, planner=planner, checkpoint_id="model.pt")
"""

GROUP = f"""
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from {FORMATS} import BroadcastingTorchSaveReader, DynamicMetaLoadPlanner
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
"""

MERGE = f"""
run_merge(MergeConfiguration.model_validate({{"merge_method": "passthrough", "dtype": "bfloat16",
          "slices": [{{"sources": [{{"model": "model", "layer_range": [0, {LAYERS}]}}]}}]}}),
          "out", MergeOptions(out_shard_size=250_000_000, quiet=True, write_model_card=False))
"""

RUNS = {
    "shards of HuggingFaceStorageWriter to one file": {
        f"PyTorch, {CONSOLIDATE}": Tool(
            f"m.{CONSOLIDATE}('hf', 'out', dict.fromkeys(NAMES, 1))",
            "from torch.distributed.checkpoint import _consolidate_hf_safetensors as m", "torch",
        ),
        f"NeMo Automodel, {CONSOLIDATE}": Tool(
            "f('hf', 'out', dict.fromkeys(NAMES, 1))",
            f"from {NEMO} import {CONSOLIDATE} as f",
            "nemo_automodel",
        ),
        "anydml reshard": Tool("stores.reshard(['hf'], 'out').run()"),
    },
    "distributed checkpoint to one file": {
        "PyTorch, dcp_to_torch_save": Tool(
            "f('dcp', 'out/model.pt')", f"from {FORMATS} import dcp_to_torch_save as f", "torch"
        ),
        "accelerate, merge_fsdp_weights": Tool(
            "f('dcp', 'out')", "from accelerate.utils import merge_fsdp_weights as f", "accelerate"
        ),
        "anydml reshard": Tool("stores.reshard(['dcp'], 'out').run()"),
    },
    "torch.save to a distributed checkpoint": {
        "PyTorch, torch_save_to_dcp": Tool(
            "f('model.pt', 'out/dcp')", f"from {FORMATS} import torch_save_to_dcp as f", "torch"
        ),
        "anydml reshard --dcp": Tool("stores.reshard(['model.pt'], 'out/dcp', dcp=True).run()"),
    },
    "torch.save, loaded": {
        "PyTorch, DynamicMetaLoadPlanner": Tool(LOAD, GROUP, "torch", "torch.save(state, 'out/model.pt')"),
        "anydml, plan_load": Tool(
            "state = stores.plan_load('model.pt').load()", write="save_file(state, 'out/model.safetensors')",
            imports="from safetensors.numpy import save_file; from anydml import stores",
        ),
    },
    "whole model to files of 500 MB": {
        "transformers, save_pretrained": Tool(
            "LlamaForCausalLM.from_pretrained('model', dtype='auto').save_pretrained('out', max_shard_size='500MB')",
            "from transformers import LlamaForCausalLM", "transformers",
        ),
        "mergekit, passthrough": Tool(
            MERGE,
            "from mergekit.config import MergeConfiguration; from mergekit.merge import run_merge\n"
            "from mergekit.options import MergeOptions", "mergekit",
        ),
        "anydml reshard": Tool("stores.reshard(['model'], 'out', shard_size='500MB').run()"),
    },
}  # fmt: skip
"""Tools by task."""

CHILD = """
import os, sys, time, warnings
warnings.simplefilter("ignore")
from pathlib import Path
NAMES = sys.argv[1].split(",")
{imports}
def peak(): return int(next(line.split()[1] for line in open("/proc/self/status") if "VmHWM" in line))
before, start = peak(), time.perf_counter()
{call}
for each in Path("out").rglob("*"):
    if each.is_file():
        descriptor = os.open(each, os.O_RDWR); os.fsync(descriptor); os.close(descriptor)
print("\\n", time.perf_counter() - start, (peak() - before) / 1024, flush=True)
{write}
"""


def shapes() -> dict[str, tuple[int, ...]]:
    """Those of a Llama's tensors."""
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (WORDS, HIDDEN)}
    for layer in range(LAYERS):
        start = f"model.layers.{layer}"
        found |= {f"{start}.self_attn.{name}_proj.weight": (HIDDEN, HIDDEN) for name in "qo"}
        found |= {f"{start}.self_attn.{name}_proj.weight": (HIDDEN // 4, HIDDEN) for name in "kv"}
        found |= {f"{start}.mlp.{name}_proj.weight": (INNER, HIDDEN) for name in ("gate", "up")}
        found[f"{start}.mlp.down_proj.weight"] = HIDDEN, INNER
        found |= {f"{start}.{name}_layernorm.weight": (HIDDEN,) for name in ("input", "post_attention")}
    return found | {"model.norm.weight": (HIDDEN,), "lm_head.weight": (WORDS, HIDDEN)}


def make(folder: Path) -> tuple[list[str], int]:
    """Write all inputs; the names and bytes of the tensors."""
    from anydml import stores

    rng = np.random.default_rng(7)
    tensors = {
        name: rng.integers(0, 0x3F80, int(np.prod(shape)), np.uint16).view(ml_dtypes.bfloat16).reshape(shape)
        for name, shape in shapes().items()
    }
    (folder / "model").mkdir()
    names = [*tensors]
    files = {name: f"model-0000{1 + 2 * k // len(names)}-of-00002.safetensors" for k, name in enumerate(names)}
    for file in {*files.values()}:
        save_file({name: tensors[name] for name in names if files[name] == file}, folder / "model" / file, FORMAT)
    index = {"metadata": {"total_size": sum(each.nbytes for each in tensors.values())}, "weight_map": files}
    (folder / "model" / "model.safetensors.index.json").write_text(json.dumps(index))
    write_shards(folder / "hf", tensors, 0, SHARDS)
    for name in ("model", "hf"):
        for file, content in BESIDE.items():
            (folder / name / file).write_text(content)
    stores.reshard([folder / "hf"], folder / "dcp", ranks={"fsdp": SHARDS}, dcp=True).run()
    code = (
        "import torch; from glob import glob; from safetensors.torch import load_file\n"
        "torch.save({k: v for f in glob('model/*.safetensors') for k, v in load_file(f).items()}, 'model.pt')"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    for name in ("model", "hf", "dcp"):
        synced(folder / name)
    return names, sum(each.nbytes for each in tensors.values())


def run(folder: Path, tool: Tool, names: list[str], write: bool) -> dict[str, Any]:
    """Seconds and MiB of one run."""
    (folder / "out").mkdir()
    code = CHILD.format(imports=tool.imports, call=tool.call, write=tool.write if write else "")
    command = [sys.executable, "-c", code, ",".join(names)]
    there = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, env=there)
    seconds, growth = map(float, done.stdout.split("\n")[-2].split())
    return {"seconds": seconds, "mib": growth}


def lost(folder: Path, tool: str) -> list[str]:
    """The small files of the input that a run has not written, or changed.

    Raises:
        AssertionError: its tensors are others.
    """
    from anydml import stores

    out = folder / "out"
    found = out if any(out.glob("*.safetensors")) else next(out.iterdir())
    if (difference := stores.verify(folder / "model", found)) is not None:
        raise AssertionError(f"{tool}: {difference}")
    there = found if found.is_dir() else out
    missing = [f"no {name}" for name in BESIDE if not (there / name).is_file()]
    return missing + [
        f"another {name}"
        for name, content in BESIDE.items()
        if (there / name).is_file() and (there / name).read_text() != content
    ]


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", action="append", type=int, help="only this one, from 1 (may be repeated)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE", help="keep the figures there; tasks that it has already stay")
    arguments = parser.parse_args()
    packages = "safetensors", "transformers", "accelerate", "mergekit", "nemo-automodel"
    print(", ".join(f"{key} {value}" for key, value in machine(*packages).items()))
    kept: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        names, size = make(folder)
        for number, (task, tools) in enumerate(RUNS.items(), 1):
            if arguments.task and number not in arguments.task:
                continue
            here = {name: tool for name, tool in tools.items() if find_spec(tool.needs)}
            found: dict[str, list[dict[str, Any]]] = {name: [] for name in here}
            not_kept = dict[str, list[str]]()
            for turn in range(arguments.rounds + 1):
                for name, tool in here.items():
                    measured = run(folder, tool, names, write=not turn)
                    if turn:
                        found[name].append(measured)
                    else:
                        missing = lost(folder, name)
                        # One file has nothing beside it that could be lost.
                        not_kept[name] = [] if "model.pt" in tool.call else missing
                    shutil.rmtree(folder / "out")
            ways = {
                name: {
                    **{key: statistics.median(each[key] for each in own) for key in ("seconds", "mib")},
                    "lost": not_kept[name],
                }
                for name, own in found.items()
            }
            kept[task] = {"about": task, "bytes": size, "ways": ways}
            print(f"{task}, {size / 1e9:.2f} GB")
            for name, way in ways.items():
                said = ", ".join(way["lost"])
                print(f"    {name:64} {way['seconds']:6.2f} s  {way['mib']:6.0f} MiB  {said}", flush=True)
    if arguments.json:
        path = Path(arguments.json)
        before = json.loads(path.read_text())["cases"] if path.exists() else {}
        now = datetime.datetime.now(datetime.UTC).date().isoformat()
        about = {"date": now, "command": "python -m benchmarks.checkpoint_tools", "machine": machine(*packages)}
        path.write_text(json.dumps({**about, "cases": {**before, **kept}}, indent=1) + "\n")


if __name__ == "__main__":
    main()
