"""Fused functions of data loaders against the functions themselves: ``python -m benchmarks.loader_streams``.

Every stream has a process of its own and 60 calls, tracing included; every call's arguments are new, and its result is
compared with the function's. Milliseconds a call: of all calls, and the median of the last third.
"""

from __future__ import annotations

import argparse
import compileall
import json
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.loader_cases import STREAMS, Draw, Stream
from benchmarks.measure import machine

CALLS = 60


def measured(stream: Stream, calls: int) -> dict[str, Any]:
    """Run a stream in this process; return seconds a call, and how often the function was traced.

    Raises:
        SystemExit: a result is not the function's.
    """
    fused, draw = dml.fuse(stream.function), Draw()
    seconds: dict[str, list[float]] = {"anydml": [], "numpy": []}
    for call in range(calls):
        arguments, results = stream.make(draw), {}
        # Who comes second finds the arrays in caches, so both do in turn; the first call is the fused function's.
        for who, function in [("anydml", fused), ("numpy", stream.function)][:: -1 if call % 2 else 1]:
            start = time.perf_counter()
            results[who] = function(*arguments)
            seconds[who].append(time.perf_counter() - start)
        found, expected = results["anydml"], results["numpy"]
        for one, other in zip(_arrays(found), _arrays(expected), strict=True):
            if not np.array_equal(one, other):
                raise SystemExit(f"{stream.name}: the fused function's result differs")
    late = calls - calls // 3
    return {
        "name": stream.name,
        "mean": {who: statistics.fmean(each) for who, each in seconds.items()},
        "late": {who: statistics.median(each[late - 1 :]) for who, each in seconds.items()},
        "traces": fused.counts.traces,
        "unfused": fused.counts.unfused,
    }


def _arrays(result: Any) -> Sequence[Any]:
    return [*result.values()] if isinstance(result, dict) else result if isinstance(result, tuple) else [result]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the streams, each in a process of its own, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.loader_streams", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--case", default="", help="part of the streams' names")
    parser.add_argument("--calls", type=int, default=CALLS)
    parser.add_argument("--json", type=Path, help="where to keep what was measured")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.one:
        warnings.simplefilter("ignore", RuntimeWarning)
        (stream,) = [each for each in STREAMS if each.name == given.one]
        print(json.dumps(measured(stream, given.calls)))
        return 0
    # As after an installation, all modules are in bytecode.
    compileall.compile_dir(Path(dml.__file__).parent, quiet=1)
    start = [sys.executable, "-m", "benchmarks.loader_streams", "--one"]
    found = []
    print(f"{'':32}{'all calls':>16}{'late':>17}")
    print(f"{'ms a call':32}{'fused':>8}{'plain':>8}{'fused':>9}{'plain':>8}   traces")
    for stream in [each for each in STREAMS if given.case in each.name]:
        command = [*start, stream.name, "--calls", str(given.calls)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        one = json.loads(done.stdout)
        times = [1e3 * one[when][who] for when in ("mean", "late") for who in ("anydml", "numpy")]
        print(
            f"{one['name']:32}{times[0]:8.3f}{times[1]:8.3f}{times[2]:9.3f}{times[3]:8.3f}{one['traces']:9}", flush=True
        )
        found.append(one)
    worse = [one["name"] for one in found if one["mean"]["anydml"] > one["mean"]["numpy"]]
    print(f"{len(found)} streams, {len(worse)} of them slower fused, tracing included; {machine()}")
    if given.json:
        given.json.write_text(json.dumps({"machine": machine(), "calls": given.calls, "streams": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
