"""Candidate shapes of blocks, and the boxes that a shape divides an array into."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from anydml.stores.formats.store import Box

MOST_CANDIDATES = 3000
"""Most candidate shapes."""


def shapes(shape: Sequence[int], unit: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Candidate sizes of blocks: multiples of a unit, the smallest first."""
    base = 2
    while True:
        by = [_steps(max(1, size), step, base) for size, step in zip(shape, unit, strict=True)]
        if math.prod(len(each) for each in by) <= MOST_CANDIDATES:
            break
        base *= 2
    yield from itertools.product(*by)


def _steps(size: int, unit: int, base: int) -> list[int]:
    count, found, factor = -(-size // unit), [], 1
    while factor < count:
        found.append(factor * unit)
        factor *= base
    return [*found, count * unit]


def middle(shape: Sequence[int], block: Sequence[int]) -> Box:
    """A block from the middle of an array, which is as large as any."""
    found = []
    for size, step in zip(shape, block, strict=True):
        low = size // 2 // step * step
        low = low if low + step <= size else max(0, low - step)
        found.append((low, min(size, low + step)))
    return tuple(found)


def block_count(shape: Sequence[int], block: Sequence[int]) -> int:
    """The number of blocks."""
    return math.prod(-(-size // step) for size, step in zip(shape, block, strict=True))


def box_at(shape: Sequence[int], block: Sequence[int], number: int) -> Box:
    """A block by its number in C order."""
    found = []
    for size, step in zip(reversed(shape), reversed(block), strict=True):
        number, place = divmod(number, -(-size // step))
        found.append((place * step, min(size, (place + 1) * step)))
    return tuple(reversed(found))
