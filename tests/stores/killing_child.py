"""Runs one plan over and over, each time in a process that is killed, and at last to its end.

Arguments: a folder with x.npy, and a seed. Prints, for each kill, how many blocks were finished by then.
"""

import os
import random
import signal
import sys
import time

import numpy as np

import anydml as dml
from anydml import stores
from anydml.stores import running

folder, rng = sys.argv[1], random.Random(int(sys.argv[2]))
x = stores.open(f"{folder}/x.npy")
fused = dml.fuse(lambda x: (x.T, x[::2]))


NAMES = {f"{folder}/t.npy": x.read().T, f"{folder}/s.npy": x.read()[::2]}


def plan(overwrite=False):
    outputs = (stores.create(f"{folder}/t.npy", (300, 400), "u2"), stores.create(f"{folder}/s.npy", (200, 300), "u2"))
    return fused.plan(x, outputs, 20_000, overwrite)


write = running._File.write


def slowly(self, view, at):
    time.sleep(0.002)
    write(self, view, at)


def finished():
    try:
        with open(f"{folder}/.t.npy.anydml-journal", "rb") as file:
            return [int(line) for line in file.read().split(b"\n")[:-1] if line.isdigit()]
    except FileNotFoundError:
        return []


before = []
for _ in range(20):
    child = os.fork()
    if not child:
        running._File.write = slowly
        plan().run()
        os._exit(0)
    time.sleep(rng.uniform(0.0, 0.3))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    done, there = finished(), [name for name in NAMES if os.path.exists(name)]
    for name in there:
        np.testing.assert_array_equal(np.load(name), NAMES[name])
    assert len(done) == len(set(done)), "a finished block was written again"
    assert done[: len(before)] == before or not done, "a finished block was forgotten"
    before = done
    if len(there) == len(NAMES) and not done:
        for name in there:
            os.unlink(name)
    print(len(done), flush=True)
plan(overwrite=True).run()
for name, array in NAMES.items():
    np.testing.assert_array_equal(np.load(name), array)
