"""Where sharing work between threads begins to pay: measured once a machine, and kept beside the compiled kernels.

It depends on what it costs to tell another core that there is work, and on how much one core moves alone; both differ
several times from machine to machine. So a plain copy is timed with one thread and with all, size by size, in several
probes. One in which not even the largest copy gains says that other processes had the cores, and nothing of sharing.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from anydml.engines.cpu.compiler import NoCompilerError
from anydml.engines.cpu.machine import processor
from anydml.engines.cpu.plan import plan
from anydml.engines.cpu.pool import ALL, POOL
from anydml.memory.host import address_of
from anydml.moves import Access, Move

if TYPE_CHECKING:
    from anydml.engines.cpu.kernel_call import KernelCall

SIZES = (64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20)
"""Bytes that are tried; nothing smaller is ever shared."""

DEFAULT = 1 << 20
"""Bytes from which work is shared where there is one thread."""

TAKEN = 256 << 10
"""Bytes from which work is shared where other processes had the cores whenever it was measured: to call workers that do
not come costs a few percent of such work, and to do without them once the cores are free, half of it."""

ROUNDS, CALLS = 5, 4
"""Rounds, of which the fastest counts, and calls of each."""

GAIN = 0.9
"""The part of one thread's time that all together may take, to be worth it."""

FREE, PROBES = 3, 10
"""Probes that the cores should be free in, and probes at most."""

PATIENCE = 0.02
"""Seconds that workers may take to start."""

AGAIN = 10.0
"""Seconds after which a machine whose cores were taken is measured again."""

VARIABLE = "ANYDML_SHARED_BYTES"

Times = dict[int, tuple[float, float]]
"""Seconds of a plain copy, with one thread and with all, by its size."""

_known: dict[int, tuple[int, float]] = {}
"""Bytes by the number of threads, and until when that counts."""


def pays(effort: int) -> bool:
    """Whether work that takes as long as a plain copy of so many bytes is worth sharing between threads."""
    # The sizes that are tried decide most without a look at the machine.
    if effort < SIZES[0]:
        return False
    return effort >= SIZES[-1] or effort >= shared_bytes()


def shared_bytes() -> int:
    """Bytes written from which work is shared between the threads that there are now.

    What ANYDML_SHARED_BYTES says, else what was measured on this machine before, else what is measured now, which takes
    some milliseconds.

    Raises:
        NoCompilerError: nothing can be compiled here.
    """
    threads = POOL.threads
    found, until = _known.get(threads, (0, 0.0))
    if not found or time.monotonic() > until:
        found, until = _said() or 0, float("inf")
        if not found:
            found, is_settled = _kept_or_measured(threads)
            until = until if is_settled else time.monotonic() + AGAIN
        _known[threads] = found, until
    return found


def forget() -> None:
    """Ask again the next time, for tests."""
    _known.clear()


def _said() -> int | None:
    text = os.environ.get(VARIABLE, "").strip()
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    if text:
        warnings.warn(f"{VARIABLE} is {text!r}, which is no number of bytes; measuring", RuntimeWarning, stacklevel=2)
    return None


def _kept_or_measured(threads: int) -> tuple[int, bool]:
    """Bytes, and whether that is settled: where the cores were taken, it should be measured again some time."""
    if threads == 1:
        return DEFAULT, True
    from anydml.engines.cpu.kernels import kept

    name = f"shared_from_{zlib.crc32(processor().encode()):08x}_{threads}.json"
    for folder in kept.folders():
        if (known := _read(folder / name)) is not None:
            return known, True
    probes: list[Times] = []
    for _ in range(PROBES):
        probe = measured()
        if first_worth([probe]) is not None:
            probes.append(probe)
        if len(probes) == FREE:
            break
    found, is_settled = first_worth(probes) or TAKEN, len(probes) == FREE
    if is_settled and (folder_to_write := kept.writable()):
        _write(folder_to_write / name, found, threads, probes)
    return found, is_settled


def first_worth(probes: Sequence[Times]) -> int | None:
    """The least size from which on sharing pays in most of these probes; None if there is none."""
    found = None
    for size in sorted(SIZES, reverse=True):
        shares = [together / alone for alone, together in (probe[size] for probe in probes)]
        if not shares or statistics.median(shares) > GAIN:
            break
        found = size
    return found


def measured() -> Times:
    """A probe: seconds of a plain copy, with one thread and with all, by its size.

    Raises:
        NoCompilerError: nothing can be compiled here.
    """
    memory = np.zeros(2 * SIZES[-1], np.uint8)
    target, source = memory[: SIZES[-1]], memory[SIZES[-1] :]
    best: Times = {}
    runs: dict[int, tuple[Callable[[], object], Callable[[], object]]] = {}
    for size in SIZES:
        step = _copy(size)
        kernel, table = step.load(), step.table([address_of(target), address_of(source)])
        at = address_of(table)
        runs[size] = partial(kernel.run, at, 0, ALL), POOL.bind(kernel, table, memory, step.claim_bytes)
        best[size] = (float("inf"), float("inf"))
    runs[SIZES[-1]][1]()
    end = time.monotonic() + PATIENCE
    while POOL.workers < POOL.threads - 1 and time.monotonic() < end:
        time.sleep(0.0005)
    for _ in range(ROUNDS):
        for size, (alone, together) in runs.items():
            best[size] = min(best[size][0], _seconds(alone)), min(best[size][1], _seconds(together))
    return best


def _seconds(run: Callable[[], object]) -> float:
    # The first calls bring memory and threads to where they are in a loop.
    for _ in range(CALLS):
        run()
    begin = time.perf_counter()
    for _ in range(CALLS):
        run()
    return (time.perf_counter() - begin) / CALLS


def _copy(size: int) -> KernelCall:
    steps = plan([Move((), Access(0, 0, ()), Access(1, 0, ()), size)], size)
    if not steps:
        raise NoCompilerError("a plain copy has no kernel")
    return steps[0]


def _read(path: Path) -> int | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["bytes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if type(found) is int and SIZES[0] <= found <= SIZES[-1] else None


def _write(path: Path, found: int, threads: int, probes: Sequence[Times]) -> None:
    """Keep it; another process sees all of the file or none."""
    seconds = [{str(size): [round(value, 9) for value in pair] for size, pair in times.items()} for times in probes]
    text = json.dumps({"bytes": found, "threads": threads, "processor": processor(), "seconds": seconds}, indent=1)
    with contextlib.suppress(OSError):
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".sharing")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text + "\n")
            os.replace(name, path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
