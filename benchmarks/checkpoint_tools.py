"""Checkpoints converted by other tools and by anydml: ``python -m benchmarks.checkpoint_tools [--rounds 3]``.

PyTorch's own take part, and NeMo Automodel's where it is installed (``pip install --no-deps nemo-automodel``). 1 GB of
bfloat16 in 8 shards. Each run is a process of its own: seconds without imports, until all is on the disk, and the MiB
by which the process grew, without the page cache. What comes out is compared bit for bit before it is timed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from benchmarks.checkpoints import Case, synced, tensors_of, write_shards
from benchmarks.measure import machine

CASE = Case("tools", ((4096, 14336),) * 9, 0)

NEMO = "nemo_automodel.components.checkpoint._backports.consolidate_hf_safetensors"

RUNS = {
    "HuggingFaceStorageWriter's shards to one file": {
        "consolidate_safetensors_files_on_every_rank": (
            "from torch.distributed.checkpoint import _consolidate_hf_safetensors as m",
            "m.consolidate_safetensors_files_on_every_rank('hf', 'out', dict.fromkeys(NAMES, 1))",
        ),
        "NeMo Automodel's function of that name": (
            f"from {NEMO} import consolidate_safetensors_files_on_every_rank as f",
            "f('hf', 'out', dict.fromkeys(NAMES, 1))",
        ),
        "anydml reshard": ("from anydml import stores", "stores.reshard(['hf'], 'out/model.safetensors').run()"),
    },
    "DCP to one file": {
        "dcp_to_torch_save": (
            "from torch.distributed.checkpoint.format_utils import dcp_to_torch_save",
            "dcp_to_torch_save('dcp', 'out/model.pt')",
        ),
        "anydml reshard": ("from anydml import stores", "stores.reshard(['dcp'], 'out/model.safetensors').run()"),
    },
    "torch.save to DCP": {
        "torch_save_to_dcp": (
            "from torch.distributed.checkpoint.format_utils import torch_save_to_dcp",
            "torch_save_to_dcp('model.pt', 'out/dcp')",
        ),
        "anydml reshard --dcp": (
            "from anydml import stores",
            "stores.reshard(['model.pt'], 'out/dcp', dcp=True).run()",
        ),
    },
}
"""Tools by task: what they import, and their calls."""

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
print(time.perf_counter() - start, (peak() - before) / 1024)
"""


def run(folder: Path, imports: str, call: str, names: list[str]) -> tuple[float, float]:
    """Seconds and MiB of one run."""
    (folder / "out").mkdir()
    code = CHILD.format(imports=imports, call=call)
    command = [sys.executable, "-c", code, ",".join(names)]
    there = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, env=there)
    seconds, growth = map(float, done.stdout.split()[-2:])
    return seconds, growth


def check(folder: Path, other: str) -> None:
    """Compare what a run has written.

    Raises:
        AssertionError: it differs from the shards.
    """
    from anydml import stores

    found = next(each for each in sorted((folder / "out").iterdir()) if each.name != "model.safetensors.index.json")
    if (difference := stores.verify(folder / "hf", found)) is not None:
        raise AssertionError(f"{other}: {difference}")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    print(", ".join(f"{key} {value}" for key, value in machine("safetensors", "torch").items()))
    with tempfile.TemporaryDirectory() as made:
        folder, tensors = Path(made), tensors_of(CASE)
        write_shards(folder / "hf", tensors, CASE.axis or 0, CASE.shards)
        from anydml import stores

        stores.reshard([folder / "hf"], folder / "dcp", ranks={"fsdp": CASE.shards}, dcp=True).run()
        _, to_one = RUNS["DCP to one file"]["dcp_to_torch_save"]
        (folder / "out").mkdir()
        code = f"{RUNS['DCP to one file']['dcp_to_torch_save'][0]}\n{to_one}"
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=folder, check=True, capture_output=True)
        shutil.move(folder / "out/model.pt", folder / "model.pt")
        shutil.rmtree(folder / "out")
        for each in ("hf", "dcp"):
            synced(folder / each)
        for task, tools in RUNS.items():
            here = {
                name: tool for name, tool in tools.items() if NEMO not in tool[0] or find_spec(NEMO.partition(".")[0])
            }
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in here}
            for number in range(rounds + 1):
                for name, (imports, call) in here.items():
                    one = run(folder, imports, call, [*tensors])
                    if number:
                        found[name].append(one)
                    else:
                        check(folder, name)
                    shutil.rmtree(folder / "out")
            print(f"{task}, {CASE.bytes / 1e9:.2f} GB")
            for name, own in found.items():
                seconds, growth = (statistics.median(each) for each in zip(*own, strict=True))
                print(f"    {name:44} {seconds:6.2f} s  {growth:6.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
