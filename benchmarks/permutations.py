"""Copies of permuted views against NumPy and PyTorch: ``python -m benchmarks.permutations [--case P1] [--json FILE]``.

Every result is compared with NumPy's, bit for bit, before it is timed. The limit is the fastest plain copy of as many
bytes, in the memory of the case.
"""

from __future__ import annotations

import argparse
import datetime
import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import anydml as dml
from benchmarks.blocks import Block
from benchmarks.measure import CopyLimit, into_stride, machine, medians
from benchmarks.report import Result, geometric_mean, keep, table

ROUNDS, QUICK_ROUNDS = 21, 3

Run = Callable[[], object]


class Case(NamedTuple):
    """A view whose axes are in another order than its memory.

    Attributes:
        name: which.
        shape: of the memory, in elements.
        dtype: NumPy's name of it.
        order: the axes of the view.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    order: tuple[int, ...]

    @property
    def about(self) -> str:
        """The case in words."""
        return f"{self.dtype} ({', '.join(map(str, self.shape))}) by {', '.join(map(str, self.order))}"


CASES = (
    Case("P1", (2048, 2048), "float32", (1, 0)),
    Case("P2", (4096, 8192), "float32", (1, 0)),
    Case("P3", (4000, 5000), "float64", (1, 0)),
    Case("P4", (4096, 4096), "float16", (1, 0)),
    Case("P5", (8192, 8192), "uint8", (1, 0)),
    Case("P6", (32, 64, 112, 112), "float32", (0, 2, 3, 1)),
    Case("P7", (32, 112, 112, 64), "float32", (0, 3, 1, 2)),
    Case("P8", (64, 512, 512, 3), "uint8", (0, 3, 1, 2)),
    Case("P9", (8, 2048, 16, 64), "float32", (0, 2, 1, 3)),
    Case("P10", (8, 2048, 16, 128), "float16", (0, 2, 1, 3)),
    Case("P11", (8, 16, 2048, 64), "float16", (0, 1, 3, 2)),
    Case("P12", (40, 50, 60, 70), "float64", (3, 2, 1, 0)),
    Case("P13", (8, 16, 12, 10, 14, 16), "float32", (5, 1, 3, 0, 4, 2)),
    Case("P14", (3000, 3001, 3), "uint8", (1, 0, 2)),
)


def run_case(case: Case, rounds: int) -> Result:
    """Check everybody's result, then time everybody."""
    dtype = np.dtype(case.dtype)
    shape = tuple(case.shape[d] for d in case.order)
    source, destination = Block([(case.shape, dtype)], 0), Block([(shape, dtype)], 0)
    memory, output = source.arrays[0], destination.arrays[0]
    memory.reshape(-1).view(np.uint8)[...] = np.random.default_rng(1).integers(0, 256, memory.nbytes, np.uint8)
    view = memory.transpose(case.order)
    expected = np.ascontiguousarray(view).view(np.uint8)
    runs: dict[str, Run] = {
        "anydml": partial(dml.copy, view, output),
        "numpy": partial(np.copyto, output, view),
        **_torch(memory, output, case.order),
    }
    for name, run in runs.items():
        output.view(np.uint8)[...] = 0
        run()
        if not np.array_equal(output.view(np.uint8), expected):
            raise SystemExit(f"{case.name}: the result of {name} differs from NumPy's")
    del expected
    copies = CopyLimit(source.bytes, destination.bytes).runs(2 * memory.nbytes)
    into_stride(runs)
    times = medians({**runs, **copies}, rounds)
    copy_seconds = min(times.pop(name) for name in copies)
    return Result(case.name, case.about, 2 * memory.nbytes, times, copy_seconds)


def _torch(memory: np.ndarray[Any, Any], output: np.ndarray[Any, Any], order: tuple[int, ...]) -> dict[str, Run]:
    """PyTorch's `copy_`; nothing where it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    return {"torch copy_": partial(torch.from_numpy(output).copy_, torch.from_numpy(memory).permute(order))}


def main(arguments: list[str] | None = None) -> int:
    """Run the cases, print them, and keep them where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.permutations", description=__doc__)
    parser.add_argument("--case", action="append", help="only this case (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--rounds", type=int, help=f"rounds a case (default {ROUNDS})")
    parser.add_argument("--json", type=Path, help="add what was measured to what this file keeps")
    given = parser.parse_args(arguments)
    names = {name.lower() for name in given.case or ()}
    if unknown := names - {case.name.lower() for case in CASES}:
        parser.error(f"no case {', '.join(sorted(unknown))}: one of {', '.join(case.name for case in CASES)}")
    rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print("GB/s of bytes read and written; medians, interleaved\n")
    results: list[Result] = []
    for case in CASES:
        if names and case.name.lower() not in names:
            continue
        results.append(run_case(case, rounds))
        lines = table(results).splitlines()
        print("\n".join(lines if len(results) == 1 else lines[-1:]), flush=True)
        gc.collect()
    ratios = [result.ratio for result in results if result.ratio]
    print(f"\ngeometric mean against the fastest peer: {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    if given.json:
        today = datetime.date.today().isoformat()
        command = f"python -m benchmarks.permutations --rounds {rounds}"
        keep(given.json, results, about, [case.name for case in CASES], date=today, command=command)
        print(f"kept in {given.json}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
