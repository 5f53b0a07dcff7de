"""Runs patterns of moves between guard pages; a process of its own, because a byte too far ends it.

    python -m trust.guard_child KERNEL REPORT [--every] [--break FOLDER]

REPORT always holds the name of the pattern that runs. `numpy` is the way without kernels, `streamed` stores past the
caches. FOLDER keeps kernels that go too far, for whoever compiles them again.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .breaking import BREAKS
from .guarded import PAGE, Arena
from .moving import expected, extents
from .patterns import KERNELS, Pattern

HOSTILE = [0, 1, -1, 2**31, 2**31 - 1, -(2**31), 2**32 - 1, 2**63, 2**63 - 1, -(2**63), 2**64 - 1, 36, 37, 38, -37, -38]
ARENAS, ARENA_PAGES = 10, 300
INDICES = 1 << 16
REPORT = 500


def replace_kernel(kernel: str, folder: Path) -> None:
    """Put a kernel in the place of the real one that goes one byte, or one row, too far."""
    module = f"anydml.engines.cpu.kernels.{kernel}"
    assert module not in sys.modules, f"others have imported {module}"
    text = Path(importlib.util.find_spec(module).origin).read_text(encoding="utf-8")
    right, wrong = BREAKS[kernel]
    if right not in text:
        raise SystemExit(f"{right!r} stands no longer in {module}: break something else")
    broken, path = text.replace(right, wrong), folder / f"{kernel}.py"
    # A file that is the same stays, with its bytecode.
    if not path.exists() or path.read_text(encoding="utf-8") != broken:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(broken, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(module, path)
    sys.modules[module] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[module])


class Noise:
    """Bytes, and indices good and hostile, to fill memory with."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = random.Random(6)
        self._bytes = rng.integers(0, 256, 2 * ARENA_PAGES * PAGE, np.uint8)
        bits = np.array([value % 2**64 for value in HOSTILE], np.uint64)
        good = rng.integers(0, 37, INDICES, np.uint64)
        values = np.where(rng.random(INDICES) < 0.5, bits[rng.integers(0, len(bits), INDICES)], good)
        self._indices = {item: values.astype(f"u{item}").view(np.uint8) for item in (4, 8)}

    def bytes(self, size: int) -> np.ndarray:
        """Any bytes."""
        at = self._rng.randrange(self._bytes.size - size)
        return self._bytes[at : at + size]

    def indices(self, item: int, size: int) -> np.ndarray:
        """Indices of so many bytes each, as the bytes of an operand of any size."""
        at = item * self._rng.randrange((self._indices[item].size - size) // item)
        return self._indices[item][at : at + size]


def run(pattern: Pattern, mode: str, arenas: list[Arena], noise: Noise) -> None:
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
            memory[...] = noise.bytes(memory.size)
        for lookup in (lookup for move in pattern.moves for lookup in move.source.lookups):
            memory = memories[lookup.operand]
            memory[...] = noise.indices(np.dtype(lookup.dtype).itemsize, memory.size)
        after = expected(pattern.moves, memories, [first for first, _ in spans])
        # An operand begins where its offset is 0, which may lie anywhere in its memory, or even outside.
        operands = [operand(memory, *span) for memory, span in zip(memories, spans, strict=True)]
        work.bind(operands)()
        for memory, wanted_bytes in zip(memories, after, strict=True):
            assert memory.tobytes() == wanted_bytes.tobytes(), pattern.name


def operand(memory: np.ndarray, first: int, end: int) -> np.ndarray:
    """The array that an engine is given for memory that holds the bytes from `first` to `end` of it."""
    if not first:
        return memory
    start = memory.__array_interface__["data"][0] - first
    return np.frombuffer((ctypes.c_uint8 * max(end, 1)).from_address(start), np.uint8)


def main(arguments: Sequence[str]) -> None:
    """Run all patterns of one kernel in every mode."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kernel", choices=KERNELS)
    parser.add_argument("report", type=Path)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--break", dest="broken", type=Path)
    given = parser.parse_args(arguments)
    kernel = given.kernel
    if given.broken:
        replace_kernel(kernel, given.broken)
    from anydml.engines.cpu import admission, engine, fills, lookups, permute, pixels, plan

    admission.MOST = 1 << 30
    plan.LONG_TABLES_BYTES = 0
    plan.PERMUTED_BYTES = 0 if kernel in ("turn", "table") else 1 << 60
    # Others would do some of their patterns, for the sake of speed alone.
    permute.ALONG_LINES, permute.BY_ELEMENTS = (0, -1), 1 << 60
    pixels.MOST_BYTES = pixels.MOST_BYTES if kernel == "pixels" else 0
    pixels.LEAST_BYTES = 0
    if kernel == "elements":
        fills.LEAST_OWN_RUN = 1 << 60
    if kernel == "lookup":
        lookups.SHORT_AXIS = -1
    plan.SHORT_LINE = 1 if kernel == "interleave" else plan.SHORT_LINE

    noise = Noise(np.random.default_rng(6))
    arenas = [Arena(ARENA_PAGES) for _ in range(ARENAS)]
    done = 0
    with given.report.open("wb", buffering=0) as file:
        for mode in ("cached", "streamed") if given.broken else ("numpy", "cached", "streamed"):
            engine.SMALL_BYTES = 1 << 60 if mode == "numpy" else -1
            plan.most_cached = lambda mode=mode: -1 if mode == "streamed" else 1 << 60
            for pattern in KERNELS[kernel](given.every):
                os.pwrite(file.fileno(), f"{pattern.name}, {mode}".encode().ljust(REPORT), 0)
                run(pattern, mode, arenas, noise)
                done += 1
    print(done)


if __name__ == "__main__":
    main(sys.argv[1:])
