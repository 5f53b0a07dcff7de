"""What a small call costs at each door: on NumPy's arrays, PyTorch's tensors, by torch.ops, on JAX's arrays.

Run as ``python -m benchmarks.doors``. Every way is timed in one process, in rounds of an order drawn anew; medians.
"""

from __future__ import annotations

import argparse
import random
import statistics
import timeit
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

import anydml as dml

CALLS = 300
"""Calls of a round."""

WARM = 60
"""Calls before the first round: compiled code takes over meanwhile."""

Call = Callable[[], Any]
Table = dict[str, dict[str, Call]]


def doors() -> dict[str, Callable[[Any], Any]]:
    """What makes an array of each library that is there."""
    found: dict[str, Callable[[Any], Any]] = {"NumPy": np.asarray}
    if find_spec("torch") is not None:
        import torch

        found["PyTorch"] = lambda array: torch.from_numpy(array.copy())
    if find_spec("jax") is not None:
        import jax

        found["JAX"] = jax.device_put
    return found


def functions(size: int) -> Table:
    """Calls of functions on a float32 matrix of as many rows and columns, by what they do and by door."""
    table: Table = {}
    for door, given in doors().items():
        x, order = given(np.arange(size * size, dtype=np.float32).reshape(size, size)), given(np.array([1, 0, 2]))
        box = (0, 1), (size, size - 1), (1, -1)
        calls: dict[str, Call] = {
            "copy": lambda x=x: dml.copy(x),
            "slice1": lambda x=x, box=box: dml.slice1(x, *box),
            "gather": lambda x=x, order=order: dml.gather(x, order),
            "join of 2": lambda x=x: dml.join([x, x]),
            "split in 4": lambda x=x: dml.split(x, [1, 1, 1, size - 3]),
        }
        if door != "JAX":
            out = given(np.zeros((size, size), np.float32))
            calls["copy to out"] = lambda x=x, out=out: dml.copy(x, out=out)
        _add(table, door, calls)
        if door == "PyTorch":
            _add(table, "torch.ops", _registered(x, order, box, size))
    return table


def _registered(x: Any, order: Any, box: Any, size: int) -> dict[str, Call]:
    import torch

    import anydml.torch  # noqa: F401  # registers them

    ops = torch.ops.anydml
    return {
        "slice1": lambda: ops.slice1(x, *box),
        "gather": lambda: ops.gather(x, order),
        "join of 2": lambda: ops.join([x, x]),
        "split in 4": lambda: ops.split(x, [1, 1, 1, size - 3]),
    }


def fused(size: int) -> Table:
    """The same of calls of fused functions."""
    table: Table = {}
    for door, given in doors().items():
        one, two, three, four = (given(np.full((size, size), k, np.float32)) for k in range(4))
        every = one, two, three, four
        # PyTorch takes no negative steps.
        flip = dml.fuse((lambda x: x.flip(0)) if door == "PyTorch" else (lambda x: x[::-1]))
        turn = dml.fuse(lambda *arrays: tuple(array.T for array in arrays))
        halves = dml.fuse(lambda x: {"first": x[:1], "rest": (x[1:2], [x[2:]])})
        named = dml.fuse(lambda given, n: given["x"][n:])
        calls: dict[str, Call] = {
            "1 array, 1 result": lambda flip=flip, one=one: flip(one),
            "4 arrays, 4 results": lambda turn=turn, every=every: turn(*every),
            "dict in, a number": lambda named=named, one=one: named({"x": one}, 1),
            "dict of 3 results": lambda halves=halves, one=one: halves(one),
        }
        if door != "JAX":
            out = halves(one)
            calls["dict of 3 to out"] = lambda halves=halves, one=one, out=out: halves(one, out=out)
        _add(table, door, calls)
    return table


def _add(table: Table, door: str, calls: Mapping[str, Call]) -> None:
    for name, call in calls.items():
        table.setdefault(name, {})[door] = call


def seconds(table: Table, rounds: int) -> dict[tuple[str, str], float]:
    """Seconds a call, by what it does and by door."""
    calls = {(name, door): call for name, row in table.items() for door, call in row.items()}
    for _ in range(2):
        for call in calls.values():
            for _ in range(WARM):
                call()
    times: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
    order, keys = random.Random(7), [*calls]
    for _ in range(rounds):
        order.shuffle(keys)
        for key in keys:
            times[key].append(timeit.timeit(calls[key], number=CALLS) / CALLS)
    return {key: statistics.median(values) for key, values in times.items()}


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print tables in Markdown, in microseconds."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.doors", description=__doc__)
    parser.add_argument("--size", type=int, default=8, help="rows and columns of a float32 matrix, 4 or more")
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args(arguments)
    for title, table in (("call, µs", functions(options.size)), ("fused call, µs", fused(options.size))):
        names = [*dict.fromkeys(door for row in table.values() for door in row)]
        found = seconds(table, options.rounds)
        print(f"| {title} | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
        for name in table:
            cells = [f"{found[name, door] * 1e6:.2f}" if (name, door) in found else "–" for door in names]
            print(f"| {name} | {' | '.join(cells)} |")
        print()


if __name__ == "__main__":
    main()
