"""Strides so far apart that an address tells the coordinates."""

from __future__ import annotations

SPACE = 1 << 70
"""More than any coordinate, or any sum of steps, along an axis."""


def far_strides(rank: int) -> tuple[int, ...]:
    """Strides by which `coordinates` finds back."""
    return tuple(SPACE ** (rank - 1 - axis) for axis in range(rank))


def coordinates(address: int, rank: int) -> tuple[int, ...]:
    """The coordinates, or steps along each axis, that an address with far strides stands for."""
    found = []
    for _ in range(rank):
        digit = (address + SPACE // 2) % SPACE - SPACE // 2
        found.append(digit)
        address = (address - digit) // SPACE
    return tuple(reversed(found))
