"""Runs patterns of moves between guard pages; a process of its own, because a byte too far ends it.

    python -m trust.guard_child KERNEL REPORT [--every] [--break]

REPORT always holds the name of the pattern that runs. `numpy` is the way without kernels, `streamed` stores past the
caches.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from .breaking import BREAKS
from .guarded import Arena
from .moving import expected, extents
from .patterns import KERNELS, Pattern

HOSTILE = [0, 1, -1, 2**31, 2**31 - 1, -(2**31), 2**32 - 1, 2**63, 2**63 - 1, -(2**63), 2**64 - 1, 36, 37, 38, -37, -38]
ARENAS, ARENA_PAGES = 10, 300
REPORT = 500


def replace_kernel(kernel: str) -> None:
    """Put a kernel in the place of the real one that goes one byte, or one row, too far."""
    module = f"anydml.engines.cpu.kernels.{kernel}"
    text = Path(importlib.util.find_spec(module).origin).read_text(encoding="utf-8")
    right, wrong = BREAKS[kernel]
    if right not in text:
        raise SystemExit(f"{right!r} stands no longer in {module}: break something else")
    path = Path(tempfile.mkdtemp()) / f"{kernel}.py"
    path.write_text(text.replace(right, wrong), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(module, path)
    sys.modules[module] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[module])


def index_bytes(rng: np.random.Generator, dtype: np.dtype, size: int) -> np.ndarray:
    """Indices, good and hostile, as the bytes of an operand of any size."""
    bits = np.array([value % 2**64 for value in HOSTILE], np.uint64)
    good = rng.integers(0, 37, size, np.uint64)
    values = np.where(rng.random(size) < 0.5, bits[rng.integers(0, len(bits), size)], good)
    low = values & np.uint64(2 ** (8 * dtype.itemsize) - 1)
    return low.astype(dtype.str.replace("i", "u")).view(np.uint8)[:size]


def run(pattern: Pattern, mode: str, arenas: list[Arena], rng: np.random.Generator) -> None:
    """Do a pattern's moves with every operand before a guard page, then after one, and look at every byte."""
    from anydml.engines.cpu.engine import program

    spans = extents(pattern.moves)
    work = program(pattern.name, pattern.moves)
    kernels = sorted({step.kernel.partition(" ")[0] for step in work.steps or ()})
    wanted = [] if mode == "numpy" else [(mode == "cached" and pattern.cached) or pattern.kernel]
    assert kernels == wanted, f"{pattern.name}: {kernels}"
    for at_end in (True, False):
        memories = [arena.take(end - first, at_end) for arena, (first, end) in zip(arenas, spans, strict=False)]
        for memory in memories:
            memory[...] = rng.integers(0, 256, memory.size, np.uint8)
        for lookup in (lookup for move in pattern.moves for lookup in move.source.lookups):
            memory = memories[lookup.operand]
            memory[...] = index_bytes(rng, np.dtype(lookup.dtype), memory.size)
        after = expected(pattern.moves, memories, [first for first, _ in spans])
        # An operand begins where its offset is 0, which may lie anywhere in its memory, or even outside.
        operands = [operand(memory, *span) for memory, span in zip(memories, spans, strict=True)]
        work.bind(operands)()
        for memory, wanted_bytes in zip(memories, after, strict=True):
            assert memory.tobytes() == wanted_bytes.tobytes(), pattern.name


def operand(memory: np.ndarray, first: int, end: int) -> np.ndarray:
    """The array that an engine is given for memory that holds the bytes from `first` to `end` of it."""
    start = memory.__array_interface__["data"][0] - first
    return np.frombuffer((ctypes.c_uint8 * max(end, 1)).from_address(start), np.uint8)


def main() -> None:
    """Run all patterns of one kernel in every mode."""
    kernel, report = sys.argv[1:3]
    if "--break" in sys.argv:
        replace_kernel(kernel)
    from anydml.engines.cpu import admission, engine, fills, lookups, permute, plan

    admission.MOST = 1 << 30
    plan.LONG_TABLES_BYTES = 0
    plan.PERMUTED_BYTES = 0 if kernel in ("turn", "table") else 1 << 60
    # Others would do some of their patterns, for the sake of speed alone.
    permute.ALONG_LINES, permute.BY_ELEMENTS = (0, -1), 1 << 60
    if kernel == "elements":
        fills.LEAST_OWN_RUN = 1 << 60
    if kernel == "lookup":
        lookups.SHORT_AXIS = -1
    plan.SHORT_LINE = 1 if kernel == "interleave" else plan.SHORT_LINE

    rng = np.random.default_rng(6)
    arenas = [Arena(ARENA_PAGES) for _ in range(ARENAS)]
    done = 0
    with open(report, "wb", buffering=0) as file:
        for mode in ("cached", "streamed") if "--break" in sys.argv else ("numpy", "cached", "streamed"):
            engine.SMALL_BYTES = 1 << 60 if mode == "numpy" else -1
            plan.most_cached = lambda mode=mode: -1 if mode == "streamed" else 1 << 60
            for pattern in KERNELS[kernel]("--every" in sys.argv):
                os.pwrite(file.fileno(), f"{pattern.name}, {mode}".encode().ljust(REPORT), 0)
                run(pattern, mode, arenas, rng)
                done += 1
    print(done)


if __name__ == "__main__":
    main()
