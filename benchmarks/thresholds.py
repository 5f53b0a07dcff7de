"""How much faster non-temporal stores are than plain ones, by bytes written: ``python -m benchmarks.thresholds``.

`SHARE` in `anydml.core.moving` is the last-level cache in the size from which stores should be non-temporal: what is
gained out of memory if the result is read next is then more than what is lost in a loop over the same arrays. Other
processes that use the caches move it down.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

import anydml as dml
from anydml.core.moving import choose_kernels, last_cache_size
from benchmarks.measure import machine, medians

MIB = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24)
NEVER = 1 << 60

LOOP = 4
"""Calls of a loop."""

Work = tuple[str, Callable[[], object], np.ndarray]


def works(size: int) -> Iterator[Work]:
    """Moves that write about `size` bytes: whether transposes or others, what is called, and the result."""
    random = np.random.default_rng(1)

    def matrix(dtype: str, *shape: int) -> np.ndarray:
        return random.integers(0, 100, shape).astype(dtype)

    def permuted(kind: str, x: np.ndarray, *axes: int) -> Work:
        out = np.empty(x.transpose(axes).shape, x.dtype)
        return f"{kind} {x.dtype} {'×'.join(map(str, x.shape))}", lambda: dml.permute_dims(x, axes, out=out), out

    for dtype in ("uint8", "uint16", "float32", "float64"):
        side = int((size / np.dtype(dtype).itemsize) ** 0.5)
        yield permuted("transpose", matrix(dtype, side, side), 1, 0)
    pixels = size // (96 * 4)
    yield permuted("transpose", matrix("float32", 96, pixels), 1, 0)
    yield permuted("transpose", matrix("float32", pixels, 96), 1, 0)
    rows = matrix("float32", size // 4096, 1024)
    yield permuted("rows", rows.reshape(-1, 16, 64), 1, 0, 2)
    out = np.empty_like(rows)
    yield "copy", lambda: dml.copy(rows, out=out), out
    yield "flip axis 0", lambda: dml.flip(rows, axis=0, out=out), out
    parts = [np.empty((len(rows), n), rows.dtype) for n in (342, 341, 341)]
    yield "split", lambda: dml.split(rows, [342, 341, 341], axis=1, out=parts), parts[0]
    third = rows[:, ::3]
    short = np.empty(third.shape, rows.dtype)
    yield "every third", lambda: dml.copy(third, out=short), short


def ratio(run: Callable[[], object], rounds: int) -> float:
    """Times as fast as with plain stores."""

    def stored(stream_from: int) -> Callable[[], object]:
        def call() -> None:
            choose_kernels(stream_from=stream_from)
            run()

        return call

    seconds = medians({"plain": stored(NEVER), "non-temporal": stored(0)}, rounds)
    return seconds["plain"] / seconds["non-temporal"]


def looped_ratio(run: Callable[[], object], rounds: int) -> float:
    """The same for calls in a loop, whose arrays stay in the caches as far as they fit."""
    seconds: dict[int, list[float]] = {NEVER: [], 0: []}
    for _ in range(rounds):
        for stream_from, times in seconds.items():
            choose_kernels(stream_from=stream_from)
            for _ in range(LOOP):
                run()
            begin = time.perf_counter()
            for _ in range(LOOP):
                run()
            times.append(time.perf_counter() - begin)
    return statistics.median(seconds[NEVER]) / statistics.median(seconds[0])


def main() -> None:
    """Print a line per size and move."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=41)
    parser.add_argument("--mib", type=float, nargs="*", default=MIB)
    args = parser.parse_args()
    print(machine())
    print(f"last-level cache: {last_cache_size() / 2**20:.0f} MiB")
    print(f"{'MiB':>5}  {'alone':>5}  {'read':>5}  {'loop':>5}  move")
    for mib in args.mib:
        for name, run, out in works(int(mib * 2**20)):

            def run_and_read(run: Callable[[], object] = run, out: np.ndarray = out) -> None:
                run()
                out.max()

            alone, read = ratio(run, args.rounds), ratio(run_and_read, args.rounds)
            print(f"{mib:5}  {alone:5.2f}  {read:5.2f}  {looped_ratio(run, args.rounds):5.2f}  {name}", flush=True)
        gc.collect()
    choose_kernels()


if __name__ == "__main__":
    main()
