"""Simplified moves, run by kernels: on one thread, or on all free ones."""

from __future__ import annotations

import contextlib
import os

import cython
from cython.cimports.anydml.core import kernels
from cython.cimports.cpython.exc import PyErr_CheckSignals

SHARED_EFFORT = 128 << 10
"""Effort from which threads share work, without the GIL: for less, releasing it or notifying another core costs more
than the work. An effort is the number of bytes that a plain copy writes in the same time."""

unshared_effort = cython.declare(int64_t, SHARED_EFFORT)
"""Effort up to which one thread does everything under the GIL, without non-temporal stores."""

ELEMENT_EFFORT = 18
"""Effort of an element without lookups, besides its bytes."""

LOOKUP_EFFORT = 56
"""Effort of an element with lookups, besides its bytes."""

ROUND_EFFORT = 64 << 20
"""Effort between two checks for signals."""

CLAIMS = 16
MIN_CLAIM = 16 << 10
MAX_CLAIM = 512 << 10
"""Number of claims that medium work is divided into; the least and the most effort of one: small enough for threads
that come late to find some, and for callers not to wait long for another thread's last one."""

CACHE, SHARE = 32 << 20, 3
"""Bytes of the last-level cache if the system does not report them; the divisor for the share of it up to which plain
stores are used (see `benchmarks.thresholds`)."""


def effort(m, count):
    """Estimate the effort of moves on one thread (see `SHARED_EFFORT`)."""
    total: int64_t = 0
    for j in range(count):
        items = 1
        for k in range(m[j].rank):
            items *= m[j].n[k]
        total += items * (m[j].element + (LOOKUP_EFFORT if m[j].lookups else ELEMENT_EFFORT))
    return total


def run(m, count, total):
    """Run simplified moves, as if one after the other. The caller holds the GIL, which large work releases.

    `total` is the number of bytes that a call of several such lists writes in all, or 0.

    Raises:
        KeyboardInterrupt: or another exception that a signal handler raises during large work.
    """
    stage: Stage
    if effort(m, count) <= unshared_effort:
        kernels.run_serially(m, count)
        return 0
    with cython.nogil:
        written = max(kernels.written(m, count), total)
        while count > 0:
            planned = kernels.plan_stage(cython.address(stage), m, count, written)
            run_units(kernels.run_units, cython.address(stage), stage.units, effort(m, planned))
            m += planned
            count -= planned
    return 0


def run_units(work, plan, units, total):
    """Run the units of a plan of effort `total`; signal handlers run between rounds of large work."""
    if total < SHARED_EFFORT:
        work(plan, 0, units)
        return 0
    unit_bytes: int64_t = total // max(units, 1) + 1
    step: int64_t = max(1, min(max(total // CLAIMS, MIN_CLAIM), MAX_CLAIM) // unit_bytes)
    # Enough for all threads, however large the units are.
    max_units: int64_t = max(CLAIMS, ROUND_EFFORT // unit_bytes)
    first: int64_t = 0
    while first < units:
        last = min(first + max_units, units)
        share(work, plan, first, last, step, unit_bytes * (last - first))
        first = last
        with cython.gil:
            PyErr_CheckSignals()
    return 0


def run_plan(work, plan, units, total):
    """Like `run_units`, for a caller that holds the GIL, which large work releases."""
    if total < SHARED_EFFORT:
        work(plan, 0, units)
        return 0
    with cython.nogil:
        run_units(work, plan, units, total)
    return 0


def put_numbers(plan, first, last):
    """Write numbers at equal distances."""
    kernels.put_numbers(plan, first, last)


def check_indices(m):
    """Have the lookups of a move that refuse indices check for any."""
    kernels.check_indices(m)


def describe(m, count):
    """Describe how moves are run.

    Returns:
        For each stage, the kernels' names, the number of moves, whether any uses non-temporal stores, and the number
        of units that threads may share.
    """
    stage: Stage
    stages: list = []
    written: int64_t = kernels.written(m, count)
    while count > 0:
        planned = kernels.plan_stage(cython.address(stage), m, count, written)
        names: dict = {}
        is_streamed: cython.int = 0
        for k in range(stage.tasks):
            names[kernels.task_name(cython.address(stage.task[k])).decode()] = None
            is_streamed |= stage.task[k].streamed
        stages.append((tuple(names), planned, bool(is_streamed), stage.units))
        m += planned
        count -= planned
    return stages


def run_backwards(m, count):
    """Like `run`, on one thread, with the units of each stage in reverse order, which must not matter."""
    stage: Stage
    planned: int64_t = 0
    written: int64_t = kernels.written(m, count)
    while planned < count:
        planned += kernels.plan_stage(cython.address(stage), m + planned, count - planned, written)
        for unit in range(stage.units - 1, -1, -1):
            kernels.run_units(cython.address(stage), unit, unit + 1)


def instruction_set() -> str:
    """Return the instruction set of the kernels in use, such as ``"x86-64-v4"``."""
    return kernels.isa().decode()


def choose_kernels(limit: str = "", stream_from: int | None = None) -> None:
    """Choose the kernels.

    Args:
        limit: the highest instruction set to use: ``"v2"``, ``"v3"`` or ``"v4"``; by default the best available.
        stream_from: bytes written from which stores are non-temporal; by default a share of the last-level cache.
    """
    global unshared_effort  # noqa: PLW0603  # a C variable, like the kernels' own
    if stream_from is None:
        stream_from = last_cache_size() // SHARE
    kernels.choose(limit.encode(), stream_from)
    unshared_effort = min(SHARED_EFFORT, stream_from) - 1


def last_cache_size() -> int:
    """Return the bytes of the first processor's largest cache, or `CACHE` if the system does not report any."""
    largest = 0
    for cache_number in range(8):
        path = f"/sys/devices/system/cpu/cpu0/cache/index{cache_number}/size"
        with contextlib.suppress(OSError, ValueError, KeyError), open(path, encoding="ascii") as file:
            text = file.read().strip()
            largest = max(largest, int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}[text.strip("0123456789")])
    return largest or CACHE


choose_kernels(os.environ.get("ANYDML_ISA", ""))
