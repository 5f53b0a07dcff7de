"""Which of many arrays share a byte of memory: exact, and fast where thousands of them are parts of one array.

Packed arrays are compared in the order of their addresses, and mostly that is all. Arrays whose bounds lie apart share
nothing. Columns of one array have bounds that mesh; but seen modulo the step from row to row, each is a short interval,
and intervals that lie apart share nothing either. So a set of arrays is cut into ever smaller ones, by bounds and by
such steps in turn; only what cannot be told apart so is compared in pairs.
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
"""Pairs that are compared at once, because to cut a set into smaller ones would take longer; steps that are tried."""


class _Lattice(NamedTuple):
    """The bytes of an array: runs of `run` bytes from `low` on, at every step of `dimensions`.

    Attributes:
        low: address of the first byte.
        run: bytes that lie side by side.
        dimensions: ``(step, size)`` of what is left, steps above 0, the largest first.
        number: which array it is.
    """

    low: int
    run: int
    dimensions: tuple[tuple[int, int], ...]
    number: int


def overlapping_pair(arrays: Sequence[Array], first_output: int) -> tuple[int, int] | None:
    """The numbers of an output and of another array that share a byte, the smaller first; None if no two do.

    Exact, but for strides too hard to decide: those count as sharing.

    Args:
        arrays: inputs, then outputs.
        first_output: number of inputs, which may share what they like with each other.
    """
    if _are_packed_apart(arrays, first_output):
        return None
    pending = [[_lattice(array, number) for number, array in enumerate(arrays) if array.nbytes]]
    while pending:
        group = pending.pop()
        outputs = [each for each in group if each.number >= first_output]
        if len(outputs) * len(group) > FEW_PAIRS:
            parts = _cut(group)
            if len(parts) > 1:
                # What was cut by one step may now be cut by every other again.
                pending += parts
                continue
        for one in outputs:
            for other in group:
                is_pair = other.number < one.number and _meet(one, other)
                if is_pair and shares_memory(arrays[one.number], arrays[other.number]):
                    return other.number, one.number
    return None


def _are_packed_apart(arrays: Sequence[Array], first_output: int) -> bool:
    """Whether all arrays are packed, and no output shares a byte with another array."""
    spans: list[tuple[int, int, bool]] = []
    for number, array in enumerate(arrays):
        if not array.flags.c_contiguous:
            return False
        if size := array.nbytes:
            low = address_of(array)
            spans.append((low, low + size, number >= first_output))
    spans.sort()
    reach = reach_of_outputs = 0
    for low, high, is_output in spans:
        if low < (reach if is_output else reach_of_outputs):
            return False
        reach = max(reach, high)
        if is_output:
            reach_of_outputs = max(reach_of_outputs, high)
    return True


def _lattice(array: Array, number: int) -> _Lattice:
    low, run, dimensions = address_of(array), array.itemsize, []
    for stride, size in sorted(zip(map(abs, array.strides), array.shape, strict=True)):
        if size == 1 or not stride:
            continue
        if stride <= run:
            # Every byte up to the last run's end is touched.
            run += (size - 1) * stride
        else:
            dimensions.append((stride, size))
    low += sum((size - 1) * stride for stride, size in zip(array.strides, array.shape, strict=True) if stride < 0)
    return _Lattice(low, run, tuple(reversed(dimensions)), number)


def _cut(group: list[_Lattice]) -> list[list[_Lattice]]:
    """Sets that share nothing with each other, by bounds or by one of the largest steps; one set where none tells."""
    parts = _apart([(each.low, each.low + _reach(each, 0), each) for each in group])
    steps = sorted({step for each in group for step, _ in each.dimensions}, reverse=True)
    for step in steps[:STEPS]:
        if len(parts) > 1:
            break
        parts = _cut_by(group, step)
    return parts


def _cut_by(group: list[_Lattice], least: int) -> list[list[_Lattice]]:
    """The same by what all steps of at least `least` are multiples of."""
    outer = [sum(step >= least for step, _ in each.dimensions) for each in group]
    period = math.gcd(*(step for each, k in zip(group, outer, strict=True) for step, _ in each.dimensions[:k]))
    # The circle is cut open where one array begins; what reaches over that point goes on at 0.
    origin = group[0].low
    intervals = []
    for each, k in zip(group, outer, strict=True):
        start, reach = (each.low - origin) % period, _reach(each, k)
        if reach >= period:
            return [group]
        intervals.append((start, min(start + reach, period), each))
        if start + reach > period:
            intervals.append((0, start + reach - period, each))
    return _apart(intervals)


def _reach(each: _Lattice, first: int) -> int:
    """Bytes from the first to the last that the dimensions from `first` on touch."""
    return each.run + sum((size - 1) * step for step, size in each.dimensions[first:])


def _apart(intervals: list[tuple[int, int, _Lattice]]) -> list[list[_Lattice]]:
    """The sets of lattices whose intervals hang together; a lattice with two intervals joins their sets."""
    intervals.sort(key=lambda interval: interval[:2])
    sets: list[dict[int, _Lattice]] = []
    reach = -1
    for start, end, each in intervals:
        if start >= reach:
            sets.append({})
        sets[-1][each.number] = each
        reach = max(reach, end)
    for last in range(len(sets) - 1, 0, -1):
        # Intervals that went round begin at 0, in the first set.
        if sets[last].keys() & sets[0].keys():
            sets[0] |= sets.pop(last)
    return [list(each.values()) for each in sets]


def _meet(one: _Lattice, other: _Lattice) -> bool:
    """Whether the bounds of two arrays overlap."""
    return one.low < other.low + _reach(other, 0) and other.low < one.low + _reach(one, 0)
