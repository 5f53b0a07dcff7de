"""First calls, calls of new shapes, and calls of a loop: ``python -m benchmarks.first_calls [--rounds 5]``.

Every library does its work in processes of their own, which time their first and second call, then calls of lengths
that have not been seen, then calls of one length again and again. Imports are not counted. Medians over processes, in
microseconds. ``--functions`` takes the functions of the streams on 1 KiB instead of fused ones.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.measure import machine

CALLS = 100
LENGTH = 500
"""Rows of the first array: 64 kB of float32."""

ROWS = 16
"""Likewise of functions."""

LIBRARIES = ("anydml", "numpy", "torch", "torch.compile")
FUNCTIONS = ("anydml", "anydml, tensors", "numpy", "torch")
"""Who takes part with functions."""

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
    """The work of fused functions as a library does it, with new contiguous results; made before the clock starts."""
    if library == "anydml":
        import anydml as dml

        return dml.fuse(WORK[name])
    if library == "numpy":
        return lambda x: np.ascontiguousarray(WORK[name](x))
    import torch

    def run(x: Any) -> Any:
        return TORCH[name](x).contiguous()

    return torch.compile(run, dynamic=True) if library == "torch.compile" else run


def calls_of(library: str, name: str) -> list[Callable[[], Any]]:
    """Calls whose lengths differ; none if the library has nothing like them."""
    if name in WORK:
        run = function_of(library, name)
        works = [(run, [np.random.default_rng(1).random((LENGTH + k, 32), np.float32)]) for k in range(CALLS)]
    else:
        from benchmarks.stream_cases import CASES

        field = {"numpy": "numpy", "torch": "torch"}.get(library, "ours")
        works = [(getattr(work, field), work.arrays) for work in (CASES[name](ROWS + k, 16) for k in range(CALLS))]
    if "tensors" in library or library.startswith("torch"):
        import torch

        works = [(run, [torch.from_numpy(each) for each in arrays]) for run, arrays in works]
    return [] if works[0][0] is None else [partial(run, *arrays) for run, arrays in works]


def child(library: str, name: str) -> None:
    """Times of one process, printed as JSON: the first call, the second, new lengths, one length."""
    calls = calls_of(library, name)
    if not calls:
        print("null")
        return
    times = []
    for each in calls + calls[:1] * CALLS:
        start = time.perf_counter()
        each()
        times.append(time.perf_counter() - start)
    print(json.dumps([*times[:2], statistics.median(times[CALLS // 2 : CALLS]), statistics.median(times[CALLS:])]))


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.first_calls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="processes of each")
    parser.add_argument(
        "--only", action="append", choices={*LIBRARIES, *FUNCTIONS}, help="only this library (may be repeated)"
    )
    parser.add_argument("--functions", action="store_true", help="functions instead of fused ones")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        child(*given.child)
        return 0
    print(", ".join(f"{key} {value}" for key, value in machine().items()))
    print(f"\n{'work':20}{'library':18}{'first call':>12}{'second':>12}{'new shape':>12}{'steady':>12}")
    if given.functions:
        from benchmarks.stream_cases import CASES

    names, libraries = (CASES, FUNCTIONS) if given.functions else (WORK, LIBRARIES)
    for name in names:
        for library in given.only or libraries:
            command = [sys.executable, "-m", "benchmarks.first_calls", "--child", library, name]
            found = []
            for _ in range(given.rounds):
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                found.append(json.loads(done.stdout.splitlines()[-1]))
            if None in found:
                continue
            cells = [statistics.median(each) * 1e6 for each in zip(*found, strict=True)]
            print(f"{name:20}{library:18}" + "".join(f"{each:12.1f}" for each in cells), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
