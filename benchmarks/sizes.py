"""Work of all sizes against NumPy and PyTorch: ``python -m benchmarks.sizes [--case Z1] [--size 4K] [--way out]``.

Every result is compared with NumPy's before it is timed. All runs of a cell take turns in an order drawn anew for each
round; a ratio is the median over the rounds of a peer's time by ours, and the cell's is that of the fastest peer.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import random
import statistics
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import anydml as dml
from anydml.engines.cpu.compiler import import_kernels
from anydml.engines.cpu.launch import LOADER
from benchmarks.measure import machine
from benchmarks.report import geometric_mean
from benchmarks.size_cases import CASES, SIZES, WAYS, Run, SizeWork

ROUNDS, QUICK_ROUNDS = 31, 5
TURN = 2e-4
"""Seconds that a run's turn in a round takes, about: calls that take less are repeated."""

WARM = 0.05
MOST_WARM_CALLS = 2000
"""Seconds, and calls, by which a run gets into its stride before it is timed."""

PATIENCE = 60.0
"""Seconds that kernels may take to be loaded."""

IDLE = 0.005
"""Seconds of idleness before each call with ``--idle``."""

LIMIT = 0.01
"""Ratios that differ from 1 by less count as 1."""


@dataclass(frozen=True)
class Cell:
    """What was measured of a case, a size and a way.

    Attributes:
        case: its name.
        about: what it does.
        size: bytes of its input.
        way: one of `WAYS`.
        seconds: medians of a call, by name.
        ratio: the fastest peer's time by ours.
    """

    case: str
    about: str
    size: int
    way: str
    seconds: dict[str, float]
    ratio: float


def check(case: str, way: str, work: SizeWork) -> None:
    """Everybody's results are NumPy's.

    Raises:
        SystemExit: somebody's are not.
    """
    for name, run in work.runs[way].items():
        for output in work.outputs:
            output.reshape(-1).view(np.uint8)[...] = 0xA5
        given = run()
        results = work.outputs
        if way in ("new", "tensor"):
            results = [np.asarray(each) for each in (given if isinstance(given, (list, tuple)) else [given])]
        for result, expected in zip(results, work.expected, strict=True):
            if np.ascontiguousarray(result).tobytes() != expected.tobytes():
                raise SystemExit(f"{case}, {way}: the result of {name} differs from NumPy's")


def _seconds(run: Run, calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - begin) / calls


def measured(runs: Mapping[str, Run], rounds: int, idle: bool) -> dict[str, list[float]]:
    """Seconds a call for every round, by name."""
    counts = {}
    for name, run in runs.items():
        end, calls = time.perf_counter() + WARM, 0
        while calls < 64 or (time.perf_counter() < end and calls < MOST_WARM_CALLS):
            run()
            calls += 1
            if calls >= 3 and time.perf_counter() > end + WARM:
                break
        # Kernels that were asked for meanwhile are there from the next calls on.
        LOADER.settle(PATIENCE)
        for _ in range(3):
            run()
        counts[name] = 1 if idle else max(1, int(TURN / _seconds(run, 3)))
    times: dict[str, list[float]] = {name: [] for name in runs}
    names, order = [*runs], random.Random(7)
    for _ in range(rounds):
        order.shuffle(names)
        for name in names:
            if idle:
                time.sleep(IDLE)
            times[name].append(_seconds(runs[name], counts[name]))
    return times


def cell_of(case: str, size: int, way: str, work: SizeWork, rounds: int, idle: bool) -> Cell:
    """Check and time one cell."""
    check(case, way, work)
    gc.collect()
    gc.disable()
    try:
        times = measured(work.runs[way], rounds, idle)
    finally:
        gc.enable()
    ours = times["anydml"]
    ratios = [
        statistics.median([peer / own for peer, own in zip(others, ours, strict=True)])
        for name, others in times.items()
        if name != "anydml"
    ]
    about = (CASES[case].__doc__ or "").rstrip(".")
    return Cell(
        case, about, size, way, {name: statistics.median(values) for name, values in times.items()}, min(ratios)
    )


def size_text(size: int) -> str:
    """``"4K"``, ``"16M"``."""
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size // unit}{letter}"
    return str(size)


def table(cells: list[Cell]) -> str:
    """Ratios, a row a case and way, a column a size; those below 1 are in brackets."""
    sizes = sorted({cell.size for cell in cells})
    found = {(cell.case, cell.way, cell.size): cell for cell in cells}
    lines = [f"{'case':6}{'way':8}" + "".join(f"{size_text(size):>8}" for size in sizes)]
    for case, way in dict.fromkeys((cell.case, cell.way) for cell in cells):
        row = ""
        for size in sizes:
            cell = found.get((case, way, size))
            text = "" if cell is None else f"{cell.ratio:.2f}"
            row += f"{f'({text})' if cell and cell.ratio < 1 - LIMIT else text:>8}"
        lines.append(f"{case:6}{way:8}{row}")
    return "\n".join(lines)


def summary(cells: list[Cell]) -> str:
    """Means and least ratios by way and size class, and every cell that is below 1."""
    lines = []
    for way in WAYS:
        for name, low, high in (("below 4K", 0, 4096), ("4K to 64K", 4096, 65537), ("above 64K", 65537, 1 << 40)):
            some = [cell for cell in cells if cell.way == way and low <= cell.size < high]
            if some:
                least = min(some, key=lambda cell: cell.ratio)
                slowest = max(cell.seconds["anydml"] for cell in some) * 1e6
                mean = geometric_mean([cell.ratio for cell in some])
                where = f"{least.case} {size_text(least.size)}"
                text = f"geometric mean {mean:.2f}, least {least.ratio:.2f} ({where}), longest call {slowest:.2f} µs"
                lines.append(f"{way:8}{name:12}{text}")
    below = sorted((cell for cell in cells if cell.ratio < 1 - LIMIT), key=lambda cell: cell.ratio)
    lines.append(f"\n{len(below)} of {len(cells)} cells are below 1:" if below else "\nno cell is below 1")
    for cell in below:
        fastest = min((seconds, name) for name, seconds in cell.seconds.items() if name != "anydml")
        ours = cell.seconds["anydml"] * 1e6
        times = f"ours {ours:.2f} µs, {fastest[1]} {fastest[0] * 1e6:.2f} µs"
        lines.append(f"  {cell.case} {size_text(cell.size):>5} {cell.way:7}{cell.ratio:.2f}  {times}  {cell.about}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure the cells, print them, and keep them where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--case", action="append", choices=[*CASES], help="only this case (may be repeated)")
    texts = [size_text(size) for size in SIZES]
    parser.add_argument("--size", action="append", choices=texts, help="only this size (may be repeated)")
    parser.add_argument("--way", action="append", choices=WAYS, help="only this way (may be repeated)")
    parser.add_argument("--idle", action="store_true", help="each call after 5 ms of idleness")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--rounds", type=int, help=f"rounds a cell (default {ROUNDS})")
    parser.add_argument("--json", type=Path, help="keep what was measured in this file")
    given = parser.parse_args(arguments)
    rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
    about = machine()
    import_kernels()
    try:
        import torch

        torch.set_num_threads(dml.get_num_threads())
    except ImportError:
        pass
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print("the fastest peer's time by ours; medians over interleaved rounds; (below 1)\n", flush=True)
    works = [(case, size) for case in given.case or CASES for size in SIZES if size_text(size) in (given.size or texts)]
    # A load on the machine that comes and goes should not fall on one case alone.
    random.Random(3).shuffle(works)
    cells: list[Cell] = []
    for case, size in works:
        work = CASES[case](size)
        cells += [
            cell_of(case, size, way, work, rounds, given.idle)
            for way in given.way or WAYS
            if len(work.runs.get(way, ())) > 1
        ]
    cells.sort(key=lambda cell: (cell.case, WAYS.index(cell.way), cell.size))
    print(f"{table(cells)}\n\n{summary(cells)}")
    if given.json:
        kept = {"machine": about, "date": datetime.date.today().isoformat(), "idle": given.idle, "rounds": rounds}
        text = json.dumps({**kept, "cells": [asdict(cell) for cell in cells]}, indent=1, ensure_ascii=False)
        given.json.write_text(text + "\n", encoding="utf-8")
        print(f"kept in {given.json}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
