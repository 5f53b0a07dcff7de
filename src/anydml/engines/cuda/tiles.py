"""Tiles: the work of one program of the kernel, and the division of parts among programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anydml.engines.cuda.vector_moves import Part

TILES = {1: 4096, 2: 4096, 4: 4096, 8: 1024, 16: 1024}
"""Vectors per program, by bytes per vector: with 8 warps, 4 to 16 loads in flight per thread."""

CROWDED = {**TILES, 4: 2048}
"""Vectors per program if each takes more registers, as for lookups and for groups of parts."""

MAX_IDLE_FACTOR = 1.03
"""A wider tile is preferred if it has at most this factor of the best tile's lanes."""

NARROWEST = 32
"""Minimum number of columns of a tile, if a part has as many: one warp reads them in one request."""

MAX_GROUPED = 8
"""Maximum number of parts that one program moves."""

CACHE_LINE_BYTES = 128
"""Bytes of a cache line: shorter runs share cache lines with runs of adjacent parts."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of a launch.

    Attributes:
        rows, columns: sizes of one tile in vectors, powers of two.
        counts: number of tiles of each part.
        group: number of parts that one program moves.
    """

    rows: int
    columns: int
    counts: tuple[int, ...]
    group: int

    @property
    def is_even(self) -> bool:
        """Whether all parts have equally many tiles, so that a program finds its part by a division."""
        return len(set(self.counts)) == 1

    @property
    def programs(self) -> int:
        """Number of programs of the launch."""
        return self.counts[0] * len(self.counts) // self.group if self.is_even else sum(self.counts)


def tiles(parts: Sequence[Part], vector: int) -> Tiles:
    """Choose the tile with the fewest idle lanes, and the group of parts that share cache lines."""
    shapes = [(part.rows, part.columns) for part in parts]
    chosen = _tiles(shapes, (CROWDED if parts[0].lookups else TILES)[vector], 1)
    group = _group(parts, vector) if chosen.is_even else 1
    if group > 1:
        together = _tiles(shapes, max(NARROWEST, 2 * CROWDED[vector] // power_of_two(group)), group)
        if together.is_even:
            return together
    return chosen


def _group(parts: Sequence[Part], vector: int) -> int:
    """Return the largest divisor of the number of parts up to `MAX_GROUPED`, or 1 if runs fill cache lines."""
    longest = max(part.columns if part.inner == 1 else part.inner for part in parts) * vector
    are_runs = all(part.inner > 1 or abs(part.source[2][-1]) == abs(part.to[2][-1]) == 1 for part in parts)
    if len(parts) == 1 or (are_runs and longest >= CACHE_LINE_BYTES):
        return 1
    return max(n for n in range(1, MAX_GROUPED + 1) if len(parts) % n == 0)


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
    _, rows, columns = next(candidate for candidate in candidates if candidate[0] <= fewest * MAX_IDLE_FACTOR)
    return Tiles(rows, columns, tuple(_counts(shapes, rows, columns)), group)


def _counts(shapes: Sequence[tuple[int, int]], rows: int, columns: int) -> list[int]:
    return [-(-height // rows) * -(-width // columns) for height, width in shapes]


def power_of_two(number: int) -> int:
    """Return the smallest power of two that is at least `number`."""
    return 1 << (number - 1).bit_length()
