"""Bounds of a result's chunks, which follow the chunks of its inputs, within a limit on their number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from anydml.stores.formats.store import Array, Numbers

MAX_GROWTH = 8
"""Maximum number of chunks, as a multiple of the number that chunks of the inputs' sizes would give."""

NO_WIDTH = np.iinfo(np.int64).max
"""Width where no input is read."""

Bounds = tuple[int, ...]
"""Start of each chunk along an axis, followed by the size of the axis."""


class Section(NamedTuple):
    """The cuts that suit a part of a result along an axis.

    Attributes:
        start: the first coordinate.
        stop: the coordinate after the last.
        width: the coordinates of a chunk as large as the input's largest; 0 if there is no input.
        cuts: the coordinates at which another chunk of the input is read.
    """

    start: int
    stop: int
    width: int
    cuts: Sequence[int] | Numbers


class AxisBounds(NamedTuple):
    """Two ways to cut an axis.

    Attributes:
        chosen: the bounds at the sections' cuts, if these make at most twice as many chunks as the widths alone.
        even: the bounds by the widths alone.
    """

    chosen: Bounds
    even: Bounds

    @property
    def growth(self) -> float:
        """The number of chunks, as a multiple of the number that the widths would give."""
        return (len(self.chosen) - 1) / max(1, len(self.even) - 1)

    @classmethod
    def of(cls, size: int, sections: Sequence[Section]) -> AxisBounds:
        """Return the cuts of an axis that consists of sections, which may overlap."""
        if not size:
            return cls((0,), (0,))
        ends = [(0, size), *((section.start, section.stop) for section in sections)]
        cuts = _merged_runs([np.array(ends).reshape(-1), *(section.cuts for section in sections)])
        cuts = cuts[(cuts >= 0) & (cuts <= size)]
        widths = _widths(cuts, sections)
        max_widths = MAX_GROWTH * widths
        wide = np.flatnonzero(np.diff(cuts) > max_widths).tolist()
        cuts = _merged_runs([cuts, *(np.arange(cuts[k], cuts[k + 1], max_widths[k]) for k in wide)])
        widths = _widths(cuts, sections)
        changes = [0, *(np.flatnonzero(np.diff(widths)) + 1).tolist(), widths.size]
        even = [at for a, b in itertools.pairwise(changes) for at in range(cuts[a], cuts[b], widths[a])]
        chosen, (low, high, width) = cuts, _widest_run(cuts, widths)
        # A result whose chunks are all narrower than the inputs' would make the next result's chunks narrower still.
        if cuts.size - 1 > 2 * len(even) or np.diff(cuts).max() < width:
            chosen = _merge(cuts, widths)
            if np.diff(chosen).max() < width:
                outside = chosen[(chosen < low) | (chosen > high)]
                chosen = _merged_runs([outside, [*range(low, high, width), high]])
        return cls(tuple(chosen.tolist()), (*even, size))


def _merged_runs(runs: Sequence[Sequence[int] | Numbers]) -> Numbers:
    """Return the sorted union of the runs; in linear time if they are sorted and few."""
    cuts: Numbers = np.sort(np.concatenate([np.asarray(run, np.int64) for run in runs]), kind="stable")
    is_new: Array = np.diff(cuts, prepend=cuts[:1] - 1) != 0
    return cuts[is_new]


def _widths(cuts: Numbers, sections: Sequence[Section]) -> Numbers:
    """Return the smallest width of the sections between adjacent cuts; without sections, the width before."""
    widths = np.full(cuts.size - 1, NO_WIDTH, np.int64)
    for section in sections:
        if section.width:
            first, last = np.searchsorted(cuts, (section.start, section.stop))
            widths[first:last] = np.minimum(widths[first:last], section.width)
    with_width = np.flatnonzero(widths != NO_WIDTH)
    if not with_width.size:
        return np.full_like(widths, cuts[-1])
    return widths[with_width[np.maximum(0, np.searchsorted(with_width, np.arange(widths.size), "right") - 1)]]


def _widest_run(cuts: Numbers, widths: Numbers) -> tuple[int, int, int]:
    """Return start and stop of the run of coordinates that has room for the widest chunk, and that chunk's width."""
    best = (0, 0, 0)
    for width in _merged_runs([widths]).tolist():
        is_wide = np.concatenate([[False], widths >= width, [False]])
        edges = np.flatnonzero(is_wide[1:] != is_wide[:-1])
        for low, high in zip(cuts[edges[::2]].tolist(), cuts[edges[1::2]].tolist(), strict=True):
            best = max(best, (low, high, min(width, high - low)), key=lambda run: run[2])
    return best


def _merge(cuts: Numbers, widths: Numbers) -> Numbers:
    """Return the cuts that remain if adjacent chunks are merged up to the widths of their sections."""
    remaining, k = [0], 0
    while k < widths.size:
        width, end = int(widths[k]), widths.size
        while (fitting := int(np.searchsorted(cuts, cuts[k] + width, "right")) - 1) < end:
            end = max(k + 1, fitting)
            width = min(width, int(np.min(widths[k:end])))
            if end == k + 1:
                break
        if end - k > 1:
            # The last widths may be much narrower than those before them.
            room = MAX_GROWTH * int(np.min(widths[k:end]))
            end = min(end, max(k + 1, int(np.searchsorted(cuts, cuts[k] + room, "right")) - 1))
        k = end
        remaining.append(k)
    return cuts[remaining]


def bounds_of(axes: Sequence[AxisBounds]) -> list[Bounds]:
    """Return the cuts of all axes; if there are too many chunks, those with most chunks are cut evenly."""
    chosen = [axis.chosen for axis in axes]
    growth = math.prod(axis.growth for axis in axes)
    for axis_number in sorted(range(len(axes)), key=lambda k: -axes[k].growth):
        if growth <= MAX_GROWTH:
            break
        chosen[axis_number] = axes[axis_number].even
        growth /= axes[axis_number].growth
    return chosen
