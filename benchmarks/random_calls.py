"""Random calls of every function: ``python -m benchmarks.random_calls --seed 1 --seconds 60 [--function pad]``.

Functions, dtypes, shapes, strides and sizes from 256 bytes to 32 MiB are drawn, and whether arrays are NumPy's or
tensors, and results new or in ``out=``. NumPy and PyTorch do the same, each in every way that may be its fastest; on
tensors PyTorch alone. Everybody's results are NumPy's, bit for bit. All take turns of a millisecond, in an order drawn
anew for each turn; a time is the least of them. Calls in which a peer is faster have four times as many turns.
``--case`` repeats calls by their numbers.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import numpy as np

import anydml as dml
from benchmarks.measure import SETTLE
from benchmarks.random_call_cases import FUNCTIONS, SIZES, Draw, drawn
from benchmarks.report import geometric_mean

MOST = 25
"""The largest arrays have 2²⁵ bytes."""

TURN, TURNS = 0.001, 3
SLOW = 0.9
PER_SEED = 1_000_000
"""Calls of seed s have the numbers from s million on."""

Run = Callable[[], Any]


class Row(NamedTuple):
    """A call that was measured."""

    ratio: float
    seconds: float
    peer: str
    function: str
    about: str


def runs_of(number: int, functions: Sequence[str], most: float) -> tuple[str, str, dict[str, Run]] | None:
    """A call's function, its arguments, and what everybody does; None where another function was drawn, or none can.

    Raises:
        SystemExit: somebody's results are not NumPy's.
    """
    import torch

    draw = Draw(number, most)
    function = draw.one.choice(FUNCTIONS)
    if function not in functions:
        return None
    array, x = draw.array(*SIZES.get(function, (1, 1)))
    call = drawn(function, draw, x, draw.one.randrange(x.ndim))
    given = {False: call.arrays, True: [torch.from_numpy(each) for each in call.arrays]}
    right = [np.ascontiguousarray(each) for each in _listed(call.numpy[0](*call.arrays))]
    outs, out = [np.zeros_like(each) for each in right], dict[bool, dict[str, Any]]()
    is_tensor, has_out = bool(call.torch) and draw.one.random() < 0.3, call.takes_out and draw.one.random() < 0.3
    for kind, made in ((False, outs), (True, [torch.from_numpy(each) for each in outs])):
        out[kind] = {"out": made if function.startswith("split") else made[0]} if has_out else {}
    runs: dict[str, Run] = {"anydml": partial(call.ours, *given[is_tensor], **out[is_tensor])}
    if not is_tensor:
        runs |= {f"numpy {k}": _packed(each, call.arrays, out[False]) for k, each in enumerate(call.numpy, 1)}
    for k, each in enumerate(call.torch, 1):
        run = runs[f"torch {k}"] = _packed(each, given[True], out[True])
        try:
            run()
        except (RuntimeError, NotImplementedError):
            # PyTorch does not do this with every dtype.
            del runs[f"torch {k}"]
    for name, run in runs.items():
        for old in outs:
            old.reshape(-1).view(np.uint8)[...] = 0x5A
        found = run()
        found = [np.asarray(each) for each in (outs if has_out else _listed(found))]
        if [each.shape for each in found] != [each.shape for each in right] or not all(
            np.array_equal(each.reshape(-1).view(np.uint8), other.reshape(-1).view(np.uint8))
            for each, other in zip(found, right, strict=True)
        ):
            raise SystemExit(f"{function}, case {number}: the result of {name} differs from NumPy's")
    if len(runs) == 1:
        return None
    return function, f"{array} {call.about}{', tensors' * is_tensor}{', out=' * has_out}", runs


def _listed(results: Any) -> list[Any]:
    return [*results] if isinstance(results, (list, tuple)) else [results]


def _packed(function: Callable[..., Any], given: list[Any], out: dict[str, Any]) -> Run:
    """What a peer does until its result is packed: some keep the order of axes in memory."""

    def run() -> Any:
        found = function(*given, **out)
        if isinstance(found, np.ndarray):
            return np.ascontiguousarray(found)
        return found.contiguous() if hasattr(found, "contiguous") else found

    return run


def measured(runs: dict[str, Run]) -> dict[str, float]:
    """Seconds of a call, by name."""
    best = dict.fromkeys(runs, math.inf)
    for turns in (TURNS, 3 * TURNS):
        for turn in range(turns):
            for name in random.Random(turn).sample([*runs], len(runs)):
                time.sleep(SETTLE)
                run, calls, start = runs[name], 0, time.perf_counter()
                while calls < 1 or (spent := time.perf_counter() - start) < TURN:
                    run()
                    calls += 1
                best[name] = min(best[name], spent / calls)
        if min(best.values()) == best["anydml"]:
            break
    return best


def main(arguments: list[str] | None = None) -> int:
    """Measure random calls, and print the slowest."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.random_calls", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--function", action="append", choices=FUNCTIONS, help="only this one (may be repeated)")
    parser.add_argument("--case", type=int, action="append", help="only the call with this number (may be repeated)")
    parser.add_argument("--rows", type=int, default=20, help="how many of the slowest are printed")
    given = parser.parse_args(arguments)
    import torch

    torch.set_num_threads(dml.get_num_threads())
    rows, end = list[Row](), time.monotonic() + given.seconds
    for number in given.case or count(PER_SEED * given.seed):
        if not given.case and time.monotonic() > end:
            break
        call = runs_of(number, given.function or FUNCTIONS, MOST)
        if call is not None:
            seconds = measured(call[2])
            ours = seconds.pop("anydml")
            peer = min(seconds, key=lambda name: seconds[name])
            rows.append(Row(seconds[peer] / ours, ours, peer, call[0], f"{call[1]} --case {number}"))
    for name in sorted({row.function for row in rows}):
        print(f"{name:22}{summary([row.ratio for row in rows if row.function == name])}")
    print(f"{'all':22}{summary([row.ratio for row in rows])}")
    for row in sorted(rows)[: given.rows]:
        print(f"{row.ratio:5.2f} of {row.peer} {row.seconds * 1e6:9.1f} µs  {row.function} {row.about}")
    return 0


def summary(ratios: list[float]) -> str:
    """What is told of some calls, or of none."""
    if not ratios:
        return "no calls"
    slow = sum(ratio < SLOW for ratio in ratios)
    return f"{len(ratios):5} calls, {geometric_mean(ratios):.2f}, least {min(ratios):.2f}, {slow} below {SLOW}"


if __name__ == "__main__":
    raise SystemExit(main())
