"""The GPU's grid against PyTorch's CUDA kernels: ``python -m benchmarks.gpu [--tests] [--json FILE]``.

Every way's results are compared before it is timed; device events, medians, inputs rotated beyond the L2, and the
device-to-device copy bandwidth of the same run as the limit. It runs from the folder of the sources, installed or not,
with NumPy, PyTorch and Triton; what else is missing is said, and left out.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.grid import GRID, Case
from benchmarks.report import as_json, geometric_mean

FACTOR = 8
"""The GPU's grid has this many times the CPU's first dimension."""

ROUNDS, QUICK_ROUNDS = 40, 10

ROOT = Path(__file__).parents[1]
TESTS = ("tests/engines/cuda", "tests/engines/test_cuda_missing.py")
WORKERS = 8
"""Processes of the tests: kernels are compiled on the host, and every process holds half a gigabyte of the GPU."""

GOOD_SHARE = 0.9
"""Cases that reach less of the copy's speed are named."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; the exit status is 2 where something is missing, 1 where a test or a result is wrong."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the CPU's sizes and fewer rounds")
    parser.add_argument("--tests", action="store_true", help="run the GPU engine's tests first")
    parser.add_argument("--case", action="append", help="only this case (may be repeated)")
    parser.add_argument("--rounds", type=int, default=0, help=f"rounds a case; by default {ROUNDS}, or {QUICK_ROUNDS}")
    parser.add_argument("--json", type=Path, default=None, help="where to write the results")
    options = parser.parse_args(arguments)
    names = {name.lower() for name in options.case or ()}
    if unknown := names - {case.name.lower() for case in GRID} - {"small"}:
        parser.error(f"no case {', '.join(sorted(unknown))}: one of {', '.join(case.name for case in GRID)}, small")
    find_sources()
    if missing := what_is_missing():
        print(f"benchmarks.gpu: {missing}", file=sys.stderr)
        return 2
    failed = run_tests() if options.tests else 0
    cases = [case for case in GRID if not names or case.name.lower() in names]
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    try:
        report = measure(cases, 1 if options.quick else FACTOR, rounds, small=not names or "small" in names)
    except AssertionError as error:
        print(f"benchmarks.gpu: {error}", file=sys.stderr)
        return 1
    print(summary(report))
    if options.json:
        command = shlex.join(["python", "-m", "benchmarks.gpu", *arguments])
        more = {key: value for key, value in report.items() if key not in ("machine", "cases")}
        date = datetime.date.today().isoformat()
        text = as_json(report["cases"], report["machine"], date=date, command=command, **more)
        options.json.write_text(text, encoding="utf-8")
    return 1 if failed else 0


def find_sources() -> None:
    """Use the sources beside this folder where anydml is not installed."""
    if importlib.util.find_spec("anydml") is None:
        sys.path.insert(0, str(ROOT / "src"))


def what_is_missing() -> str:
    """Why there is nothing to measure here, in one line; empty where there is."""
    for module in ("torch", "triton"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed: pip install 'anydml[cuda]'"
    import anydml as dml

    try:
        dml.Device("cuda")
    except ValueError as error:
        return str(error)
    from anydml.engines.cuda.available import is_interpreted

    return "TRITON_INTERPRET is set, and an interpreter's times mean nothing" if is_interpreted() else ""


def run_tests() -> int:
    """The GPU engine's tests. The exit status is theirs."""
    if importlib.util.find_spec("pytest") is None:
        print("pytest is not installed: the tests are left out", file=sys.stderr)
        return 1
    workers = ["-n", str(WORKERS)] if importlib.util.find_spec("xdist") else []
    # Whatever versions are here, their warnings about each other are no failures of ours.
    command = [sys.executable, "-m", "pytest", "-q", "-W", "default", *workers, *TESTS]
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(command, check=False, cwd=ROOT, env=environment).returncode


def measure(cases: Sequence[Case], factor: int, rounds: int, *, small: bool) -> dict[str, Any]:
    """Check and time every case; what cannot be measured here is left out, with the reason.

    Raises:
        AssertionError: a result is wrong.
    """
    from benchmarks import gpu_measure, gpu_small
    from benchmarks.gpu_work import scaled

    left_out: dict[str, str] = {}
    chosen = []
    for case in (scaled(case, factor) for case in cases):
        if reason := gpu_measure.does_not_fit(case):
            left_out[case.name] = reason
            print(f"{case.name} is left out: {reason}", flush=True)
        else:
            chosen.append(case)
    results = []
    if chosen:
        limit = gpu_measure.CopyLimit(max(case.bytes for case in chosen))
        print("\n".join(HEADER), flush=True)
        for case in chosen:
            results.append(gpu_measure.result(case, limit, rounds))
            print(row(results[-1]), flush=True)
        del limit
    if small:
        results += gpu_small.results(left_out)
    machine = gpu_measure.machine()
    return {"machine": machine, "factor": factor, "rounds": rounds, "left_out": left_out, "cases": results}


HEADER = (
    "| case | work | ms | GB/s | of copy | fastest PyTorch, ms | times as fast | uploads |",
    "|---|---|---|---|---|---|---|---|",
)


def row(result: Any) -> str:
    """One case as a line of the table."""
    peer, seconds = result.fastest_peer
    uploads = "–" if result.uploads is None else f"{result.uploads:g}"
    return (
        f"| {result.name} | {result.about} | {1000 * result.ours:.3f} | {result.bytes / result.ours / 1e9:.0f} "
        f"| {result.share:.0%} | {1000 * seconds:.3f} {peer} | {result.ratio:.2f} | {uploads} |"
    )


def summary(report: Mapping[str, Any]) -> str:
    """What is worth saying when all is measured."""
    large = [result for result in report["cases"] if result.copy_seconds is not None]
    machine = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in report["machine"].items())
    lines = ["", f"{machine}; first dimensions × {report['factor']}, medians of {report['rounds']} rounds"]
    if large:
        ratios = [result.ratio for result in large]
        copy = max(result.bytes / result.copy_seconds for result in large)
        lines += [
            f"against PyTorch's fastest way: geometric mean {geometric_mean(ratios):.2f}, least {min(ratios):.2f}",
            f"slower than PyTorch's fastest way: {_names(r.name for r in large if r.ratio < 1)}",
            f"below {GOOD_SHARE:.0%} of the copy: {_names(r.name for r in large if r.share < GOOD_SHARE)}",
            f"fastest device-to-device copy: {copy / 1e9:.0f} GB/s read and written",
        ]
    for result in report["cases"]:
        if result.copy_seconds is None:
            times = ", ".join(f"{name} {1e6 * seconds:.1f}" for name, seconds in result.seconds.items())
            lines.append(f"{result.about}, µs of the host: {times}")
    lines += [f"{name} is left out: {reason}" for name, reason in report["left_out"].items()]
    return "\n".join(lines)


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


if __name__ == "__main__":
    sys.exit(main())
