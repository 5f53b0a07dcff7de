"""Moves to many outputs, as few moves where they are evenly spaced."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from anydml.moves import Access, Fill, Move
from anydml.stores.formats.store import Numbers
from anydml.stores.planning.intervals import Places
from anydml.stores.planning.transfers import coordinate_offsets
from anydml.stores.planning.writers import Writers

FEW_RUNS = 32
"""Maximum average number of runs per part up to which moves that read a file become rows: these take no more memory
than the moves, and less time."""


GroupAndFile = tuple[int, int]
"""Numbers of a group of outputs and of the file that it is read from; −1 for no file."""


Runs = tuple[Numbers, ...]
"""Numbers of the group and the file that is read, offsets in both files, and bytes, of copies."""


class SpacedMoves(NamedTuple):
    """A move to each of some outputs, sorted by group, file and offset.

    Attributes:
        move: the move, with offsets of 0.
        group: numbers of the groups.
        file: numbers of the files that are read; −1 for constants.
        to: offsets in the file that is written.
        from_: offsets in the file that is read, or in a constant.
        parts: runs of evenly spaced outputs, which one move writes: the first output and their number.
    """

    move: Move
    group: Numbers
    file: Numbers
    to: Numbers
    from_: Numbers
    parts: list[tuple[int, int]]

    @property
    def has_few_runs(self) -> bool:
        """Whether each move reads a file by few runs."""
        return bool(self.file[0] >= 0) and self.to.size * math.prod(self.move.sizes) <= FEW_RUNS * len(self.parts)

    def runs(self) -> Runs:
        """Return these moves as copies of runs."""
        sizes, end, source, length = self.move.sizes, self.move.destination, self.move.reads, self.move.element_size
        to, from_ = coordinate_offsets(0, sizes, end.strides), coordinate_offsets(0, sizes, source.strides)
        group, file = (np.repeat(column, to.size) for column in (self.group, self.file))
        places = ((column[:, None] + steps).reshape(-1) for column, steps in ((self.to, to), (self.from_, from_)))
        return group, file, *places, np.full(group.size, length)

    def moves(self) -> Iterator[tuple[GroupAndFile, Move]]:
        """Yield moves with offsets in files."""
        sizes, end, source, length = self.move
        for k, turns, count in self._repeat():
            steps = [int(offsets[k + count] - offsets[k]) if turns > 1 else 0 for offsets in (self.to, self.from_)]
            within = [int(offsets[k + 1] - offsets[k]) if count > 1 else 0 for offsets in (self.to, self.from_)]
            written = end._replace(offset=int(self.to[k]), strides=(steps[0], within[0], *end.strides))
            read = (
                source
                if isinstance(source, Fill)
                else source._replace(offset=int(self.from_[k]), strides=(steps[1], within[1], *source.strides))
            )
            yield (int(self.group[k]), int(self.file[k])), Move((turns, count, *sizes), written, read, length)

    def _repeat(self) -> Iterator[tuple[int, int, int]]:
        """Yield evenly spaced parts of one size: the first output, the number of parts, the outputs per part."""
        firsts, counts = np.array(self.parts, np.int64).reshape(-1, 2).T
        ends = np.stack([self.to, self.from_, self.group, self.file], 1).astype(np.int64)
        steps, within = (
            np.diff(ends[firsts], axis=0),
            ends[np.minimum(firsts + 1, firsts + counts - 1)] - ends[firsts],
        )
        # Parts may alternate, as the gates and ups of experts do.
        is_same_as_previous = (
            (counts[1:] == counts[:-1]) & (within[1:] == within[:-1]).all(1) & (steps[:, 2:] == 0).all(1)
        )
        goes_on = np.concatenate(
            [[False], is_same_as_previous[1:] & is_same_as_previous[:-1] & (steps[1:] == steps[:-1]).all(1)]
        )
        k = 0
        while k < firsts.size:
            turns = 1
            if k < is_same_as_previous.size and is_same_as_previous[k]:
                turns = 2
                while k + turns < firsts.size and goes_on[k + turns - 1]:
                    turns += 1
            yield int(firsts[k]), turns, int(counts[k])
            k += turns


def spaced_moves(
    writers: Iterable[Writers],
    places: Places,
    group_of: Callable[[Numbers], Numbers],
    file_of: Callable[[Numbers], Numbers],
) -> Iterator[SpacedMoves]:
    """Yield the moves to outputs, also of runs, with the numbers of the groups and files of outputs and inputs."""
    for move_writers in writers:
        sets = move_writers.sets
        for move in move_writers.all_moves:
            end, source = move.destination, move.source
            is_read = isinstance(source, Access) and source.operand < sets.shape[1]
            output, store = sets[:, end.operand], sets[:, move.reads.operand if is_read else end.operand]
            group, to = group_of(output), places.offset[output] + end.offset
            file, from_ = np.full(store.size, -1), np.zeros_like(to)
            if is_read:
                file, from_ = file_of(store), places.offset[store] + move.reads.offset
            elif isinstance(source, Access):
                # Constants follow all arrays.
                from_ += source.offset
                source = source._replace(operand=source.operand - sets.shape[1] + places.arrays)
            order = np.lexsort((to, file, group))
            group, file, to, from_ = (column[order] for column in (group, file, to, from_))
            parts = [*_evenly_spaced_runs(group, file, to, from_)]
            yield SpacedMoves(move._replace(source=source), group, file, to, from_, parts)


def _evenly_spaced_runs(group: Numbers, file: Numbers, to: Numbers, from_: Numbers) -> Iterator[tuple[int, int]]:
    """Yield runs of evenly spaced pairs of offsets of one group and file: the first, and the number of each."""
    are_close = (np.diff(group) == 0) & (np.diff(file) == 0)
    goes_on = are_close[1:] & are_close[:-1] & (np.diff(to, 2) == 0) & (np.diff(from_, 2) == 0)
    stops = iter([*(np.flatnonzero(~goes_on) + 1).tolist(), to.size - 1])
    first, stop = 0, 0
    while first < to.size:
        last = first
        if first + 1 < to.size and are_close[first]:
            while stop <= first:
                stop = next(stops)
            last = stop
        yield first, last - first + 1
        first = last + 1
