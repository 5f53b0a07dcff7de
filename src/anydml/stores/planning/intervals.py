"""Intervals: the bytes of files that the operands of a plan are. Adjacent arrays that are copied share one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.moves import Access, Fill, Move, extent, simplify
from anydml.stores.formats.packed import Packed
from anydml.stores.formats.store import Array, Numbers, Store
from anydml.stores.formats.targets import Targets
from anydml.stores.planning.alike import AlikeMoves
from anydml.stores.planning.copies import RunCopies


class Cast(NamedTuple):
    """Elements of a file that are changed when they are read, as if they lay one after the other in a file.

    Attributes:
        path: the file.
        stored: dtype in the file, as of `Store`.
        dtype: that elements get.
        start: offset of the first of them, which is less than an element, or of what is packed.
        packed: as of `Store`.
    """

    path: Path
    stored: np.dtype[Any]
    dtype: np.dtype[Any]
    start: int
    packed: Packed | None

    @classmethod
    def of(cls, store: Store) -> Cast:
        """That of a store; stores of a file whose elements lie at multiples of one size have one in common."""
        stored = store.dtype if store.stored is None else store.stored
        start = store.offset % stored.itemsize if store.packed is None else store.offset
        return cls(store.path, stored, store.dtype, start, store.packed)

    def place(self, offset: int) -> int:
        """The offset among the bytes that are made, of an offset in the file."""
        return (offset - self.start) // self.stored.itemsize * self.dtype.itemsize


class Interval(NamedTuple):
    """Bytes of a file.

    Attributes:
        path: the file.
        offset: bytes from its beginning to the first.
        size: bytes.
        unit: bytes of an element.
        output: number of the first output that lies in it; None for inputs.
        cast: how elements are changed when they are read; bytes are then those that this makes.
    """

    path: Path
    offset: int
    size: int
    unit: int
    output: int | None = None
    cast: Cast | None = None

    def in_file(self, size: int) -> int:
        """The bytes in the file of a number of bytes."""
        return size if self.cast is None else size // self.cast.dtype.itemsize * self.cast.stored.itemsize


class Places(NamedTuple):
    """Where arrays lie, one number per array in each column, inputs first.

    Attributes:
        files: paths of all files, and casts, each of which counts as a file.
        file: number of the file.
        offset: bytes from the start of the file.
        size: bytes.
        unit: bytes of an element.
        inputs: number of inputs.
        between: bounds of the known bytes beside arrays, in order, by the numbers of files that have any.
    """

    files: list[Path | Cast]
    file: Numbers
    offset: Numbers
    size: Numbers
    unit: Numbers
    inputs: int
    between: dict[int, Numbers]

    @classmethod
    def of(cls, inputs: Sequence[Store], outputs: Targets) -> Places:
        """The places of arrays."""
        casts = {k: Cast.of(each) for k, each in enumerate(inputs) if each.stored is not None}
        read = [casts.get(k) or each.path for k, each in enumerate(inputs)]
        # By id, because hashing a path is slow.
        distinct = {id(file): file for file in read} | {id(file.path): file.path for file in outputs.files}
        known = {file: k for k, file in enumerate(dict.fromkeys(distinct.values()))}
        numbers = {number: known[file] for number, file in distinct.items()}
        of_outputs = np.array([numbers[id(file.path)] for file in outputs.files], np.int32)
        offset = np.array([each.offset for each in inputs], np.int64)
        offset[[*casts]] = [cast.place(inputs[k].offset) for k, cast in casts.items()]
        unit = np.array([each.dtype.itemsize for each in inputs], np.int64)
        size = np.array([math.prod(each.shape) for each in inputs], np.int64) * unit
        between = {
            numbers[id(each.path)]: np.stack([each.others.offsets, each.others.offsets + each.others.sizes], 1)
            for each in outputs.files
            if each.others
        }
        return cls(
            [*known],
            np.concatenate([np.array([numbers[id(each)] for each in read], np.int32), of_outputs[outputs.file]]),
            np.concatenate([offset, outputs.offset]),
            np.concatenate([size, outputs.size]),
            np.concatenate([unit, outputs.unit]),
            len(inputs),
            between,
        )

    def part(self, file: int, offset: int, size: int, unit: int, output: int | None = None) -> Interval:
        """An interval of a file."""
        found = self.files[file]
        if isinstance(found, Cast):
            return Interval(found.path, offset, size, unit, output, found)
        return Interval(found, offset, size, unit, output)

    def interval(self, first: int, last: int) -> Interval:
        """The interval of the arrays between two of a file, and of what lies between them."""
        size = int(self.offset[last] + self.size[last] - self.offset[first])
        output = first - self.inputs if first >= self.inputs else None
        return self.part(int(self.file[first]), int(self.offset[first]), size, int(self.unit[first]), output)

    def are_filled(self, files: Numbers, starts: Numbers, stops: Numbers) -> Array:
        """Whether all bytes of intervals of files are known ones beside arrays."""
        found: Array = starts == stops
        for number, bounds in self.between.items():
            own = np.flatnonzero((files == number) & ~found)
            first, sizes = bounds[:, 0], bounds[:, 1] - bounds[:, 0]
            before = np.cumsum(sizes) - sizes

            def known_until(at: Numbers) -> Numbers:
                k = np.maximum(np.searchsorted(first, at, "right") - 1, 0)  # noqa: B023  # called before the next turn
                found: Numbers = before[k] + np.clip(at - first[k], 0, sizes[k])  # noqa: B023
                return found

            found[own] = known_until(stops[own]) - known_until(starts[own]) == stops[own] - starts[own]
        return found


class JoinedOutputs(NamedTuple):
    """Outputs that are adjacent in a file, and share an interval.

    Attributes:
        alone: numbers of the other outputs.
        moves: to the shared intervals.
        rows: likewise.
        intervals: by number.
    """

    alone: set[int]
    moves: list[Move]
    rows: list[RunCopies]
    intervals: dict[int, Interval]


def joined(alike: Sequence[AlikeMoves], taken: Iterable[int], places: Places, first: int, most: int) -> JoinedOutputs:
    """Join outputs that consist of runs of inputs, which become rows, and small outputs, with moves for many at once.

    Args:
        alike: all moves, simplified, without lookups.
        taken: numbers of outputs that other moves write as well.
        places: of all arrays.
        first: number of the first new operand.
        most: bytes of a small output.
    """
    count = places.size.size
    are_moved, are_alone, runs = np.zeros(count, bool), np.zeros(count, bool), [np.empty((0, 5), np.int64)]
    are_alone[[*taken]] = True
    for moves, sets in alike:
        for move in moves:
            source, own = move.source, sets[:, move.destination.operand]
            of_set = isinstance(source, Access) and source.operand < sets.shape[1]
            if of_set and sets[0, move.reads.operand] >= places.inputs:
                are_alone[own] = True
            elif move.sizes or not of_set:
                are_moved[own] = True
            else:
                run = move.destination.offset, sets[:, move.reads.operand], move.reads.offset, move.element_size
                runs.append(np.stack(np.broadcast_arrays(own, *run), 1))
    table = np.concatenate(runs)
    table = table[np.lexsort((table[:, 1], table[:, 0]))]
    are_moved[_incomplete(table, places.size)] = True
    are_alone |= are_moved & (places.size > most)
    are_moved &= ~are_alone
    table = table[~(are_alone | are_moved)[table[:, 0]]]
    are_joined = are_moved.copy()
    are_joined[table[:, 0]] = True
    groups = _groups(np.flatnonzero(are_joined), places)
    wholes = [places.interval(int(own[0]), int(own[-1])) for own in groups]
    group_of = np.zeros(count, np.int64)
    for k, own in enumerate(groups):
        group_of[own] = k
    copied, others = [*_rows(table, places, group_of)], [*_moves(alike, are_moved, places, group_of)]
    ends = [(*key, int(at.min()), int((at + lengths).max())) for key, _, at, lengths in copied]
    ends += [(*key, *extent(each.reads, each.sizes, each.element_size)) for key, each in others if key[1] >= 0]
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for group, file, low, high in ends:
        known = spans.get((group, file), (low, high))
        spans[group, file] = min(low, known[0]), max(high, known[1])
    intervals = {first + k: each for k, each in enumerate(wholes)}
    numbers = {key: number for number, key in enumerate(spans, first + len(wholes))}
    for (group, file), (low, high) in spans.items():
        intervals[numbers[group, file]] = places.part(file, low, high - low, wholes[group].unit)
    rows = [
        RunCopies(first + key[0], numbers[key], to - wholes[key[0]].offset, at - spans[key][0], lengths)
        for key, to, at, lengths in copied
    ]
    written = list[Move]()
    for key, move in others:
        end, source = move.destination, move.source
        if key[1] >= 0:
            source = move.reads._replace(operand=numbers[key], offset=move.reads.offset - spans[key][0])
        end = end._replace(operand=first + key[0], offset=end.offset - wholes[key[0]].offset)
        written.append(move._replace(destination=end, source=source))
    return JoinedOutputs({*np.flatnonzero(are_alone).tolist()}, [*simplify(written)], rows, intervals)


GroupAndFile = tuple[int, int]
"""Numbers of a group of outputs and of the file that it is read from; −1 for no file."""


def _rows(
    table: Numbers, places: Places, group_of: Numbers
) -> Iterator[tuple[GroupAndFile, Numbers, Numbers, Numbers]]:
    """Offsets in files, and lengths, of copies between a group and a file."""
    group, file = group_of[table[:, 0]], places.file[table[:, 2]]
    to, at = table[:, 1] + places.offset[table[:, 0]], table[:, 3] + places.offset[table[:, 2]]
    order = np.lexsort((to, file, group))
    begins = np.flatnonzero((np.diff(group[order], prepend=-1) != 0) | (np.diff(file[order], prepend=-1) != 0))
    for some in np.split(order, begins)[1:]:
        yield (int(group[some[0]]), int(file[some[0]])), *_continued(to[some], at[some], table[some, 4])


def _moves(
    alike: Iterable[AlikeMoves], are_moved: Array, places: Places, group_of: Numbers
) -> Iterator[tuple[GroupAndFile, Move]]:
    """Moves to some outputs, with offsets in files; those that are evenly spaced are one."""
    for moves, sets in alike:
        for move in moves:
            end, source = move.destination, move.source
            own = sets[are_moved[sets[:, end.operand]]]
            if not own.size:
                continue
            is_read = isinstance(source, Access) and source.operand < sets.shape[1]
            output, store = own[:, end.operand], own[:, move.reads.operand if is_read else end.operand]
            group, to = group_of[output], places.offset[output] + end.offset
            file, at = np.full(store.size, -1), np.zeros_like(to)
            if is_read:
                file, at = places.file[store], places.offset[store] + move.reads.offset
            elif isinstance(source, Access):
                # Constants follow all arrays.
                at += source.offset
                source = source._replace(operand=source.operand - sets.shape[1] + places.size.size)
            order = np.lexsort((to, file, group))
            group, file, to, at = (each[order] for each in (group, file, to, at))
            for k, count in _even(group, file, to, at):
                step, read_step = (int(each[k + 1] - each[k]) if count > 1 else 0 for each in (to, at))
                written = end._replace(offset=int(to[k]), strides=(step, *end.strides))
                read = (
                    source
                    if isinstance(source, Fill)
                    else source._replace(offset=int(at[k]), strides=(read_step, *source.strides))
                )
                yield (int(group[k]), int(file[k])), Move((count, *move.sizes), written, read, move.element_size)


def _even(group: Numbers, file: Numbers, to: Numbers, at: Numbers) -> Iterator[tuple[int, int]]:
    """Runs of evenly spaced pairs of offsets of one group and file: the first, and the number of each."""
    are_close = (np.diff(group) == 0) & (np.diff(file) == 0)
    goes_on = are_close[1:] & are_close[:-1] & (np.diff(to, 2) == 0) & (np.diff(at, 2) == 0)
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


def _incomplete(table: Numbers, sizes: Numbers) -> Numbers:
    """Operands of which sorted runs do not write every byte exactly once."""
    written = np.zeros_like(sizes)
    np.add.at(written, table[:, 0], table[:, 4])
    overlap = (table[1:, 0] == table[:-1, 0]) & (table[1:, 1] < table[:-1, 1] + table[:-1, 4])
    return np.concatenate([np.flatnonzero((written != sizes) & (written > 0)), table[1:][overlap, 0]])


def _groups(operands: Numbers, places: Places) -> list[Numbers]:
    """Groups of operands that are adjacent in a file, or with known bytes between, and have elements of one size."""
    order = operands[np.lexsort((places.offset[operands], places.file[operands]))]
    file, offset, size, unit = (each[order] for each in places[1:5])
    goes_on = (file[1:] == file[:-1]) & (unit[1:] == unit[:-1])
    goes_on &= places.are_filled(file[1:], (offset + size)[:-1], offset[1:])
    return np.split(order, np.flatnonzero(~goes_on) + 1) if order.size else []


def _continued(to: Numbers, at: Numbers, lengths: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Copies in order; copies that are contiguous at both ends are merged."""
    goes_on = (to[1:] == (to + lengths)[:-1]) & (at[1:] == (at + lengths)[:-1])
    firsts = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    return to[firsts], at[firsts], np.add.reduceat(lengths, firsts)
