"""Work of all sizes against NumPy and PyTorch: ``python -m benchmarks.sizes [--case Z1] [--size 4K] [--way out]``.

Every result is compared with NumPy's before it is timed. All runs of a cell take turns in an order drawn anew for each
round; a ratio is the median over the rounds of a peer's time by ours, and the cell's is that of the fastest peer.

``--json FILE`` adds what was measured to what the file holds, so that a machine which is quiet for half a minute at a
time serves as well; ``--more SECONDS`` goes on so with cells that the file lacks. ``--report FILE`` prints such a file,
and draws it beside it.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path

import numpy as np

import anydml as dml
from benchmarks.heat_map import write_heat_map
from benchmarks.measure import machine
from benchmarks.size_cases import CASES, SIZES, WAYS, Run, SizeWork
from benchmarks.size_cells import ALONE, STATES, Cell, Kept, key_of, size_text, summary, table

ROUNDS, QUICK_ROUNDS, MIN_ROUNDS = 31, 5, 7
LONG = 2.0
"""Seconds that a cell may take before it has fewer rounds."""

TURN = 2e-4
"""Seconds that a run's turn in a round takes, about: calls that take less are repeated."""

WARM = 0.05
MAX_WARM_CALLS = 2000
"""Seconds, and calls, by which a run gets into its stride before it is timed."""

PATIENCE = 60.0
"""Seconds that kernels may take to be loaded."""

IDLE = 0.005
"""Seconds of idleness before each call in the state ``"idle"``."""

SETTLE = 0.012
"""Seconds before each run's turn, for the threads of the one before to stop spinning: PyTorch's keep a core for 10 ms,
which no program that calls one library has to share with another."""

STARTS = 3
"""Calls after that, for a run's own threads to start again."""


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
        if way in ("new", "tensor", "ops"):
            results = [np.asarray(each) for each in (given if isinstance(given, (list, tuple)) else [given])]
        for result, expected in zip(results, work.expected, strict=True):
            if np.ascontiguousarray(result).tobytes() != expected.tobytes():
                raise SystemExit(f"{case}, {way}: the result of {name} differs from NumPy's")


def _seconds(run: Run, calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - begin) / calls


def measured(runs: Mapping[str, Run], rounds: int, state: str) -> dict[str, list[float]]:
    """Seconds a call for every round, by name."""
    counts, whole = {}, 0.0
    for name, run in runs.items():
        end, calls = time.perf_counter() + WARM, 0
        while calls < 64 or (time.perf_counter() < end and calls < MAX_WARM_CALLS):
            run()
            calls += 1
            if calls >= 3 and time.perf_counter() > end + WARM:
                break
        for _ in range(3):
            run()
        once = _seconds(run, 3)
        counts[name] = 1 if state == "idle" else max(1, int(TURN / once))
        whole += once * counts[name]
    times: dict[str, list[float]] = {name: [] for name in runs}
    names, order = [*runs], random.Random(7)
    threads = dml.get_num_threads()
    for _ in range(min(rounds, max(MIN_ROUNDS, int(LONG / whole)))):
        order.shuffle(names)
        for name in names:
            if ALONE in runs and name.startswith("anydml"):
                dml.set_num_threads(1 if name == ALONE else threads)
            time.sleep(SETTLE)
            for _ in range(STARTS * counts[name]):
                runs[name]()
            if state == "idle":
                time.sleep(IDLE)
            times[name].append(_seconds(runs[name], counts[name]))
    dml.set_num_threads(threads)
    return times


def cell_of(case: str, size: int, way: str, work: SizeWork, rounds: int, state: str) -> Cell:
    """Check and time one cell."""
    check(case, way, work)
    runs = dict(work.runs[way])
    if state == "taken":
        runs[ALONE] = runs["anydml"]
    gc.collect()
    gc.disable()
    try:
        times = measured(runs, rounds, state)
    finally:
        gc.enable()
    ours = times["anydml"]
    shares = {
        name: statistics.median([other / own for other, own in zip(others, ours, strict=True)])
        for name, others in times.items()
    }
    alone = None if ALONE not in shares else 1 / shares.pop(ALONE)
    del shares["anydml"]
    about = (CASES[case].__doc__ or "").rstrip(".")
    medians = {name: statistics.median(values) for name, values in times.items()}
    return Cell(case, about, size, way, medians, min(shares.values()), state, len(ours), alone)


@contextmanager
def taken_core() -> Iterator[None]:
    """Another process is at work all the time."""
    child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        # Until it is started, it reads files.
        time.sleep(0.5)
        yield
    finally:
        child.kill()
        child.wait()


def report(path: Path) -> None:
    """Print what a file keeps, and draw it, a state a picture."""
    kept = Kept.read(path)
    print(_machine_text(kept.machine))
    for state, about in STATES.items():
        if not (cells := [cell for cell in kept.cells if cell.state == state]):
            continue
        print(f"\n{state}: {about}\n\n{table(cells)}\n\n{summary(cells)}")
        picture = path.with_name(f"{path.stem}{'' if state == 'hot' else f'-{state}'}.svg")
        title = f"How many times as fast as the faster of NumPy and PyTorch anydml is, {about}"
        dates = sorted({run["date"] for run in kept.runs})
        cores, processor = kept.machine["threads"], kept.machine["processor"]
        versions = f"NumPy {kept.machine['numpy']}, PyTorch {kept.machine['torch']}"
        write_heat_map(picture, cells, title, f"{cores} cores, {processor}, {versions}, {', '.join(dates)}")
        print(f"drawn in {picture}")


def _machine_text(about: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in about.items())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the cells, print them, and keep them where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description=__doc__)
    parser.add_argument("--case", action="append", choices=[*CASES], help="only this case (may be repeated)")
    texts = [size_text(size) for size in SIZES]
    parser.add_argument("--size", action="append", choices=texts, help="only this size (may be repeated)")
    parser.add_argument("--way", action="append", choices=WAYS, help="only this way (may be repeated)")
    parser.add_argument("--state", choices=[*STATES], default="hot", help="the machine's, meanwhile (default hot)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--rounds", type=int, help=f"rounds a cell (default {ROUNDS})")
    parser.add_argument("--json", type=Path, help="add what was measured to what this file holds")
    parser.add_argument("--report", type=Path, metavar="FILE", help="measure nothing; print this file, and draw it")
    parser.add_argument("--more", type=float, metavar="SECONDS", help="begin cells that the file lacks for so long")
    given = parser.parse_args(arguments)
    if given.more and not given.json:
        parser.error("--more SECONDS needs --json FILE")
    begin = time.monotonic()
    if given.report:
        report(given.report)
        return 0
    rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
    about = machine()
    try:
        import torch

        torch.set_num_threads(dml.get_num_threads())
    except ImportError:
        pass
    print(_machine_text(about))
    print(f"the fastest peer's time by ours, {STATES[given.state]}; medians; (below 1)\n", flush=True)
    works = [(case, size) for case in given.case or CASES for size in SIZES if size_text(size) in (given.size or texts)]
    # A load on the machine that comes and goes should not fall on one case alone.
    random.Random(3).shuffle(works)
    cells: list[Cell] = []
    there = {cell.key for cell in Kept.read(given.json).cells} if given.more and given.json.exists() else set()
    with taken_core() if given.state == "taken" else nullcontext():
        for case, size in works:
            ways = [way for way in given.way or WAYS if key_of(given.state, case, way, size) not in there]
            if not ways or (given.more and time.monotonic() > begin + given.more):
                continue
            work = CASES[case](size)
            ways = [way for way in ways if len(work.runs.get(way, ())) > 1]
            cells += map(partial(cell_of, case, size, work=work, rounds=rounds, state=given.state), ways)
    cells.sort(key=lambda cell: cell.key)
    print(f"{table(cells)}\n\n{summary(cells)}")
    if given.json:
        words = sys.argv[1:] if arguments is None else arguments
        # Where it is kept says nothing of what was measured.
        words = [word for word in words if not word.startswith("--js") and word != str(given.json)]
        run = {"date": datetime.date.today().isoformat(), "command": f"{parser.prog} {' '.join(words)}".strip()}
        kept = Kept(about, [run], cells)
        kept = Kept.read(given.json).and_also(kept) if given.json.exists() else kept
        kept.write(given.json)
        print(f"kept in {given.json}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
