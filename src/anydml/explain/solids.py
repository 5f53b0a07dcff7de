"""Stored arrays as blocks in perspective, and the grids of their chunks on the three faces that are seen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from anydml.explain.stripes import Rectangle

DEPTH = 56
"""Pixels by which all axes except the last two go back."""

APART = 5
"""Minimum pixels between two lines of a grid."""


def sides(rectangle: Rectangle, depth: int) -> list[str]:
    """Return the outlines of the top and the right side of a block whose front is a rectangle."""
    x, y, width, height = rectangle
    right, bottom = x + width, y + height
    return [
        f"M{x} {y}l{depth} {-depth}H{right + depth}L{right} {y}z",
        f"M{right} {y}l{depth} {-depth}V{bottom - depth}L{right} {bottom}z",
    ]


def grid(sizes: Sequence[int], chunks: Sequence[int], front: Rectangle, depth: int) -> Iterator[str]:
    """Yield the path of the lines between chunks. If they are too close, only some of them are drawn.

    Args:
        sizes: the sizes of the array.
        chunks: sizes of a chunk.
        front: the front of its block, of the last axis to the right and the one before downwards.
        depth: pixels by which the block goes back.
    """
    x, y, width, height = front
    for pixel in cut_pixels(sizes[-1:], chunks[-1:], width):
        yield f"M{x + pixel} {y + height}v{-height}l{depth} {-depth}"
    for pixel in cut_pixels(sizes[-2:-1], chunks[-2:-1], height):
        yield f"M{x} {y + pixel}h{width}l{depth} {-depth}"
    for pixel in cut_pixels(sizes[:-2], chunks[:-2], depth):
        yield f"M{x + pixel} {y - pixel}h{width}v{height}"


def cut_pixels(sizes: Sequence[int], chunks: Sequence[int], pixels: int) -> list[int]:
    """Return the pixels of the cuts along axes that share a direction, of which the first is the slowest."""
    count = math.prod(-(-size // chunk) for size, chunk in zip(sizes, chunks, strict=True))
    chunk, size = (chunks[0], sizes[0]) if len(sizes) == 1 else (1, count)
    step = -(-count * APART // pixels) if pixels else count
    return [pixels * chunk * k // size for k in range(step, count, step)]
