"""Tests whether arrays, or the bytes that moves access, meet: exact, and fast for thousands of parts of one array.

Bytes whose bounds are disjoint do not meet. The bounds of columns of one array do overlap; but modulo the step between
rows, each column is a short interval, and columns whose intervals are disjoint do not meet either. So a set is divided
again and again, by bounds and by such steps; only what cannot be separated in this way is compared in pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.memory.host import address_of, array_at
from anydml.strides import shares_memory

Array = np.ndarray[Any, Any]

FEW_PAIRS = 32
"""Number of pairs up to which comparing all pairs is faster than dividing the set."""

MAX_STEPS_TRIED = 64
"""Number of steps that are tried to divide a set."""

ADDRESSES = 1 << 64
BYTE = np.dtype(np.uint8)


class TooManyPairsError(Exception):
    """There are more pairs to compare than allowed."""


class Lattice(NamedTuple):
    """Bytes in memory: runs of `run` bytes from `low` on, at every step of `dimensions`.

    Attributes:
        low: address of the first byte.
        run: number of contiguous bytes.
        dimensions: ``(step, size)`` of the other dimensions; steps are positive, the largest first.
        number: the number of the array or move that the bytes belong to.
        is_written: whether the bytes are written; otherwise they are read.
    """

    low: int
    run: int
    dimensions: tuple[tuple[int, int], ...]
    number: int
    is_written: bool

    @classmethod
    def of(
        cls, address: int, size: int, dimensions: Iterable[tuple[int, int]], number: int, is_written: bool
    ) -> Lattice:
        """Return the bytes of elements.

        Args:
            address: the address of the first element.
            size: bytes of an element.
            dimensions: stride, in bytes, and size of each dimension.
            number: the number of the array or move that the elements belong to.
            is_written: whether they are written.
        """
        low, run, outer = address, size, []
        for step, count, stride in sorted((abs(stride), count, stride) for stride, count in dimensions if count > 1):
            low += min(stride, 0) * (count - 1)
            if step <= run:
                # The runs leave no gaps.
                run += (count - 1) * step
            else:
                outer.append((step, count))
        return cls(low, run, tuple(reversed(outer)), number, is_written)

    def reach(self, first: int = 0) -> int:
        """Return the bytes that the dimensions from `first` on span."""
        return self.run + sum((size - 1) * step for step, size in self.dimensions[first:])

    def meets(self, other: Lattice) -> bool:
        """Whether two lattices share a byte; true if that is too hard to decide."""
        try:
            return shares_memory(self._view(), other._view())
        except ValueError:
            # NumPy has no arrays of so many dimensions.
            return True

    def _view(self) -> Array:
        steps, sizes = zip(*self.dimensions, (1, self.run), strict=True)
        return array_at(self.low, None, sizes, BYTE, steps)


def overlapping_pair(arrays: Sequence[Array], first_output: int) -> tuple[int, int] | None:
    """Return the numbers of an output and another array that share a byte, the smaller first, or None.

    Exact, except for strides that are too hard to decide: those count as sharing.

    Args:
        arrays: inputs, then outputs.
        first_output: the number of inputs, which may share memory with each other.
    """
    lattices = [
        Lattice.of(
            address_of(array), array.itemsize, zip(array.strides, array.shape, strict=True), k, k >= first_output
        )
        for k, array in enumerate(arrays)
        if array.nbytes
    ]
    pair = next(overlapping_pairs(lattices), None)
    if pair is None:
        return None
    first, second = sorted(access.number for access in pair)
    return first, second


def overlapping_pairs(lattices: Sequence[Lattice], most_pairs: float = math.inf) -> Iterator[tuple[Lattice, Lattice]]:
    """Yield the pairs of lattices that share a byte which one of them writes.

    Raises:
        TooManyPairsError: more than `most_pairs` pairs cannot be separated by their bounds and steps.
    """
    pending, compared = [[*lattices]], 0
    while pending:
        group = pending.pop()
        written = sum(access.is_written for access in group)
        if not written:
            continue
        if written * len(group) > FEW_PAIRS:
            parts = _divide(group)
            if len(parts) > 1:
                # A part may be divisible by a step that could not divide the whole.
                pending += parts
                continue
        before: list[Lattice] = []
        for lattice in sorted(group):
            before = [earlier for earlier in before if lattice.low < earlier.low + earlier.reach()]
            for earlier in before:
                if lattice.is_written or earlier.is_written:
                    compared += 1
                    if compared > most_pairs:
                        raise TooManyPairsError
                    if earlier.meets(lattice):
                        yield earlier, lattice
            before.append(lattice)


def _divide(group: list[Lattice]) -> list[list[Lattice]]:
    """Divide a set into sets that share no bytes, by bounds or by one of the largest steps; return it if impossible."""
    steps = sorted({step for access in group for step, _ in access.dimensions}, reverse=True)
    divisions = (_divide_by(group, min_step) for min_step in (math.inf, *steps[:MAX_STEPS_TRIED]))
    return next((parts for parts in divisions if len(parts) > 1), [group])


def _divide_by(group: list[Lattice], min_step: float) -> list[list[Lattice]]:
    """Divide a set modulo the greatest common divisor of all steps of at least `min_step`; by bounds without any."""
    outer = [sum(step >= min_step for step, _ in access.dimensions) for access in group]
    period = math.gcd(*(step for access, k in zip(group, outer, strict=True) for step, _ in access.dimensions[:k]))
    period = period or ADDRESSES
    # Addresses modulo the period count from the first; intervals that cross the end continue at 0.
    origin = min(group).low
    intervals = []
    for lattice, k in zip(group, outer, strict=True):
        start, reach = (lattice.low - origin) % period, lattice.reach(k)
        if reach >= period:
            return [group]
        intervals.append((start, min(start + reach, period), lattice))
        if start + reach > period:
            intervals.append((0, start + reach - period, lattice))
    return _connected_sets(intervals)


def _connected_sets(intervals: list[tuple[int, int, Lattice]]) -> list[list[Lattice]]:
    """Return the sets of lattices whose intervals are connected; a lattice with two intervals connects their sets."""
    intervals.sort(key=lambda interval: interval[:2])
    sets: list[dict[int, Lattice]] = []
    reach = -1
    for start, end, lattice in intervals:
        if start >= reach:
            sets.append({})
        sets[-1][id(lattice)] = lattice
        reach = max(reach, end)
    for last in range(len(sets) - 1, 0, -1):
        # Intervals that crossed the end begin at 0, in the first set.
        if sets[last].keys() & sets[0].keys():
            sets[0] |= sets.pop(last)
    return [list(members.values()) for members in sets]
