"""Calls whose shapes are new each time: ``python -m benchmarks.streams [--case split] [--size 4096]``.

Each call has a length that its process has not seen, one more than the one before; its arrays are made, and read once
more, before the clock starts: whoever is first would otherwise fetch them into the caches for the others. Nothing is
called beforehand but one other case. Everybody's results are NumPy's, bit for bit. All take turns of some calls, so
that each finds the memory of its own last result, in an order drawn anew for each turn, which begins once the last
one's threads have stopped spinning; a ratio is the median of a peer's calls by the median of ours.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.measure import SETTLE, machine
from benchmarks.report import geometric_mean
from benchmarks.sizes import size_text
from benchmarks.stream_cases import CASES, Work

SIZES = (256, 4 << 10, 58 << 10, 1 << 20, 1887436)
CALLS, TURN = 41, 5
MANY = (4, 32, 100, 1000, 10_000)
"""Arrays that are joined, stacked, and cut off one."""

PEERS = {"numpy": ("numpy", "torch"), "torch": ("torch",)}
"""Who does the same, by whose arrays ours are: tensors are PyTorch's alone."""

Run = Callable[[], Any]
Array = np.ndarray[Any, Any]


def runs_of(work: Work, door: str) -> dict[str, Run]:
    """What everybody does, ours on NumPy's arrays or on tensors."""
    import torch

    tensors = [torch.from_numpy(each) for each in work.arrays]
    given = work.arrays if door == "numpy" else tensors
    runs: dict[str, Run] = {"anydml": lambda: work.ours(*given)}
    runs["numpy"] = lambda: work.numpy(*work.arrays)
    if work.torch is not None:
        made = work.torch
        runs["torch"] = lambda: made(*tensors)
    if door == "torch" and "torch" not in runs:
        # Nobody else does it to tensors.
        runs["torch"] = lambda: torch.from_numpy(work.numpy(*work.arrays))
    return runs


def check(case: str, runs: dict[str, Run]) -> None:
    """See that everybody's results are NumPy's.

    Raises:
        SystemExit: somebody's are not.
    """
    right = _listed(runs["numpy"]())
    for name, run in runs.items():
        found = _listed(run())
        if len(found) != len(right) or not all(map(np.array_equal, map(np.asarray, found), right)):
            raise SystemExit(f"{case}: the result of {name} differs from NumPy's")


def _listed(results: Any) -> list[Any]:
    return [*results] if isinstance(results, (list, tuple)) else [results]


def measured(case: str, works: list[Work], door: str) -> dict[str, float]:
    """Median seconds of a call, by name."""
    *every, last = [(runs_of(work, door), work.arrays) for work in works]
    check(case, last[0])
    return timed(every)


def timed(every: list[tuple[dict[str, Run], list[Array]]]) -> dict[str, float]:
    """Median seconds of calls that everybody makes in turns, by name.

    Args:
        every: what everybody does in each call, and the arrays that are read before it.
    """
    times: dict[str, list[float]] = {name: [] for name in every[0][0]}
    order = random.Random(3)
    for first in range(0, len(every), TURN):
        names = [*times]
        order.shuffle(names)
        for name in names:
            time.sleep(SETTLE)
            for runs, arrays in every[first : first + TURN]:
                run = runs[name]
                for each in arrays:
                    each.max()
                start = time.perf_counter()
                found = run()
                times[name].append(time.perf_counter() - start)
                del found
    return {name: statistics.median(values) for name, values in times.items()}


def many(count: int, total: int, kind: str) -> list[Work]:
    """Joins, stacks and splits of so many arrays, of new lengths."""
    import torch

    found = []
    for k in range(CALLS // 2):
        length = max(1, total // (4 * count)) + k
        arrays = [np.full(length, each, np.float32) for each in range(count)]
        ours, numpys, torchs = {
            "join": (lambda *x: dml.join(x), lambda *x: np.concatenate(x), lambda *x: torch.cat(x)),
            "stack": (lambda *x: dml.stack(x), lambda *x: np.stack(x), lambda *x: torch.stack(x)),
            "split": (
                lambda x: dml.split(x, count),
                lambda x: [each.copy() for each in np.split(x, count)],
                lambda x: torch.split_with_sizes_copy(x, [len(x) // count] * count),
            ),
        }[kind]
        found.append(Work([np.concatenate(arrays)] if kind == "split" else arrays, ours, numpys, torchs))
    return found


def streams(cases: list[str], sizes: list[int]) -> list[tuple[str, int, str, Callable[[], list[Work]]]]:
    """Every stream: its name, bytes, the door, and what makes its calls."""
    found: list[tuple[str, int, str, Callable[[], list[Work]]]] = []
    for door in ("numpy", "torch"):
        for name in cases:
            kind = name.removeprefix("many ")
            if name in CASES:
                found += [(name, size, door, partial(_works, name, size)) for size in sizes]
            else:
                found += [(f"{kind} {count}", 64 << 10, door, partial(many, count, 64 << 10, kind)) for count in MANY]
    return found


def _works(name: str, size: int) -> list[Work]:
    columns = 12 if size < 1024 else 60 if size < 1 << 17 else 252
    first = max(4, size // (4 * columns))
    return [CASES[name](first + k, columns) for k in range(CALLS)]


def main(arguments: list[str] | None = None) -> int:
    """Measure the streams, print them, and keep them where that is asked for."""
    names = [*CASES, "many join", "many stack", "many split"]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("--case", action="append", choices=names, help="only this case (may be repeated)")
    parser.add_argument("--size", action="append", type=int, help="only this size, in bytes")
    parser.add_argument("--json", type=Path, help="keep what was measured in this file")
    given = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(dml.get_num_threads())
    dml.fill(np.zeros(2), 1)
    dml.fill(torch.zeros(2), 1)
    rows: list[dict[str, Any]] = []
    for name, size, door, make in streams(given.case or names, given.size or [*SIZES]):
        seconds = measured(name, make(), door)
        ours = seconds.pop("anydml")
        peer = min((each for each in PEERS[door] if each in seconds), key=lambda each: seconds[each])
        rows.append({"case": name, "size": size, "door": door, "anydml": ours, **seconds})
        ratio = seconds[peer] / ours
        print(f"{name:18}{size_text(size):>9} {door:6}{ours * 1e6:>9.1f} µs {ratio:>6.2f} of {peer}", flush=True)
    for door, peers in PEERS.items():
        some = [min(row[peer] for peer in peers if peer in row) / row["anydml"] for row in rows if row["door"] == door]
        if some:
            slower = sum(ratio < 1 for ratio in some)
            mean = f"{geometric_mean(some):.2f} of the fastest peer (geometric mean), least {min(some):.2f}"
            print(f"{door}: {mean}, {slower} of {len(some)} slower")
    if given.json:
        kept = {"date": str(date.today()), "machine": machine(), "streams": rows}
        given.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
