"""Runs one command over a checkpoint of some format in processes that are killed at random moments, then to its end.

Arguments: a folder with the input, and the name of a case of `CASES`. Prints, for each kill, how many blocks were
finished.
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
}
"""The input, the output, and the options of each."""

CALLS = ("write", "fsync", "open", "replace", "rename", "unlink", "mkdir", "pwrite", "preadv")


class Deadly:
    """A system call before or after which the process may die."""

    left, way = 1 << 60, 0
    turn = threading.Lock()

    def __init__(self, call):
        self.call = call

    def __call__(self, *arguments, **named):
        with Deadly.turn:
            Deadly.left -= 1
            last = Deadly.left <= 0
        if last and Deadly.way == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        result = self.call(*arguments, **named)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def main(folder, case):
    source, name, options = CASES[case]
    out = folder / name

    def plan(**more):
        return stores.reshard(folder / source, out, memory="15kB", extras=False, **options, **more)

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
            Deadly.way = rng.randrange(2)
            for call in CALLS:
                setattr(os, call, Deadly(getattr(os, call)))
            builtins.open = Deadly(open)
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
    main(Path(sys.argv[1]), sys.argv[2])
