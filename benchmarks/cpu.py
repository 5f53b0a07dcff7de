"""The CPU grid against NumPy, PyTorch and ONNX Runtime: ``python -m benchmarks.cpu [--case S2] [--quick]``.

Every result is compared with NumPy's, bit for bit, before it is timed. Without ``--case`` the newest run is kept in
``benchmarks/results/`` (JSON and chart).
"""

from __future__ import annotations

import argparse
import datetime
import gc
import sys
from pathlib import Path

from benchmarks.chart import draw
from benchmarks.grid import GRID, Case
from benchmarks.growth import growth_tables
from benchmarks.measure import CopyLimit, machine, medians
from benchmarks.report import Result, as_json, geometric_mean, table
from benchmarks.small import small_results
from benchmarks.ways import ways
from benchmarks.work import Work

RESULTS = Path(__file__).parent / "results"
ROUNDS, QUICK_ROUNDS = 21, 3
QUICK_FACTOR = 8


def run_case(case: Case, rounds: int) -> Result:
    """Check everybody's result, then time everybody."""
    work = Work(case)
    work.refresh()
    runs = ways(work)
    for name in list(runs):
        work.clear()
        if not work.is_right(runs[name]()):
            if name == "anydml":
                raise SystemExit(f"{case.name}: our own result differs from NumPy's")
            print(f"{case.name}: {name} gives another result and is left out", file=sys.stderr)
            del runs[name]
    copies = CopyLimit(work.source.bytes, work.destination.bytes).runs(case.bytes)
    times = medians({**runs, **copies}, rounds, work.refresh)
    copy_seconds = min(times.pop(name) for name in copies)
    return Result(case.name, case.about, case.bytes, times, copy_seconds)


def main() -> int:
    """Run the grid, print it, and keep it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cpu", description=__doc__)
    parser.add_argument("--case", action="append", help="only this case (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="an eighth of the work, fewer rounds; nothing is kept")
    parser.add_argument("--rounds", type=int, help=f"rounds a case (default {ROUNDS})")
    parser.add_argument("--no-growth", action="store_true", help="leave out the table of how the cost grows")
    arguments = parser.parse_args()
    names = {name.lower() for name in arguments.case or ()}
    unknown = names - {case.name.lower() for case in GRID} - {"small"}
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}: one of {', '.join(c.name for c in GRID)}, small")
    cases = [case for case in GRID if not names or case.name.lower() in names]
    if arguments.quick:
        cases = [case.smaller(QUICK_FACTOR) for case in cases]
    rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print("GB/s of bytes read and written (small cases: µs a call); medians, interleaved\n")
    results = []
    for case in cases:
        results.append(run_case(case, rounds))
        print(table(results).splitlines()[0 if len(results) == 1 else -1], flush=True)
        if len(results) == 1:
            print(table(results).splitlines()[-1], flush=True)
        gc.collect()
    if not names or "small" in names:
        small = small_results(rounds)
        print("\n".join(table(small).splitlines()[1:]))
        results += small
    ratios = [result.ratio for result in results if result.ratio and result.copy_seconds]
    if ratios:
        print(f"\ngeometric mean against the fastest peer: {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    growth = {}
    if not names and not arguments.no_growth:
        growth = growth_tables(rounds, quick=arguments.quick)
    if not names and not arguments.quick:
        today = datetime.date.today().isoformat()
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "cpu.json").write_text(
            as_json(
                results, about, date=today, command=" ".join(["python -m benchmarks.cpu", *sys.argv[1:]]), growth=growth
            )
        )
        draw(RESULTS / "cpu.json")
        print(f"kept in {RESULTS.name}/cpu.json and {RESULTS.name}/cpu.svg")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
