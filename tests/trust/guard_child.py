"""Runs patterns of moves between guard pages; a process of its own, because a byte too far ends it.

    python -m trust.guard_child GROUP REPORT [--every] [--short]

REPORT always holds the name of the pattern that runs. With --short compiled code is told
that operands begin a byte later than they do. It prints how many patterns ran, and which kernels.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anydml import core
from anydml.engines.numpy.views import bind_views
from anydml.moves import Access, simplify

from .guarded import PAGE, Arena
from .moving import expected, extents
from .patterns import GROUPS, Pattern

HOSTILE = [0, 1, -1, 2**31, 2**31 - 1, -(2**31), 2**32 - 1, 2**63, 2**63 - 1, -(2**63), 2**64 - 1, 36, 37, 38, -37, -38]
ARENAS, ARENA_PAGES = 10, 300
INDICES = 1 << 16
REPORT = 500
SETS = ("v2", "v3", "v4")


class Noise:
    """Bytes, and indices good and hostile, to fill memory with."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = random.Random(6)
        self._bytes = rng.integers(0, 256, 2 * ARENA_PAGES * PAGE, np.uint8)
        bits = np.array([value % 2**64 for value in HOSTILE], np.uint64)
        good = rng.integers(0, 37, INDICES, np.uint64)
        values = np.where(rng.random(INDICES) < 0.5, bits[rng.integers(0, len(bits), INDICES)], good)
        # A byte is one of a mask.
        masks = {1: np.where(good < 18, 0, good).astype(np.uint8)}
        self._indices = masks | {item: values.astype(f"u{item}").view(np.uint8) for item in (4, 8)}

    def bytes(self, size: int) -> np.ndarray:
        """Any bytes."""
        at = self._rng.randrange(self._bytes.size - size)
        return self._bytes[at : at + size]

    def indices(self, item: int, size: int) -> np.ndarray:
        """Indices of so many bytes each, as the bytes of an operand of any size."""
        at = item * self._rng.randrange((self._indices[item].size - size) // item)
        return self._indices[item][at : at + size]


class Ways:
    """By NumPy, and by the kernels of each instruction set that there is, with stores past the caches and without.

    Attributes:
        kernels: those that were used.
    """

    def __init__(self, with_numpy: bool) -> None:
        self._with_numpy = with_numpy
        self.kernels: set[str] = set()
        self._sets: list[str] = []
        if core.program is not None:
            from anydml.core import moving

            self._choose = moving.choose_kernels
            for name in SETS:
                moving.choose_kernels(name)
                if moving.instruction_set().endswith(name):
                    self._sets.append(name)
            # The generic kernels are all that other processors have.
            self._sets = self._sets or [""]

    def bound(self, moves: Sequence[Any], operands: Sequence[np.ndarray]) -> Iterator[tuple[str, Callable[[], object]]]:
        """Ways to do moves, which are to be done before the next one is asked for."""
        # NumPy's engine has fills done as moves of constants.
        if self._with_numpy and all(isinstance(move.source, Access) for move in moves):
            yield "by NumPy", bind_views(moves, operands)
        if self._sets:
            compiled = core.program.Compiled(moves, len(operands))
            for name in self._sets:
                for past in (False, True):
                    self._choose(name, 0 if past else 1 << 60)
                    self.kernels |= {name for stage in compiled.stages() for name in stage[0]}
                    yield f"{name}, {'past the caches' if past else 'cached'}", compiled.bind(operands)


def run(
    pattern: Pattern, ways: Ways, arenas: list[Arena], noise: Noise, report: Callable[[str], None], late: int
) -> None:
    """Do a pattern's moves with every operand before a guard page, then after one, and look at every byte."""
    spans = extents(pattern.moves)
    moves = simplify(pattern.moves)
    for at_end in (True, False):
        memories = [arena.take(end - first, at_end) for arena, (first, end) in zip(arenas, spans, strict=False)]
        for memory in memories:
            memory[...] = noise.bytes(memory.size)
        for lookup in (
            lookup for move in pattern.moves if isinstance(move.source, Access) for lookup in move.source.lookups
        ):
            memory = memories[lookup.operand]
            memory[...] = noise.indices(np.dtype(lookup.dtype).itemsize, memory.size)
        before = [memory.copy() for memory in memories]
        after = expected(pattern.moves, memories, [first for first, _ in spans])
        # An operand begins where its offset is 0, which may lie anywhere in its memory, or even outside.
        operands = [operand(memory, first - late, end) for memory, (first, end) in zip(memories, spans, strict=True)]
        for way, bound in ways.bound(moves, operands):
            report(f"{pattern.name}, {way}")
            for memory, own in zip(memories, before, strict=True):
                memory[...] = own
            bound()
            for memory, wanted in zip(memories, after, strict=True):
                assert memory.tobytes() == wanted.tobytes(), f"{pattern.name}, {way}"


def operand(memory: np.ndarray, first: int, end: int) -> np.ndarray:
    """The array that an engine is given for memory that holds the bytes from `first` to `end` of it."""
    if not first:
        return memory
    start = memory.__array_interface__["data"][0] - first
    return np.frombuffer((ctypes.c_uint8 * max(end, 1)).from_address(start), np.uint8)


def main(arguments: Sequence[str]) -> None:
    """Run all patterns of one group in every way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("group", choices=GROUPS)
    parser.add_argument("report", type=Path)
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--short", action="store_true")
    given = parser.parse_args(arguments)
    noise, ways = Noise(np.random.default_rng(6)), Ways(not given.short)
    arenas = [Arena(ARENA_PAGES) for _ in range(ARENAS)]
    done = 0
    with given.report.open("wb", buffering=0) as file:

        def report(text: str) -> None:
            os.pwrite(file.fileno(), text.encode().ljust(REPORT), 0)

        for pattern in GROUPS[given.group](given.every):
            run(pattern, ways, arenas, noise, report, int(given.short))
            done += 1
    print(json.dumps([done, sorted(ways.kernels)]))


if __name__ == "__main__":
    main(sys.argv[1:])
