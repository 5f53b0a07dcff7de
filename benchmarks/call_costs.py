"""The cost of a call of each function on arrays of about 1.5 kB, beside another installed anydml.

Run ``python -m benchmarks.call_costs --peer PYTHON``, where PYTHON is the interpreter of an environment with another
anydml. Both measure in turn, in a new process each round, since one may place what it looks up unluckily for as long as
it runs; the least of all rounds counts.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

import anydml as dml

CALLS, BATCHES = 100, 25
"""Calls of a batch, and batches of a round."""

Call = Callable[[], object]


def cases() -> Iterator[tuple[str, Call]]:
    """Yield names and calls."""
    x = np.arange(384, dtype=np.float32).reshape(24, 16)
    half, row, image = x[:, :8].copy(), x[0], np.arange(384, dtype=np.float32).reshape(2, 3, 8, 8)
    parts = [np.empty((24, size), np.float32) for size in (4, 8, 4)]
    rows, along = np.arange(24)[::-1].copy(), np.zeros((24, 16), np.int64)
    lengths, chosen = rows[:, None] % 16, rows % 3 > 0
    points, flags = np.stack([np.arange(24), np.arange(24) % 16], 1), x > 100
    yield "split in 3", lambda: dml.split(x, [4, 8, 4], 1)
    yield "split in 3, out", lambda: dml.split(x, [4, 8, 4], 1, out=parts)
    yield "split in 2 equal parts", lambda: dml.split(x, 2)
    yield "split in 8 equal parts", lambda: dml.split(x, 8, 1)
    yield "split_training", lambda: dml.split_training(x, [4, 8, 4], 1)
    yield "join of 2", lambda: dml.join([x, x], 1)
    yield "join of 8", lambda: dml.join([x] * 8, 1)
    yield "concat_training", lambda: dml.concat_training([x, x], 1)
    yield "stack of 2", lambda: dml.stack([x, x])
    yield "slice", lambda: dml.slice(x, (2, 3), (10, 5), (2, 2))
    yield "slice1", lambda: dml.slice1(x, (2, 3), (20, 10), (-2, 2))
    yield "slice_grad", lambda: dml.slice_grad(half, (24, 16), (0, 4), (24, 8), (1, 1))
    yield "copy", lambda: dml.copy(x)
    yield "copy of a transposed array", lambda: dml.copy(x.T)
    yield "permute_dims", lambda: dml.permute_dims(image, (0, 2, 3, 1))
    yield "flip", lambda: dml.flip(x, 1)
    yield "roll", lambda: dml.roll(x, 5, 1)
    yield "broadcast_to", lambda: dml.broadcast_to(row, (24, 16))
    yield "tile", lambda: dml.tile(half, (2, 2))
    yield "repeat", lambda: dml.repeat(half, 2, 0)
    yield "upsample", lambda: dml.upsample(half, (2, 1))
    yield "depth_to_space", lambda: dml.depth_to_space(image.reshape(2, 12, 4, 4), 2)
    yield "space_to_depth", lambda: dml.space_to_depth(image, 2)
    yield "unfold", lambda: dml.unfold(image, (3, 3))
    yield "pad", lambda: dml.pad(x, (1, 3, 2, 4))
    yield "fill", lambda: dml.fill(x, 7)
    yield "sequence", lambda: dml.sequence(x, 0, 2)
    yield "gather", lambda: dml.gather(x, rows)
    yield "gather_elements", lambda: dml.gather_elements(x, along)
    yield "gather_nd", lambda: dml.gather_nd(x, points)
    yield "scatter", lambda: dml.scatter(x, along, x)
    yield "scatter_nd", lambda: dml.scatter_nd(x, points, row.repeat(2)[:24])
    yield "one_hot", lambda: dml.one_hot(rows, row[:2], 24)
    yield "reverse_subsequences", lambda: dml.reverse_subsequences(x, lengths, 1)
    yield "compress", lambda: dml.compress(chosen, x, 0)
    yield "nonzero_coordinates", lambda: dml.nonzero_coordinates(flags)
    yield "diagonal_matrix", lambda: dml.diagonal_matrix(x, 1)
    yield "tril", lambda: dml.tril(x)
    yield "triu", lambda: dml.triu(x)
    yield "where", lambda: dml.where(flags, x, x)


def _measure() -> None:
    """Print the seconds of a call of each case that this anydml has."""
    known: dict[str, float] = {}
    for name, call in cases():
        try:
            call()
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            print(f"{name}: {error}", file=sys.stderr)
        else:
            known[name] = _least(call)
    print(json.dumps(known))


def _least(call: Call) -> float:
    least = math.inf
    for _ in range(BATCHES):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        least = min(least, time.perf_counter() - start)
    return least / CALLS


def compared(peer: str, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return the least seconds of each case, here and in the peer's environment."""
    least: tuple[dict[str, float], dict[str, float]] = {}, {}
    for _ in range(rounds):
        for python, known in zip((sys.executable, peer), least, strict=True):
            measured = subprocess.run([python, __file__, "--measure"], stdout=subprocess.PIPE, check=True)
            for name, seconds in json.loads(measured.stdout).items():
                known[name] = min(seconds, known.get(name, math.inf))
    return least


def main() -> int:
    """Compare, and print a line per case."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.call_costs", description=__doc__)
    parser.add_argument("--peer", metavar="PYTHON", help="interpreter of the environment with the other anydml")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        _measure()
        return 0
    if given.peer is None:
        parser.error("--peer is needed: the interpreter of an environment with another anydml")
    own, other = compared(given.peer, given.rounds)
    both = [name for name in own if name in other]
    print(f"{'nanoseconds a call':28} {'this':>7} {'peer':>7}  this ÷ peer")
    for name in both:
        print(f"{name:28} {own[name] * 1e9:7.0f} {other[name] * 1e9:7.0f}  {own[name] / other[name]:.3f}")
    if both:
        mean = math.exp(sum(math.log(own[name] / other[name]) for name in both) / len(both))
        print(f"{'geometric mean':28} {'':15}  {mean:.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
