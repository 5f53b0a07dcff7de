"""Random fused programs in every way of the CPU engine, between guard pages, compared with NumPy byte for byte.

python -m tests.fuzz.fused --cases 500 --seed 1 [--report FILE]

A byte too far ends the process: FILE always holds the number of the program that runs, and how.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

FILL = 0xA5
LINE = 100
"""Bytes of what the report holds."""


def placed(array: np.ndarray, at_end: bool, arenas: list[Any]) -> np.ndarray:
    """A packed copy of an array whose first byte, or last, is beside a page that cannot be read; `arenas` keeps it."""
    from trust.guarded import PAGE, Arena

    if not array.nbytes:
        return array.copy()
    arenas.append(Arena(-(-array.nbytes // PAGE)))
    memory = arenas[-1].take(array.nbytes, at_end)
    result = memory.view(array.dtype).reshape(array.shape)
    result[...] = array
    return result


def check(seed: int, number: int, at_end: bool) -> bool:
    """Run a program into an array of the caller's, and into a new one; whether there was one to run.

    Raises:
        AssertionError: a result, or an argument afterwards, is not what it should be.
    """
    from tracing.random_numpy import Program

    import anydml as dml

    program, arenas = Program([seed, number]), list[Any]()
    program.arrays = [placed(array, at_end, arenas) for array in program.arrays]
    before = [array.tobytes() for array in program.arrays]
    out = placed(np.full(program.expected.nbytes, FILL, np.uint8), at_end, arenas)
    out = out.view(program.expected.dtype).reshape(program.expected.shape)
    fused = dml.fuse(program)
    try:
        fused(program.arrays, out=out)
    except dml.FuseError as error:
        # The one thing that NumPy does and a program cannot: indices that move before they are looked at.
        if "these would have to move first" not in str(error):
            raise
        return False
    for found in (out, fused(program.arrays)):
        np.testing.assert_array_equal(found, program.expected, f"program {number} of seed {seed}", strict=True)
    assert [array.tobytes() for array in program.arrays] == before, f"program {number} of seed {seed}: an argument"
    return True


def main() -> int:
    """Fuzz; 0 where nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.fused", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, default=Path(os.devnull))
    given = parser.parse_args()
    warnings.simplefilter("error", RuntimeWarning)
    from .forced import CPU_WAYS, forced

    done = 0
    with given.report.open("wb", buffering=0) as report:
        for number in range(given.cases):
            # Each program as it is found, and in three ways, which come round.
            ways = [None, *(CPU_WAYS[(number + k) % len(CPU_WAYS)] for k in (0, 3, 7))]
            for way in ways:
                for at_end in (False, True):
                    report.seek(0)
                    report.write(f"{number}, {way}, {at_end}".encode().ljust(LINE)[:LINE])
                    if way is None:
                        done += check(given.seed, number, at_end)
                        continue
                    with forced(way):
                        done += check(given.seed, number, at_end)
    print(f"{given.cases} programs of seed {given.seed} in {done} ways, no mismatch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
