"""How much one program moves, and how the programs are shared out between the parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anydml.engines.cuda.parts import Part

TILES = {1: 4096, 2: 4096, 4: 4096, 8: 1024, 16: 1024}
"""Vectors of a program by their bytes: with 8 warps, 4 to 16 loads in flight a thread."""

CROWDED = {**TILES, 4: 2048}
"""The same where each vector takes more registers: for lookups, and half of those of parts that go together."""

IDLE = 1.03
"""A wider tile may leave this share more lanes idle than the best."""

NARROWEST = 32
"""Columns that a tile has at least, where there are as many: one warp reads them in one request."""

TOGETHER = 8
"""Parts that one program moves at most."""

SECTOR_RUN = 128
"""Runs shorter than this many bytes share cache lines with their neighbours' parts."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of a launch.

    Attributes:
        rows, columns: of one tile, powers of two, in vectors.
        counts: tiles of every part.
        group: parts that one program moves together.
    """

    rows: int
    columns: int
    counts: tuple[int, ...]
    group: int

    @property
    def is_even(self) -> bool:
        """All parts have equally many tiles: a program finds its part by a division."""
        return len(set(self.counts)) == 1

    @property
    def programs(self) -> int:
        """Programs of the launch."""
        return self.counts[0] * len(self.counts) // self.group if self.is_even else sum(self.counts)


def tiles(parts: Sequence[Part], vector: int) -> Tiles:
    """The shape of a tile with the fewest lanes idle, and, for parts that share cache lines, how many go together."""
    shapes = [(part.rows, part.columns) for part in parts]
    chosen = _tiles(shapes, (CROWDED if parts[0].lookups else TILES)[vector], 1)
    group = _group(parts, vector) if chosen.is_even else 1
    if group > 1:
        together = _tiles(shapes, max(NARROWEST, 2 * CROWDED[vector] // power_of_two(group)), group)
        if together.is_even:
            return together
    return chosen


def _group(parts: Sequence[Part], vector: int) -> int:
    """The largest number of parts up to TOGETHER that divides them, or 1 where their runs fill cache lines."""
    longest = max(part.columns if part.inner == 1 else part.inner for part in parts) * vector
    are_runs = all(part.inner > 1 or abs(part.source[2][-1]) == abs(part.to[2][-1]) == 1 for part in parts)
    if len(parts) == 1 or (are_runs and longest >= SECTOR_RUN):
        return 1
    return max(n for n in range(1, TOGETHER + 1) if len(parts) % n == 0)


def _tiles(shapes: Sequence[tuple[int, int]], budget: int, group: int) -> Tiles:
    widest = power_of_two(max(columns for _, columns in shapes))
    tallest = power_of_two(max(rows for rows, _ in shapes))
    candidates = []
    columns = min(widest, budget)
    while columns >= min(NARROWEST, widest):
        rows = min(budget // columns, tallest)
        candidates.append((rows * columns * sum(_counts(shapes, rows, columns)), rows, columns))
        columns //= 2
    fewest = min(candidates)[0]
    _, rows, columns = next(candidate for candidate in candidates if candidate[0] <= fewest * IDLE)
    return Tiles(rows, columns, tuple(_counts(shapes, rows, columns)), group)


def _counts(shapes: Sequence[tuple[int, int]], rows: int, columns: int) -> list[int]:
    return [-(-height // rows) * -(-width // columns) for height, width in shapes]


def power_of_two(number: int) -> int:
    """The smallest power of two that is not below `number`."""
    return 1 << (number - 1).bit_length()
