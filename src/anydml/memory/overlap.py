"""A test whether arrays share memory: exact, and fast even for thousands of arrays that are parts of one array.

Arrays whose bounds are disjoint share nothing. The bounds of columns of one array do overlap; but modulo the step
between rows, each column is a short interval, and columns whose intervals are disjoint share nothing either. So a set
of arrays is divided again and again, by bounds and by such steps; only arrays that cannot be separated in this way are
compared in pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.memory.host import address_of
from anydml.strides import shares_memory

Array = np.ndarray[Any, Any]

FEW_PAIRS = 32
STEPS = 64
"""Number of pairs up to which comparing is faster than dividing the set; number of steps that are tried."""


class _Lattice(NamedTuple):
    """The bytes of an array: runs of `run` bytes from `low` on, at every step of `dimensions`.

    Attributes:
        low: address of the first byte.
        run: number of contiguous bytes.
        dimensions: ``(step, size)`` of the other dimensions; steps are positive, the largest first.
        number: the array's number.
    """

    low: int
    run: int
    dimensions: tuple[tuple[int, int], ...]
    number: int


def overlapping_pair(arrays: Sequence[Array], first_output: int) -> tuple[int, int] | None:
    """Return the numbers of an output and another array that share a byte, the smaller first, or None.

    Exact, except for strides that are too hard to decide: those count as sharing.

    Args:
        arrays: inputs, then outputs.
        first_output: the number of inputs, which may share memory with each other.
    """
    pending = [[_lattice(array, number) for number, array in enumerate(arrays) if array.nbytes]]
    while pending:
        group = pending.pop()
        outputs = [each for each in group if each.number >= first_output]
        if len(outputs) * len(group) > FEW_PAIRS:
            parts = _divide(group)
            if len(parts) > 1:
                # A part may be divisible by a step that could not divide the whole.
                pending += parts
                continue
        for one in outputs:
            for other in group:
                is_pair = other.number < one.number and _meet(one, other)
                if is_pair and shares_memory(arrays[one.number], arrays[other.number]):
                    return other.number, one.number
    return None


def _lattice(array: Array, number: int) -> _Lattice:
    low, run, dimensions = address_of(array), array.itemsize, []
    for stride, size in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if size == 1 or not stride:
            continue
        if stride <= run:
            # The runs leave no gaps.
            run += (size - 1) * stride
        else:
            dimensions.append((stride, size))
    low += sum((size - 1) * stride for stride, size in zip(array.strides, array.shape, strict=True) if stride < 0)
    return _Lattice(low, run, tuple(reversed(dimensions)), number)


def _divide(group: list[_Lattice]) -> list[list[_Lattice]]:
    """Divide a set by bounds or by one of the largest steps, into sets that share nothing; one set if impossible."""
    parts = _connected([(each.low, each.low + _reach(each, 0), each) for each in group])
    steps = sorted({step for each in group for step, _ in each.dimensions}, reverse=True)
    for step in steps[:STEPS]:
        if len(parts) > 1:
            break
        parts = _divide_by(group, step)
    return parts


def _divide_by(group: list[_Lattice], least: int) -> list[list[_Lattice]]:
    """Divide a set modulo the greatest common divisor of all steps of at least `least`."""
    outer = [sum(step >= least for step, _ in each.dimensions) for each in group]
    period = math.gcd(*(step for each, k in zip(group, outer, strict=True) for step, _ in each.dimensions[:k]))
    # Addresses modulo the period count from one array; intervals that cross the end continue at 0.
    origin = group[0].low
    intervals = []
    for each, k in zip(group, outer, strict=True):
        start, reach = (each.low - origin) % period, _reach(each, k)
        if reach >= period:
            return [group]
        intervals.append((start, min(start + reach, period), each))
        if start + reach > period:
            intervals.append((0, start + reach - period, each))
    return _connected(intervals)


def _reach(each: _Lattice, first: int) -> int:
    """Return the bytes that the dimensions from `first` on span."""
    return each.run + sum((size - 1) * step for step, size in each.dimensions[first:])


def _connected(intervals: list[tuple[int, int, _Lattice]]) -> list[list[_Lattice]]:
    """Return the sets of lattices whose intervals are connected; a lattice with two intervals connects their sets."""
    intervals.sort(key=lambda interval: interval[:2])
    sets: list[dict[int, _Lattice]] = []
    reach = -1
    for start, end, each in intervals:
        if start >= reach:
            sets.append({})
        sets[-1][each.number] = each
        reach = max(reach, end)
    for last in range(len(sets) - 1, 0, -1):
        # Intervals that crossed the end begin at 0, in the first set.
        if sets[last].keys() & sets[0].keys():
            sets[0] |= sets.pop(last)
    return [list(each.values()) for each in sets]


def _meet(one: _Lattice, other: _Lattice) -> bool:
    """Whether the bounds of two arrays overlap."""
    return one.low < other.low + _reach(other, 0) and other.low < one.low + _reach(one, 0)
