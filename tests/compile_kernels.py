"""Compiles launches for GPUs that need not be there, and prints what their code is. Run as a script: a target.

Triton compiles for the driver's target; a driver that has no device is enough for that.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import triton
from compiling import compile_quickly
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

import anydml as dml
from anydml.engines.cuda.kernel import move_tiles
from anydml.engines.cuda.launch import OPTIONS, arguments
from anydml.engines.cuda.plan import plan
from anydml.engines.cuda.schedule import launches
from anydml.engines.cuda.vector_moves import Alignment
from anydml.moves import Access, Lookup, Move, simplify

TARGETS = {
    **{f"sm_{arch}": GPUTarget("cuda", arch, 32) for arch in (80, 90, 100)},
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
ACCESS = re.compile(r"\b(?:ld|st)\.global[.\w]*|\b(?:global|buffer)_(?:load|store)_\w+")
LOCAL = re.compile(r"\b(?:ld|st)\.local|\bscratch_(?:load|store)_")
WIDE_OFFSET = re.compile(r"tt\.addptr .*tensor<[\dx]+x!tt\.ptr<\w+>[^>]*>, tensor<[\dx]+xi64")
RESOURCES = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
CUOBJDUMP = pathlib.Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"


class NoDevice:
    """A driver for compiling only."""

    def __init__(self, target):
        self._target = target
        compile_quickly()

    def get_current_target(self):
        return self._target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0


def f32(*sizes):
    return dml.TensorDesc("FLOAT32", sizes)


def split(rows, sizes):
    return dml.SplitOperatorDesc(f32(rows, sum(sizes)), [f32(rows, n) for n in sizes], 1)


def slice1(sizes, steps, data_type="FLOAT32"):
    taken = [1 + (n - 1) // abs(step) for n, step in zip(sizes, steps, strict=True)]
    x, y = dml.TensorDesc(data_type, sizes), dml.TensorDesc(data_type, taken)
    return dml.Slice1OperatorDesc(x, y, (0,) * len(sizes), sizes, steps)


def gather(rows, index, data_type):
    indices = dml.TensorDesc(data_type, (1, index))
    return dml.GatherOperatorDesc(f32(rows, 64), indices, f32(index, 64), 0, 1)


FAR_ROWS = dml.TensorDesc("FLOAT32", [512, 1024], [2**26, 1])
DESCS = {
    "equal parts by value": split(4096, [1024] * 3),
    "unequal parts by value": split(4096, [1024, 256, 256]),
    "32 unequal parts": split(4096, range(4, 132, 4)),
    "many parts": split(512, [64] * 1024),
    "join": dml.JoinOperatorDesc([f32(4096, 1024)] * 3, f32(4096, 3072), 1),
    "64 bits": dml.SliceOperatorDesc(FAR_ROWS, f32(512, 1024), (0, 0), (512, 1024), (1, 1)),
    **{f"rows by {name}": gather(5000, 10000, name) for name in ("INT32", "INT64", "UINT32", "UINT64")},
    "one table": split(64, [50, 34] * 50),
    "colour planes": split(2**20, [1] * 3),
    "narrow columns": split(2**20, [2, 1, 3]),
    "small": split(3, [2, 1, 3]),
    "reversed": slice1((2048, 2048), (1, -1)),
    "every fourth": slice1((300, 8192), (1, 4), "FLOAT16"),
    "pictures": slice1((64, 512, 512, 3), (1, 1, -1, 1), "UINT8"),
    "scalars": dml.GatherOperatorDesc(f32(2**20), dml.TensorDesc("INT64", [2**20]), f32(2**20), 0, 1),
}


def lookup(strides, size, stride, **more):
    return Lookup(2, "int64", 0, strides, size, stride)._replace(**more)


PAIR = lookup((16,), 500, 2000), lookup((16,), 500, 4, offset=8)
NESTED = lookup((0, 0), 5000, 256, lookups=(lookup((8, 0), 700, 8, operand=3),))
MOVES = {
    "scatter of rows": Move((10000,), Access(1, 0, (0,), (lookup((8,), 5000, 256),)), Access(0, 0, (256,)), 256),
    "scatter": Move((5000, 64), Access(1, 0, (0, 4), (lookup((512, 8), 5000, 256),)), Access(0, 0, (256, 4)), 4),
    "two lookups": Move((100_000,), Access(1, 0, (4,)), Access(0, 0, (0,), PAIR), 4),
    "lookup in a lookup": Move((100_000, 64), Access(1, 0, (256, 4)), Access(0, 0, (0, 4), (NESTED,)), 4),
    "one hot": Move((100_000,), Access(1, 0, (400,), (lookup((8,), 100, 4, outside="skip"),)), Access(0, 0, (0,)), 4),
}
"""Moves that are no operator's yet."""


def kernels_of(moves):
    """The compiled kernel of every launch of moves whose operands are well aligned."""
    addresses = [(k + 1) << 40 for k in range(1100)]
    for each in launches(simplify(moves)):
        alignment = Alignment(each.moves)
        planned = plan(each, alignment.vector(addresses), alignment.loads(addresses))
        given = arguments(planned, addresses, 1 << 39)
        yield move_tiles.warmup(**given, **OPTIONS, grid=(1,))


def facts(kernel):
    """What matters of a kernel's code."""
    code = kernel.asm.get("ptx") or kernel.asm["amdgcn"]
    accesses = ACCESS.findall(code)
    is_store = ["st" in access.partition(".")[0] or "_store_" in access for access in accesses]
    found = {
        "accesses": sorted(set(accesses)),
        "loads before the first store": [*is_store, True].index(True),
        "stores": sum(is_store),
        "local": len(LOCAL.findall(code)),
        "wide offsets": bool(WIDE_OFFSET.search(kernel.asm["ttgir"])),
        "shared bytes": kernel.metadata.shared,
    }
    if "cubin" in kernel.asm and CUOBJDUMP.exists():
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(kernel.asm["cubin"])
            file.flush()
            usage = subprocess.run([CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True)
        found["registers"], stack, _, local = map(int, RESOURCES.search(usage.stdout).groups())
        found["local"] += stack + local
    return found


def kernels_of_changing_sizes(count):
    """How many kernels it takes for `count` calls each of work whose sizes change, as those of sequences do."""
    rng = np.random.default_rng(0)
    changing = {"splits": [], "batches": [], "growing joins": [], "lookups": []}
    for k in range(count):
        first, second = sorted(rng.choice(np.arange(1, 3072), 2, replace=False).tolist())
        changing["splits"].append(split(4096, [first, second - first, 3072 - second]))
        changing["batches"].append(split(4096 + 7 * k, [1024] * 3))
        past = f32(64, 1000 + k, 128)
        changing["growing joins"].append(dml.JoinOperatorDesc([past, f32(64, 1, 128)], f32(64, 1001 + k, 128), 1))
        changing["lookups"].append(gather(5000 + k, 10000 + 3 * k, "INT64"))
    return {
        name: len({id(kernel) for desc in descs for kernel in kernels_of(desc.moves())})
        for name, descs in changing.items()
    }


if __name__ == "__main__":
    driver.set_active(NoDevice(TARGETS[sys.argv[1]]))
    found = {name: [facts(kernel) for kernel in kernels_of(desc.moves())] for name, desc in DESCS.items()}
    of_moves = {name: [facts(kernel) for kernel in kernels_of([move])] for name, move in MOVES.items()}
    print(json.dumps({"kernels": found, "moves": of_moves, "of 24 changing sizes": kernels_of_changing_sizes(24)}))
