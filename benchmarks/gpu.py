"""The GPU's grid against PyTorch's CUDA kernels: ``python -m benchmarks.gpu``.

Every way's results are compared before it is timed; device events, medians, inputs rotated beyond the L2, and the
device-to-device copy bandwidth of the same run as the limit. ``--tests`` runs the GPU engine's tests first.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.grid import GRID, Case

FACTOR = 8
"""The GPU's grid has this many times the CPU's first dimension."""

TESTS = ("tests/backends/cuda", "tests/backends/test_cuda_missing.py")


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark; the exit status is 2 where something is missing, 1 where a test fails."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="the CPU's sizes and fewer rounds")
    parser.add_argument("--tests", action="store_true", help="run the GPU engine's tests first")
    parser.add_argument("--cases", default="", help="names separated by commas; by default all")
    parser.add_argument("--rounds", type=int, default=0, help="rounds a case; by default 40, or 10 with --quick")
    parser.add_argument("--json", type=Path, default=None, help="where to write the results")
    options = parser.parse_args(arguments)
    if missing := what_is_missing():
        print(f"benchmarks.gpu: {missing}", file=sys.stderr)
        return 2
    if options.tests and run_tests():
        return 1
    wanted = set(filter(None, options.cases.split(",")))
    cases = [case for case in GRID if not wanted or case.name in wanted]
    report = measure(cases, 1 if options.quick else FACTOR, options.rounds or (10 if options.quick else 40))
    print(table(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


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
    from anydml.backends.cuda.available import is_interpreted

    return "TRITON_INTERPRET is set, and an interpreter's times mean nothing" if is_interpreted() else ""


def run_tests() -> int:
    """The GPU engine's tests; several processes, for kernels are compiled on the host."""
    workers = ["-n", "8"] if importlib.util.find_spec("xdist") else []
    return subprocess.run([sys.executable, "-m", "pytest", "-q", *workers, *TESTS], check=False).returncode


def measure(cases: list[Case], factor: int, rounds: int) -> dict[str, Any]:
    """Check and time every case."""
    import torch

    from benchmarks import gpu_measure
    from benchmarks.gpu_work import Work, scaled

    machine = gpu_measure.machine()
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    chosen = [scaled(case, factor) for case in cases]
    limit = gpu_measure.CopyLimit(max(case.bytes for case in chosen))
    results = []
    for case in chosen:
        sets = min(16, math.ceil(4 * l2 / case.bytes))
        work = Work(case, "cuda", sets)
        runs = {"anydml": work.ours(), **dict(work.peers())}
        for name, run in runs.items():
            work.check(name, run)
        seconds = gpu_measure.medians({**runs, "copy": limit.run(case.bytes)}, rounds, sets)
        copies = gpu_measure.uploads(runs["anydml"], sets)
        results.append(
            {"name": case.name, "about": case.about, "bytes": case.bytes, "seconds": seconds, "uploads": copies}
        )
        print(row(results[-1]), flush=True)
        del work, runs
        torch.cuda.empty_cache()
    return {"machine": machine, "factor": factor, "rounds": rounds, "cases": results, "small": small()}


def small() -> dict[str, float]:
    """Microseconds of the host for work so small that nothing else counts."""
    import torch

    import anydml as dml
    from benchmarks.gpu_measure import host_seconds

    x = torch.arange(1, 13, dtype=torch.float32, device="cuda").reshape(1, 1, 6, 2)
    sizes = [2, 1, 3]
    outputs = [torch.empty(1, 1, n, 2, device="cuda") for n in sizes]
    tensors = [dml.TensorDesc("FLOAT32", output.shape) for output in outputs]
    desc = dml.SplitOperatorDesc(dml.TensorDesc("FLOAT32", x.shape), tensors, 2)
    dispatch = dml.Device("cuda").compile_operator(desc).bind([x], outputs).dispatch
    calls = {
        "bound dispatch": dispatch,
        "split": lambda: dml.split(x, sizes, 2),
        "torch.split_with_sizes_copy(out=)": lambda: torch.split_with_sizes_copy(x, sizes, 2, out=outputs),
        "torch.split_with_sizes_copy": lambda: torch.split_with_sizes_copy(x, sizes, 2),
    }
    return {name: 1e6 * host_seconds(call) for name, call in calls.items()}


def row(result: dict[str, Any]) -> str:
    """One case as a line of the table."""
    seconds = result["seconds"]
    peers = {name: value for name, value in seconds.items() if name not in ("anydml", "copy")}
    best = min(peers, key=lambda name: peers[name])
    ours = seconds["anydml"]
    return (
        f"| {result['name']} | {result['about']} | {1000 * ours:.3f} | {result['bytes'] / ours / 1e9:.0f} "
        f"| {100 * seconds['copy'] / ours:.0f} % | {1000 * peers[best]:.3f} {best} | {peers[best] / ours:.2f} "
        f"| {result['uploads']:g} |"
    )


def table(report: dict[str, Any]) -> str:
    """The whole report as Markdown."""
    machine = ", ".join(f"{key} {value}" for key, value in report["machine"].items())
    lines = [
        "",
        f"{machine}; first dimensions × {report['factor']}, medians of {report['rounds']} rounds",
        "",
        "| case | work | ms | GB/s | of copy | fastest PyTorch, ms | times as fast | uploads |",
        "|---|---|---|---|---|---|---|---|",
        *map(row, report["cases"]),
        "",
        *(f"{name}: {value:.1f} µs of the host" for name, value in report["small"].items()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
