"""Runs one plan again and again, in processes that are killed at random moments, then to its end.

Arguments: a folder with x.zarr or x.safetensors, and which of these. What comes out appears as a folder: y.zarr, or the
shards y. Prints, for each kill, how many blocks were finished by then.
"""

import builtins
import os
import random
import shutil
import signal
import sys
import threading

import numpy as np

import anydml as dml
from anydml import stores

folder, kind, rng = sys.argv[1], sys.argv[2], random.Random(3)
store = stores.open(f"{folder}/x.{kind}")
NAME = "y.zarr" if kind == "zarr" else "y"


def plan(overwrite=False):
    if kind == "zarr":
        target = stores.create(f"{folder}/y.zarr", wanted.shape, wanted.dtype, like=store, chunks=(6, 9, 10))
        return dml.fuse(lambda x: x.T).plan(store, target, "15kB", overwrite)
    return stores.reshard([f"{folder}/x.safetensors"], f"{folder}/y", None, None, "15kB", "20kB", overwrite)


def found():
    made = stores.open(f"{folder}/{NAME}")
    return made.read() if kind == "zarr" else np.concatenate([made[name].read() for name in store])


wanted = store.read().T if kind == "zarr" else np.concatenate([each.read() for each in store.values()])


def finished():
    try:
        with open(f"{folder}/.{NAME}.anydml-journal", "rb") as file:
            return [int(line) for line in file.read().split(b"\n")[:-1] if line.isdigit()]
    except FileNotFoundError:
        return []


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


before = []
for number in range(25):
    child = os.fork()
    if not child:
        made = plan()
        rng.seed(number)
        Deadly.left = rng.randint(1, rng.choice((30, 200, 300)))
        Deadly.way = rng.randrange(2)
        for name in ("write", "fsync", "open", "replace", "rename", "unlink", "mkdir", "pwrite", "preadv"):
            setattr(os, name, Deadly(getattr(os, name)))
        builtins.open = Deadly(open)
        made.run()
        os._exit(0)
    os.waitpid(child, 0)
    done, is_there = finished(), os.path.exists(f"{folder}/{NAME}")
    if is_there:
        assert (found() == wanted).all()
    assert len(done) == len(set(done)), "a finished block was written again"
    is_over = is_there and not done
    assert done[: len(before)] == before or is_over, "a finished block was forgotten"
    before = done
    if is_over:
        shutil.rmtree(f"{folder}/{NAME}")
    print(len(done), flush=True)
plan(overwrite=True).run()
assert (found() == wanted).all()
