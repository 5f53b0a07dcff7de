"""Runs one command over a checkpoint of some format in processes that are killed at random moments, then to its end.

Arguments: a folder with the input, the name of a case of `CASES`, and the memory. Prints, for each kill, how many
blocks were finished.
"""

import builtins
import os
import random
import shutil
import signal
import sys
import threading
from pathlib import Path

import ml_dtypes
import numpy as np

from anydml import stores

CASES = {
    "packed": ("x.npz", "y.safetensors", {}),
    "npz": ("x.safetensors", "y.npz", {}),
    "gguf": ("x.safetensors", "y.gguf", {}),
    "cast": ("x.safetensors", "y", {"dtype": "bf16", "shard_size": "20kB"}),
    "dcp": ("x.safetensors", "y", {"ranks": {"fsdp": 3}, "dcp": True}),
    "fsdp": ("x.safetensors", "y", {"ranks": {"fsdp": 3}}),
    "zero": ("zero", "y", {"ranks": {"fsdp": 2}}),
    "megatron": ("megatron", "y", {"shards": 3}),
    "torch": ("x.pt", "y.safetensors", {}),
    "old torch": ("old.pt", "y.gguf", {}),
    "bin": ("bin", "y.npz", {}),
    "pieces": ("dcp", "y", {"shards": 2}),
    "ranks": ("ranks", "y.safetensors", {}),
    "indexed": ("indexed", "y", {"ranks": {"tp": 2}, "dcp": True}),
    "of fsdp": ("sharded", "y.safetensors", {}),
    "writer": ("hf", "y", {"ranks": {"fsdp": 2}, "dcp": True}),
    "zero2": ("zero2", "y", {"shards": 2}),
    "meta": ("meta", "y.safetensors", {}),
    "from gguf": ("x.gguf", "y", {"ranks": {"fsdp": 2}}),
    "from npz": ("plain.npz", "y", {"ranks": {"tp": 2}}),
    "folder": ("folder", "y", {"shards": 2}),
}
"""The input, the output, and the options of each."""

FORMATS = {
    "folder": "folder of safetensors with config.json", "indexed": "the same in several files with an index",
    "x.safetensors": "one `.safetensors` file", "ranks": "ranks of `--tp`", "sharded": "ranks of `--fsdp`",
    "dcp": "`torch.distributed.checkpoint`, also of `--dcp`", "hf": "shards of `HuggingFaceStorageWriter`",
    "x.pt": "`torch.save`", "old.pt": "`torch.save` before PyTorch 1.6", "bin": "`.bin` files with an index",
    "zero2": "ZeRO's stages 1 and 2 of DeepSpeed", "zero": "ZeRO's stage 3 of DeepSpeed",
    "meta": "`consolidated.NN.pth` of Meta's Llama", "megatron": "`mp_rank_XX` and `mp_rank_XX_YYY` of Megatron",
    "plain.npz": "`.npz`", "x.npz": "`.npz` that is compressed", "x.gguf": "`.gguf`",
}  # fmt: skip
"""The formats of the inputs, as the table of docs/formats.md names them."""

WRITES = ("write", "pwrite")

CALLS = (*WRITES, "fsync", "open", "replace", "rename", "unlink", "mkdir", "preadv")


class Deadly:
    """A system call before, after or amid which the process may die."""

    left, way = 1 << 60, 0
    turn = threading.Lock()

    def __init__(self, name, call):
        self.name, self.call = name, call

    def __call__(self, *arguments, **named):
        with Deadly.turn:
            Deadly.left -= 1
            last = Deadly.left <= 0
        if last and Deadly.way == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if last and Deadly.way == 1 and self.name in WRITES:
            descriptor, data, *at = arguments
            self.call(descriptor, memoryview(data)[: len(data) // 2], *at)
            os.kill(os.getpid(), signal.SIGKILL)
        result = self.call(*arguments, **named)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def main(folder, case, memory):
    source, name, options = CASES[case]
    out = folder / name

    def plan(**more):
        return stores.reshard(folder / source, out, memory=memory, extras=False, **options, **more)

    wanted = stores.plan_load(folder / source).load()
    if "dtype" in options:
        wanted = {key: array.astype(ml_dtypes.bfloat16) for key, array in wanted.items()}

    def is_right():
        found = stores.plan_load(out).load()
        return found.keys() == wanted.keys() and all(found[key].tobytes() == wanted[key].tobytes() for key in wanted)

    def finished():
        try:
            with open(folder / f".{name}.anydml-journal", "rb") as file:
                return [int(line) for line in file.read().split(b"\n")[:-1] if line.isdigit()]
        except FileNotFoundError:
            return []

    before, rng = [], random.Random(5)
    for number in range(8):
        child = os.fork()
        if not child:
            made = plan()
            rng.seed(number)
            Deadly.left = rng.randint(1, rng.choice((30, 200, 300)))
            Deadly.way = rng.randrange(3)
            for call in CALLS:
                setattr(os, call, Deadly(call, getattr(os, call)))
            builtins.open = Deadly("open", open)
            made.run()
            os._exit(0)
        os.waitpid(child, 0)
        done, is_there = finished(), out.exists()
        assert not is_there or is_right(), "what has the final name is whole"
        assert len(done) == len({*done}), "a finished block was written again"
        is_over = is_there and not done
        assert done[: len(before)] == before or is_over, "a finished block was forgotten"
        before = [] if is_over else done
        if is_over:
            shutil.rmtree(out) if out.is_dir() else out.unlink()
        print(len(done), flush=True)
    plan(overwrite=True).run()
    assert is_right()
    with np.errstate(all="raise"):
        assert stores.verify(out, out) is None


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
