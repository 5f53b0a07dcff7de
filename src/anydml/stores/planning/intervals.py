"""Intervals: the bytes of files that the operands of a plan are. Adjacent arrays that are copied share one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.moves import Fill
from anydml.stores.formats.store import Store
from anydml.stores.formats.target import Target
from anydml.stores.planning.alike import AlikeMoves
from anydml.stores.planning.copies import RunCopies

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Interval(NamedTuple):
    """Bytes of a file.

    Attributes:
        path: the file.
        offset: bytes from its beginning to the first.
        size: bytes.
        unit: bytes of an element.
        outputs: numbers of the outputs that lie in it, in file order; none for inputs.
    """

    path: Path
    offset: int
    size: int
    unit: int
    outputs: tuple[int, ...] = ()


class Places(NamedTuple):
    """Where arrays lie, one number per array in each column, inputs first.

    Attributes:
        paths: of all files.
        file: number of the path.
        offset: bytes from the start of the file.
        size: bytes.
        unit: bytes of an element.
        inputs: number of inputs.
    """

    paths: list[Path]
    file: Numbers
    offset: Numbers
    size: Numbers
    unit: Numbers
    inputs: int

    @classmethod
    def of(cls, inputs: Sequence[Store], outputs: Sequence[Target]) -> Places:
        """The places of arrays."""
        every: list[Any] = [*inputs, *outputs]
        paths = [*map(attrgetter("path"), every)]
        # By id, because hashing a path is slow.
        distinct = {id(path): path for path in paths}
        files = {path: k for k, path in enumerate(dict.fromkeys(distinct.values()))}
        numbers = {number: files[path] for number, path in distinct.items()}
        columns = ("offset", "nbytes", "dtype.itemsize")
        offset, size, unit = (np.array([*map(attrgetter(each), every)], np.int64) for each in columns)
        file = np.array([numbers[id(path)] for path in paths], np.int64)
        return cls([*files], file, offset, size, unit, len(inputs))

    def interval(self, *arrays: int) -> Interval:
        """The interval of arrays that are adjacent in a file."""
        first, outputs = arrays[0], tuple(k - self.inputs for k in arrays if k >= self.inputs)
        size = int(self.size[[*arrays]].sum())
        return Interval(self.paths[self.file[first]], int(self.offset[first]), size, int(self.unit[first]), outputs)


def joined(
    alike: Iterable[AlikeMoves], taken: Iterable[int], places: Places, first: int
) -> tuple[set[int], list[RunCopies], dict[int, Interval]]:
    """Outputs that consist of runs of inputs, as rows; outputs that are adjacent in a file share an interval.

    Args:
        alike: all moves, simplified, without lookups.
        taken: numbers of outputs that other moves write as well.
        places: of all arrays.
        first: number of the first new operand.

    Returns:
        The other outputs, the rows, and the new intervals by number.
    """
    kept, runs = {*taken}, list[tuple[int, ...]]()
    for moves, sets in alike:
        for move in moves:
            end, source = move.destination, move.source
            if move.sizes or isinstance(source, Fill) or not _is_input(source.operand, sets[0], places.inputs):
                kept.update(own[end.operand] for own in sets)
            else:
                run = source.offset, move.element_size
                runs += [(own[end.operand], end.offset, own[source.operand], *run) for own in sets]
    table = np.array(runs, np.int64).reshape(-1, 5)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    kept |= _incomplete(table, places.size)
    table = table[~np.isin(table[:, 0], [*kept])]
    groups = _groups(np.unique(table[:, 0]), places)
    added = {first + k: places.interval(*own.tolist()) for k, own in enumerate(groups)}
    group_of = np.zeros(places.size.size, np.int64)
    for k, own in enumerate(groups):
        group_of[own] = k
    group, file = group_of[table[:, 0]], places.file[table[:, 2]]
    to_file, at_file = table[:, 1] + places.offset[table[:, 0]], table[:, 3] + places.offset[table[:, 2]]
    order = np.lexsort((to_file, file, group))
    begins = np.flatnonzero((np.diff(group[order], prepend=-1) != 0) | (np.diff(file[order], prepend=-1) != 0))
    rows = list[RunCopies]()
    for some in np.split(order, begins)[1:]:
        destination, number = first + int(group[some[0]]), first + len(added)
        to, at, lengths = _continued(to_file[some], at_file[some], table[some, 4])
        low, high = int(at.min()), int((at + lengths).max())
        target = added[destination]
        added[number] = Interval(places.paths[file[some[0]]], low, high - low, target.unit)
        rows.append(RunCopies(destination, number, to - target.offset, at - low, lengths))
    return kept, rows, added


def _is_input(operand: int, numbers: Sequence[int], inputs: int) -> bool:
    """Whether an operand of alike moves is an input; constants have no number in a set."""
    return operand < len(numbers) and numbers[operand] < inputs


def _incomplete(table: Numbers, sizes: Numbers) -> set[int]:
    """Operands of which sorted runs do not write every byte exactly once."""
    written = np.zeros_like(sizes)
    np.add.at(written, table[:, 0], table[:, 4])
    overlap = (table[1:, 0] == table[:-1, 0]) & (table[1:, 1] < table[:-1, 1] + table[:-1, 4])
    return {*np.flatnonzero((written != sizes) & (written > 0)).tolist(), *table[1:][overlap, 0].tolist()}


def _groups(operands: Numbers, places: Places) -> list[Numbers]:
    """Groups of operands that are adjacent in a file and have elements of one size."""
    order = operands[np.lexsort((places.offset[operands], places.file[operands]))]
    file, offset, size, unit = (each[order] for each in places[1:5])
    goes_on = (file[1:] == file[:-1]) & (offset[1:] == (offset + size)[:-1]) & (unit[1:] == unit[:-1])
    return np.split(order, np.flatnonzero(~goes_on) + 1) if order.size else []


def _continued(to: Numbers, at: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Copies in order; copies that are contiguous at both ends are merged."""
    goes_on = (to[1:] == (to + lengths)[:-1]) & (at[1:] == (at + lengths)[:-1])
    firsts = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    return to[firsts], at[firsts], np.add.reduceat(lengths, firsts)
