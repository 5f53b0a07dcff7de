"""Runs random fused programs between guard pages; a process of its own, because a byte too far ends it.

    python -m trust.fused_child REPORT COUNT

REPORT always holds the number of the program that runs, and how.
"""

from __future__ import annotations

import os
import sys

import numpy as np
from tracing.random_numpy import Program

import anydml as dml

from .guarded import PAGE, Arena

REPORT = 100
WAYS = ("as found", "kernels", "streamed")
FILL = 0xA5


def placed(array: np.ndarray, at_end: bool, arenas: list[Arena]) -> np.ndarray:
    """A packed copy of an array whose first byte, or last, is beside a page that cannot be read; `arenas` keeps it."""
    if not array.nbytes:
        return array.copy()
    arenas.append(Arena(-(-array.nbytes // PAGE)))
    memory = arenas[-1].take(array.nbytes, at_end)
    result = memory.view(array.dtype).reshape(array.shape) if array.ndim else memory.view(array.dtype).reshape(())
    result[...] = array
    return result


def run(seed: int, at_end: bool) -> bool:
    """Run a program into an array of the caller's, and into a new one; whether there was one to run."""
    program, arenas = Program([6, seed]), list[Arena]()
    program.arrays = [placed(array, at_end, arenas) for array in program.arrays]
    before = [array.tobytes() for array in program.arrays]
    out = placed(np.full(program.expected.nbytes, FILL, np.uint8).view(program.expected.dtype), at_end, arenas)
    out = out.reshape(program.expected.shape)
    fused = dml.fuse(program)
    try:
        fused(program.arrays, out=out)
    except dml.FuseError as error:
        if "these have to move before" not in str(error):
            raise
        return False
    for found in (out, fused(program.arrays)):
        np.testing.assert_array_equal(found, program.expected, f"{seed}", strict=True)
    assert [array.tobytes() for array in program.arrays] == before
    return True


def main() -> None:
    """Run so many programs in every way, with all arrays after a guard page, then before one."""
    report, count = sys.argv[1], int(sys.argv[2])
    from anydml.engines.cpu import engine, plan

    done = 0
    small = engine.SMALL_BYTES
    with open(report, "wb", buffering=0) as file:
        for way in WAYS:
            engine.SMALL_BYTES = small if way == "as found" else -1
            plan.most_cached = lambda way=way: -1 if way == "streamed" else 1 << 60
            for seed in range(count):
                for at_end in (False, True):
                    os.pwrite(file.fileno(), f"{seed}, {way}, {at_end}".encode().ljust(REPORT), 0)
                    done += run(seed, at_end)
    print(done)


if __name__ == "__main__":
    main()
