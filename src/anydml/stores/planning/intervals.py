"""Intervals: the bytes of files that the operands of a plan are. Adjacent arrays that are copied share one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.moves import Fill, Move
from anydml.stores.formats.store import Store
from anydml.stores.formats.target import Target
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


def intervals_of(inputs: Sequence[Store], outputs: Sequence[Target]) -> list[Interval]:
    """One interval per array, inputs first."""
    read = [Interval(each.path, each.offset, each.nbytes, each.dtype.itemsize) for each in inputs]
    written = [
        Interval(each.file.path, each.offset, each.nbytes, each.dtype.itemsize, (k,)) for k, each in enumerate(outputs)
    ]
    return read + written


def joined(
    moves: Sequence[Move], taken: Iterable[int], arrays: Sequence[Interval], inputs: int, first: int
) -> tuple[list[Move], list[RunCopies], dict[int, Interval]]:
    """Outputs that consist of runs of inputs, as rows; outputs that are adjacent in a file share an interval.

    Args:
        moves: simplified, without lookups.
        taken: numbers of outputs that other moves write as well.
        arrays: as `intervals_of` returns them.
        inputs: number of inputs among them.
        first: number of the first new operand.

    Returns:
        The other moves, the rows, and the new intervals by number.
    """
    kept, runs = {*taken}, list[tuple[int, ...]]()
    for move in moves:
        end, source = move.destination, move.source
        if move.sizes or isinstance(source, Fill) or source.operand >= inputs:
            kept.add(end.operand)
        else:
            runs.append((end.operand, end.offset, source.operand, source.offset, move.element_size))
    table = np.array(runs, np.int64).reshape(-1, 5)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    kept |= _incomplete(table, arrays)
    table = table[~np.isin(table[:, 0], [*kept])]
    groups = _groups(np.unique(table[:, 0]).tolist(), arrays)
    added = {first + k: _union([arrays[operand] for operand in own]) for k, own in enumerate(groups)}
    group_of = np.zeros(len(arrays), np.int64)
    for k, own in enumerate(groups):
        group_of[own] = k
    offsets = np.array([each.offset for each in arrays], np.int64)
    files = {path: k for k, path in enumerate({each.path: None for each in arrays})}
    group = group_of[table[:, 0]]
    file = np.array([files[each.path] for each in arrays], np.int64)[table[:, 2]]
    to_file, at_file = table[:, 1] + offsets[table[:, 0]], table[:, 3] + offsets[table[:, 2]]
    order = np.lexsort((to_file, file, group))
    begins = np.flatnonzero((np.diff(group[order], prepend=-1) != 0) | (np.diff(file[order], prepend=-1) != 0))
    rows, paths = list[RunCopies](), [*files]
    for some in np.split(order, begins)[1:]:
        destination, number = first + int(group[some[0]]), first + len(added)
        to, at, lengths = _continued(to_file[some], at_file[some], table[some, 4])
        low, high = int(at.min()), int((at + lengths).max())
        target = added[destination]
        added[number] = Interval(paths[file[some[0]]], low, high - low, target.unit)
        rows.append(RunCopies(destination, number, to - target.offset, at - low, lengths))
    return [move for move in moves if move.destination.operand in kept], rows, added


def _union(every: Sequence[Interval]) -> Interval:
    """Adjacent intervals as one."""
    last = every[-1]
    outputs = tuple(k for each in every for k in each.outputs)
    return every[0]._replace(size=last.offset + last.size - every[0].offset, outputs=outputs)


def _incomplete(table: Numbers, arrays: Sequence[Interval]) -> set[int]:
    """Operands of which sorted runs do not write every byte exactly once."""
    sizes = np.array([each.size for each in arrays], np.int64)
    written = np.zeros_like(sizes)
    np.add.at(written, table[:, 0], table[:, 4])
    overlap = (table[1:, 0] == table[:-1, 0]) & (table[1:, 1] < table[:-1, 1] + table[:-1, 4])
    return {*np.flatnonzero((written != sizes) & (written > 0)).tolist(), *table[1:][overlap, 0].tolist()}


def _groups(operands: Iterable[int], arrays: Sequence[Interval]) -> list[list[int]]:
    """Groups of operands that are adjacent in a file and have elements of one size."""
    groups: list[list[int]] = []
    last: Interval | None = None
    for operand in sorted(operands, key=lambda k: (arrays[k].path, arrays[k].offset)):
        each = arrays[operand]
        if last and (last.path, last.offset + last.size, last.unit) == (each.path, each.offset, each.unit):
            groups[-1].append(operand)
        else:
            groups.append([operand])
        last = each
    return groups


def _continued(to: Numbers, at: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Copies in order; copies that are contiguous at both ends are merged."""
    goes_on = (to[1:] == (to + lengths)[:-1]) & (at[1:] == (at + lengths)[:-1])
    firsts = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    return to[firsts], at[firsts], np.add.reduceat(lengths, firsts)
