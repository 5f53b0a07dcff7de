"""Random calls of every function between guard pages, compared with NumPy byte for byte.

python -m tests.fuzz.calls --calls 100000 [--seed 1] [--first 0] [--processes 2] [--function slice1]

Without a seed, or with "random" for one, one is drawn; it is printed either way. A process that crashes names its call.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

SEED = "ANYDML_FUZZ_SEED"
PAGES, ARENAS = 16, 24
LINE = 100
"""Bytes of what a report holds."""

NUMBERS = ("?", "i1", "u2", "i4", "u8", "f2", "f4", "f8")


def nonzero_coordinates(rng: np.random.Generator) -> tuple[tuple[Any, ...], Any]:
    """Arguments, and what NumPy makes of them."""
    from drawn_calls import shape_of
    from function_cases import array, some

    x = array(rng, shape_of(rng), np.dtype(some(rng, *NUMBERS)))
    x = np.where(rng.random(x.shape) < 0.5, x, 0).astype(x.dtype)
    return (x,), np.argwhere(x)


def compress(rng: np.random.Generator) -> tuple[tuple[Any, ...], Any]:
    """Likewise: elements, or slices along the first axis or another."""
    from drawn_calls import shape_of
    from function_cases import array, some

    x = array(rng, shape_of(rng), np.dtype(some(rng, *NUMBERS, "c16")))
    axis = int(rng.integers(-1, x.ndim))
    shape = x.shape if axis < 0 else x.shape[axis : axis + 1]
    condition = rng.random(shape) < some(rng, 0.1, 0.5, 1)
    if axis < 0:
        return (condition, x), x[condition]
    return (condition, x, axis), np.compress(condition, x, axis)


FOUND = {"compress": compress, "nonzero_coordinates": nonzero_coordinates}
"""Functions whose results' shapes depend on elements."""


class Memory:
    """Arrays as others, with their bytes before a page that cannot be read, or after one."""

    def __init__(self) -> None:
        self._arenas: list[Any] = []
        self._used = 0
        if sys.platform != "win32":
            from trust.guarded import Arena

            self._arenas = [Arena(PAGES) for _ in range(ARENAS)]

    def reset(self) -> None:
        """All arrays of the call before are done with."""
        self._used = 0

    def placed(self, value: Any, at_end: bool) -> Any:
        """An array, or the arrays of a list or tuple; what has no room, no bytes, or Python's objects stays."""
        if isinstance(value, (list, tuple)):
            return type(value)(self.placed(each, at_end) for each in value)
        if type(value) is not np.ndarray or value.dtype.hasobject or value.dtype.kind == "T" or not value.nbytes:
            return value
        low, high = np.lib.array_utils.byte_bounds(value)
        if self._used == len(self._arenas) or high - low > self._arenas[self._used].size:
            return value
        memory = self._arenas[self._used].take(high - low, at_end)
        self._used += 1
        start = value.__array_interface__["data"][0] - low
        found = np.ndarray(value.shape, value.dtype, memory, start, value.strides)
        found[...] = value
        found.flags.writeable = value.flags.writeable
        return found


def check(seed: int, number: int, names: Sequence[str], memory: Memory) -> str:
    """Make one call, and compare; the function's name.

    Raises:
        AssertionError: a byte of the result, of `out` or of an argument is not what it should be.
    """
    from call_ways import held
    from drawn_calls import call_of
    from function_cases import called
    from odd_arrays import odd, same

    import anydml as dml

    rng = np.random.default_rng([seed, number])
    name = names[int(rng.integers(len(names)))]
    memory.reset()
    at_end = bool(number & 1)
    if name in FOUND:
        given, expected = FOUND[name](rng)
        given = memory.placed(given, at_end)
        found = getattr(dml, name)(*given)
        np.testing.assert_array_equal(found, expected, strict=True)
        return name
    given, expected = call_of(rng, name)
    given = memory.placed(given, at_end)
    before = held(given)
    arrays = expected if isinstance(expected, list) else [expected[0] if isinstance(expected, tuple) else expected]
    arrays = [np.asarray(each) for each in arrays]
    outs, out = [], None
    if rng.random() < 0.5:
        fits = [np.zeros(each.shape, each.dtype) for each in arrays]
        fits = [odd(rng, each) if rng.random() < 0.5 else each for each in fits]
        for each in fits:
            each.flags.writeable = True
        outs = memory.placed(fits, at_end)
        out = outs if isinstance(expected, list) else outs[0]
    found = called(getattr(dml, name), given, out=out)
    results = found if isinstance(found, list) else [found[0] if isinstance(found, tuple) else found]
    assert len(results) == len(arrays), name
    for result, right in zip(results, arrays, strict=True):
        same(result, right)
    if isinstance(expected, tuple):
        same(found[1], expected[1])
    for result, own in zip(results, outs, strict=False):
        assert result is own, f"{name} gave another array"
    assert held(given) == before, f"{name} changed an argument"
    return name


def run(given: argparse.Namespace) -> None:
    """Make all calls in this process."""
    from drawn_calls import DRAW

    names = given.function or [*sorted(DRAW), *FOUND]
    memory, counts = Memory(), Counter[str]()
    with given.report.open("wb", buffering=0) as report:
        for number in range(given.first, given.first + given.calls):
            report.seek(0)
            report.write(f"call {number}".encode().ljust(LINE))
            try:
                counts[check(given.seed, number, names, memory)] += 1
            except BaseException as error:
                raise AssertionError(f"call {number} of seed {given.seed}: {type(error).__name__}: {error}") from error
    print(*(f"{name} {count}" for name, count in sorted(counts.items())), sep="\n")


def share(given: argparse.Namespace) -> int:
    """Make all calls in processes of their own; 0 where all were right."""
    each = -(-given.calls // given.processes)
    started, failed, counts = time.monotonic(), 0, Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        running = []
        for k in range(given.processes):
            report = Path(folder) / str(k)
            first = given.first + k * each
            count = min(each, given.first + given.calls - first)
            command = [sys.executable, "-X", "faulthandler", "-m", "tests.fuzz.calls", "--seed", str(given.seed),
                       "--first", str(first), "--calls", str(count), "--report", str(report)]  # fmt: skip
            for name in given.function or ():
                command += ["--function", name]
            running.append((report, subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)))
        for report, process in running:
            out, _ = process.communicate()
            if process.returncode:
                failed += 1
                print(f"process ended with {process.returncode} at {report.read_text().strip()}", file=sys.stderr)
            else:
                counts.update({name: int(count) for name, count in map(str.split, out.splitlines())})
    if failed:
        return 1
    for name, count in sorted(counts.items()):
        print(f"  {name}: {count}")
    seconds = time.monotonic() - started
    print(f"{counts.total()} calls of seed {given.seed}, no mismatch, {seconds:.0f} s")
    return 0


def main() -> int:
    """Fuzz; 0 where nothing failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.calls", description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--seed", default=os.environ.get(SEED) or "random", help=f"a number; ${SEED} by default")
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--function", action="append", help="only this one (may be repeated)")
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.seed = secrets.randbits(32) if given.seed == "random" else int(given.seed)
    if given.report:
        run(given)
        return 0
    again = f"python -m tests.fuzz.calls --seed {given.seed} --calls {given.calls}"
    print(f"seed {given.seed}; the same calls again: {again}", flush=True)
    return share(given)


if __name__ == "__main__":
    sys.exit(main())
