"""Runs one plan over and over, each time in a process that is killed at a random system call, and at last to its end.

Arguments: a folder with x.npy, and a seed. Prints, for each kill, how many blocks were finished by then.
"""

import os
import random
import signal
import sys
import threading

import numpy as np

import anydml as dml
from anydml import stores

CALLS = ("preadv", "pwrite", "write", "fsync", "ftruncate", "posix_fallocate", "open", "replace", "unlink", "mkdir")

folder, rng = sys.argv[1], random.Random(int(sys.argv[2]))
x = stores.open(f"{folder}/x.npy")
fused = dml.fuse(lambda x: (x.T, x[::2]))
NAMES = {f"{folder}/t.npy": x.read().T, f"{folder}/s.npy": x.read()[::2]}


def plan(overwrite=False):
    outputs = (stores.create(f"{folder}/t.npy", (300, 400), "u2"), stores.create(f"{folder}/s.npy", (200, 300), "u2"))
    return fused.plan(x, outputs, 20_000, overwrite)


def finished():
    try:
        with open(f"{folder}/.t.npy.anydml-journal", "rb") as file:
            return [int(line) for line in file.read().split(b"\n")[:-1] if line.isdigit()]
    except FileNotFoundError:
        return []


class Deadly:
    """A system call of which the process may die: before it, after it, or, of a write, in the midst of it."""

    left, way = 1 << 60, 0
    turn = threading.Lock()

    def __init__(self, name):
        self.name, self.call = name, getattr(os, name)

    def __call__(self, *arguments, **named):
        with Deadly.turn:
            Deadly.left -= 1
            last = Deadly.left <= 0
        if last and Deadly.way == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if last and self.name == "pwrite":
            descriptor, view, at = arguments
            self.call(descriptor, view[: len(view) // 2], at)
            os.kill(os.getpid(), signal.SIGKILL)
        result = self.call(*arguments, **named)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


total = plan().totals
before = []
for number in range(20):
    child = os.fork()
    if not child:
        made = plan()
        # Mostly in the midst of it, sometimes at its beginning or end.
        most = 3 * len(made.blocks) + total.reads + total.writes
        rng.seed(f"{sys.argv[2]} {number}")
        Deadly.left = rng.randint(1, rng.choice((30, most, most, most + 60)))
        Deadly.way = rng.randrange(2)
        for name in CALLS:
            setattr(os, name, Deadly(name))
        made.run()
        os._exit(0)
    os.waitpid(child, 0)
    done, there = finished(), [name for name in NAMES if os.path.exists(name)]
    for name in there:
        np.testing.assert_array_equal(np.load(name), NAMES[name])
    assert len(done) == len(set(done)), "a finished block was written again"
    is_over = len(there) == len(NAMES) and not done
    assert done[: len(before)] == before or is_over, "a finished block was forgotten"
    before = done
    if is_over:
        for name in there:
            os.unlink(name)
    print(len(done), flush=True)
plan(overwrite=True).run()
for name, array in NAMES.items():
    np.testing.assert_array_equal(np.load(name), array)
