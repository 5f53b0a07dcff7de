"""Compiles launches for GPUs that need not be there, and prints what their loads and stores are. Run as a script.

Triton compiles for the driver's target; a driver that has no device is enough for that.
"""

import json
import re
import sys

import numpy as np
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

import anydml as dml
from anydml.backends.cuda.kernel import move_tiles
from anydml.backends.cuda.launch import WARPS, arguments
from anydml.backends.cuda.parts import Alignment, launches
from anydml.backends.cuda.plan import plan
from anydml.moves import simplify

TARGETS = {"cuda": GPUTarget("cuda", 90, 32), "hip": GPUTarget("hip", "gfx942", 64)}
ACCESSES = re.compile(r"(?:ld|st)\.global[.\w]*|(?:global|buffer)_(?:load|store)_\w+")


class NoDevice:
    """A driver for compiling only."""

    def __init__(self, target):
        self._target = target

    def get_current_target(self):
        return self._target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


def f32(*sizes):
    return dml.TensorDesc("FLOAT32", sizes)


def gather(rows, index, data_type):
    indices = dml.TensorDesc(data_type, (1, index))
    return dml.GatherOperatorDesc(f32(rows, 64), indices, f32(index, 64), 0, 1)


LARGE = f32(8, 2**28)
DESCS = {
    "equal parts by value": dml.SplitOperatorDesc(f32(4096, 3072), [f32(4096, 1024)] * 3, 1),
    "unequal parts by value": dml.SplitOperatorDesc(f32(4096, 1536), [f32(4096, n) for n in (1024, 256, 256)], 1),
    "one table": dml.SplitOperatorDesc(f32(64, 4200), [f32(64, 50), f32(64, 34)] * 50, 1),
    "colour planes": dml.SplitOperatorDesc(f32(2**20, 3), [f32(2**20, 1)] * 3, 1),
    "small": dml.SplitOperatorDesc(f32(3, 6), [f32(3, n) for n in (2, 1, 3)], 1),
    "reversed": dml.Slice1OperatorDesc(f32(2048, 2048), f32(2048, 2048), (0, 0), (2048, 2048), (1, -1)),
    "64 bits": dml.Slice1OperatorDesc(LARGE, LARGE, (0, 0), LARGE.sizes, (-1, 1)),
    **{f"rows by {name}": gather(5000, 10000, name) for name in ("INT32", "INT64", "UINT32", "UINT64")},
}


def kernels_of(desc):
    """The compiled kernel of every launch of an operator whose operands are well aligned."""
    addresses = [(k + 1) << 40 for k in range(200)]
    for moves in launches(simplify(desc.moves())):
        alignment = Alignment(moves)
        planned = plan(moves, alignment.vector(addresses), alignment.loads(addresses))
        yield move_tiles.warmup(**arguments(planned, addresses, 1 << 39), num_warps=WARPS, grid=(1,))


def accesses(desc):
    """The kinds of memory access in the code of an operator's launches."""
    found = set()
    for kernel in kernels_of(desc):
        found.update(ACCESSES.findall(kernel.asm.get("ptx") or kernel.asm["amdgcn"]))
    return sorted(found)


def kernels_of_fresh_splits(count):
    """How many kernels it takes to split a large tensor `count` times, each time otherwise."""
    rng = np.random.default_rng(0)
    kernels = set()
    for _ in range(count):
        first, second = sorted(rng.choice(np.arange(1, 3072), 2, replace=False).tolist())
        sizes = (first, second - first, 3072 - second)
        (kernel,) = kernels_of(dml.SplitOperatorDesc(f32(4096, 3072), [f32(4096, n) for n in sizes], 1))
        kernels.add(id(kernel))
    return len(kernels)


if __name__ == "__main__":
    driver.set_active(NoDevice(TARGETS[sys.argv[1]]))
    found = {name: accesses(desc) for name, desc in DESCS.items()}
    print(json.dumps({"accesses": found, "kernels of 24 fresh splits": kernels_of_fresh_splits(24)}))
