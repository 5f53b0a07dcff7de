"""First calls, calls of new shapes, and calls of a loop: ``python -m benchmarks.first_calls [--rounds 5]``.

Every library does its work in processes of their own, which time their first call, then calls of lengths that they have
not seen, then calls of one length again and again. Imports are not counted. Medians over processes, in microseconds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.measure import machine

CALLS = 100
LENGTH = 500
"""Rows of the first array: 64 kB of float32."""

LIBRARIES = ("anydml", "numpy", "torch", "torch.compile")
WORK = {
    "transposed copy": lambda x: x.T,
    "mirrored": lambda x: x[:, ::-1],
    "heads": lambda x: x.reshape(x.shape[0], 4, 8).swapaxes(0, 1),
    "halves exchanged": lambda x: np.concatenate([x[:, 16:], x[:, :16]], 1),
}
TORCH = {
    "transposed copy": lambda x: x.T,
    "mirrored": lambda x: x.flip(1),
    "heads": lambda x: x.unflatten(1, (4, 8)).transpose(0, 1),
    "halves exchanged": lambda x: x.roll(16, 1),
}


def function_of(library: str, name: str) -> Callable[[Any], Any]:
    """The work as a library does it, with new contiguous results; made before the clock starts."""
    if library == "anydml":
        import anydml as dml

        return dml.fuse(WORK[name])
    if library == "numpy":
        return lambda x: np.ascontiguousarray(WORK[name](x))
    import torch

    def run(x: Any) -> Any:
        return TORCH[name](x).contiguous()

    return torch.compile(run, dynamic=True) if library == "torch.compile" else run


def child(library: str, name: str) -> None:
    """Times of one process, printed as JSON: the first call, new lengths, one length."""
    run = function_of(library, name)
    arrays: list[Any] = [np.random.default_rng(1).random((LENGTH + k, 32), np.float32) for k in range(CALLS)]
    if library.startswith("torch"):
        import torch

        arrays = [torch.from_numpy(each) for each in arrays]
    times = []
    for each in arrays + [arrays[0]] * CALLS:
        start = time.perf_counter()
        run(each)
        times.append(time.perf_counter() - start)
    print(json.dumps([times[0], statistics.median(times[CALLS // 2 : CALLS]), statistics.median(times[CALLS:])]))


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_calls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="processes of each")
    parser.add_argument("--only", action="append", choices=LIBRARIES, help="only this library (may be repeated)")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        child(*given.child)
        return 0
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    print(f"\n{'work':20}{'library':15}{'first call':>12}{'new shape':>12}{'steady':>12}")
    for name in WORK:
        for library in given.only or LIBRARIES:
            command = [sys.executable, "-m", "benchmarks.first_calls", "--child", library, name]
            found = []
            for _ in range(given.rounds):
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found.append(json.loads(done.stdout.splitlines()[-1]))
            cells = [statistics.median(each) * 1e6 for each in zip(*found, strict=True)]
            print(f"{name:20}{library:15}" + "".join(f"{each:12.1f}" for each in cells), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
