"""Regions: which boxes of which arrays a box of a value needs, and the moves from those boxes.

Values over chunked arrays are traced with strides of their own, so far apart that an address tells the coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.engines.common import index_error
from anydml.errors import BindingError
from anydml.moves import Access, Fill, Lookup, Move
from anydml.moves.compose import CONSTANT, INPUT, SCRATCH
from anydml.moves.pieces import Piece, tidy
from anydml.moves.program import Operand, Program
from anydml.moves.value import Value

SPACE = 1 << 70
"""More than any coordinate, or any sum of steps, along an axis."""

MOST_RUNS = 1 << 16
"""Runs of neighbours that a value may pick by indices."""

Box = tuple[tuple[int, int], ...]
"""First coordinate and the one after the last, by axis."""

Indices = Callable[[int], "np.ndarray[Any, Any]"]
"""Gives the elements of an operand with indices, packed."""


class Region(NamedTuple):
    """A box of an input.

    Attributes:
        operand: number of the input.
        box: in its coordinates.
    """

    operand: int
    box: Box

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, by axis."""
        return tuple(high - low for low, high in self.box)


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


class Mapping:
    """A value over inputs with far strides, ready to be cut.

    Args:
        name: what errors call the program.
        value: of an output, without scratch; lookups are made into runs.
        ranks: axes of each input.
        indices: gives the elements of a constant, or of an input that holds indices.

    Raises:
        BindingError: it reads what has to be stored first, or looks up indices by indices.
        IndexError: an index lies outside where that is refused.
    """

    def __init__(self, name: str, value: Value, ranks: Sequence[int], indices: Indices) -> None:
        self.ranks = tuple(ranks)
        pieces: list[Piece] = []
        for piece in value.pieces:
            source = piece.source
            if isinstance(source, Access) and source.operand >= SCRATCH:
                raise BindingError(f"{name}: a step needs its whole input at once: write what comes before it first")
            if isinstance(source, Access) and source.lookups:
                pieces += _runs(name, piece, source, self, indices)
            else:
                pieces.append(piece)
        self.value = Value(value.sizes, value.element_size, tuple(pieces))
        bounds = [
            [
                (first, first + sum((f.size - 1) * f.step for f in piece.factors if f.axis == axis))
                for axis, first in enumerate(piece.start)
            ]
            for piece in pieces
        ]
        self._bounds = np.array(bounds, np.int64).reshape(len(pieces), len(value.sizes), 2)

    def rank(self, operand: int) -> int:
        """Axes of what a source reads; constants are flat."""
        return self.ranks[operand - INPUT] if operand < CONSTANT else 1

    def within(self, box: Box) -> Value:
        """A box of the value."""
        pieces = self.value.pieces
        if len(pieces) > 1 and box:
            low, high = np.array(box, np.int64).T
            near = ((self._bounds[:, :, 0] < high) & (self._bounds[:, :, 1] >= low)).all(1)
            pieces = tuple(pieces[k] for k in np.flatnonzero(near))
        value = Value(self.value.sizes, self.value.element_size, pieces)
        sizes = [high - low for low, high in box]
        return value.slice([low for low, _ in box], sizes, [1] * len(box))

    def regions(self, value: Value) -> list[Region]:
        """What a value reads of inputs: boxes, of which those of one input that lie close are one."""
        found: list[Region] = []
        for piece in value.pieces:
            source = piece.source
            if isinstance(source, Fill) or source.operand >= CONSTANT:
                continue
            region = Region(source.operand - INPUT, self._box(piece, source))
            merged = next((k for k, other in enumerate(found) if _is_close(region, other)), None)
            if merged is None:
                found.append(region)
            else:
                found[merged] = _union(region, found[merged])
        return found

    def _box(self, piece: Piece, source: Access) -> Box:
        rank = self.rank(source.operand)
        low = [*coordinates(source.offset, rank)]
        high = [*low]
        for factor, stride in zip(piece.factors, source.strides, strict=True):
            if stride:
                for axis, step in enumerate(coordinates(stride, rank)):
                    reach = (factor.size - 1) * step
                    if reach < 0:
                        low[axis] += reach
                    else:
                        high[axis] += reach
        return tuple((first, last + 1) for first, last in zip(low, high, strict=True))

    def moves(
        self,
        value: Value,
        strides: Sequence[int],
        regions: Sequence[Region],
        layouts: Sequence[tuple[int, Sequence[int]]],
        target: int,
        constants: dict[int, int],
    ) -> list[Move]:
        """What writes a value.

        Args:
            value: as `within` gives it.
            strides: in bytes, of what is written, by axis.
            regions: where the value's elements are; each piece lies in one.
            layouts: for each region the operand that holds it, and byte strides there.
            target: number of the operand that is written; constants have those after it.
            constants: numbers of operands by the constants' numbers; those that are met first are added.
        """
        found = []
        for piece in value.pieces:
            source = piece.source
            if isinstance(source, Access):
                source = self._placed(piece, source, regions, layouts, target, constants)
            to = sum(first * strides[axis] for axis, first in enumerate(piece.start))
            steps = tuple(step * strides[axis] for axis, _, step in piece.factors)
            sizes = tuple(factor.size for factor in piece.factors)
            found.append(Move(sizes, Access(target, to, steps), source, value.element_size))
        return found

    def _placed(
        self,
        piece: Piece,
        source: Access,
        regions: Sequence[Region],
        layouts: Sequence[tuple[int, Sequence[int]]],
        target: int,
        constants: dict[int, int],
    ) -> Access:
        if source.operand >= CONSTANT:
            return source._replace(operand=constants.setdefault(source.operand, target + 1 + len(constants)))
        box, operand = self._box(piece, source), source.operand - INPUT
        place = next(k for k, each in enumerate(regions) if each.operand == operand and _is_inside(box, each.box))
        region, (number, own) = regions[place], layouts[place]
        rank = self.rank(source.operand)
        first = coordinates(source.offset, rank)
        offset = sum((n - low) * step for n, (low, _), step in zip(first, region.box, own, strict=True))
        steps = tuple(
            sum(n * step for n, step in zip(coordinates(stride, rank), own, strict=True)) for stride in source.strides
        )
        return Access(number, offset, steps)


def _is_inside(box: Box, outer: Box) -> bool:
    return all(low >= first and high <= last for (low, high), (first, last) in zip(box, outer, strict=True))


def _union(one: Region, other: Region) -> Region:
    pairs = zip(one.box, other.box, strict=True)
    return Region(one.operand, tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in pairs))


def _is_close(one: Region, other: Region) -> bool:
    """Whether two boxes together are hardly more than both."""
    if one.operand != other.operand:
        return False
    return math.prod(_union(one, other).shape) * 4 <= 5 * (math.prod(one.shape) + math.prod(other.shape))


def _runs(name: str, piece: Piece, source: Access, mapping: Mapping, indices: Indices) -> list[Piece]:
    """A piece with lookups as pieces without: one for each run of evenly spaced neighbours that it picks."""
    piece = tidy(piece)
    if not isinstance(piece.source, Access):
        raise AssertionError("a piece with lookups reads something")
    source, rank = piece.source, mapping.rank(source.operand)
    by = sorted({k for x in source.lookups for k, stride in enumerate(x.strides) if stride})
    others = [k for k in range(len(piece.factors)) if k not in by]
    sizes = tuple(piece.factors[k].size for k in by)
    first = coordinates(source.offset, rank)
    where = np.broadcast_to(np.array(first, np.int64), (*sizes, rank)).copy()
    kept = np.ones(sizes, bool)
    for place, k in enumerate(by):
        turn = np.arange(sizes[place]).reshape([-1 if n == place else 1 for n in range(len(by))])
        where += turn[..., None] * np.array(coordinates(source.strides[k], rank), np.int64)
    for lookup in source.lookups:
        index, inside = _indices(name, lookup, by, sizes, mapping, indices)
        kept &= inside | (lookup.outside != "skip")
        where += np.clip(index, 0, lookup.size - 1)[..., None] * np.array(coordinates(lookup.stride, rank), np.int64)
    if not kept.all():
        raise BindingError(f"{name}: what is picked by indices outside is left out, which no plan does")
    last = sizes[-1] if by else 1
    rows = where.reshape(-1, last, rank)
    heads = np.stack(np.unravel_index(np.arange(len(rows)), sizes[:-1] or (1,)), 1)
    strides, found = far_strides(rank), []
    for head, row in zip(heads, rows, strict=True):
        start = [*piece.start]
        for digit, k in zip(head, by[:-1], strict=False):
            start[piece.factors[k].axis] += int(digit) * piece.factors[k].step
        for begin, count, step in _even(row):
            own = [*start]
            factors, steps = [piece.factors[k] for k in others], [source.strides[k] for k in others]
            if by:
                factor = piece.factors[by[-1]]
                own[factor.axis] += begin * factor.step
                if count > 1:
                    factors.append(factor._replace(size=count))
                    steps.append(sum(int(n) * s for n, s in zip(step, strides, strict=True)))
            offset = sum(int(n) * s for n, s in zip(row[begin], strides, strict=True))
            found.append(Piece(tuple(own), tuple(factors), Access(source.operand, offset, tuple(steps))))
            if len(found) > MOST_RUNS:
                raise BindingError(f"{name}: it picks more than {MOST_RUNS} runs, which a plan cannot hold")
    return found


def _indices(
    name: str, lookup: Lookup, by: list[int], sizes: tuple[int, ...], mapping: Mapping, indices: Indices
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The indices for every digit of some factors, wrapped once, and which of them lie inside."""
    if lookup.lookups:
        raise BindingError(f"{name}: indices of indices cannot be planned over files")
    flat = indices(lookup.operand)
    if lookup.operand < CONSTANT:
        rank = mapping.rank(lookup.operand)
        shape = flat.shape
        packed = [math.prod(shape[axis + 1 :]) for axis in range(rank)]
        flat = flat.reshape(-1)

        def near(address: int) -> int:
            return sum(n * s for n, s in zip(coordinates(address, rank), packed, strict=True))
    else:
        flat = flat.view(lookup.dtype)
        size = flat.itemsize

        def near(address: int) -> int:
            return address // size

    place = np.full(sizes, near(lookup.offset), np.int64)
    for number, k in enumerate(by):
        turn = np.arange(sizes[number]).reshape([-1 if n == number else 1 for n in range(len(by))])
        place += turn * near(lookup.strides[k])
    raw = flat[place]
    if raw.dtype.kind == "u":
        index = np.minimum(raw, np.uint64(1 << 62)).astype(np.int64)
    else:
        index = raw.astype(np.int64)
        index = np.where(index < 0, index + lookup.size, index)
    inside = (index >= 0) & (index < lookup.size)
    if lookup.outside == "refuse" and not inside.all():
        stated = lookup._replace(operand=0)
        program = Program(name, (Operand("input", "indices"),), ())
        raise index_error(program, stated, int(raw[~inside].reshape(-1)[0]))
    return index, inside


def _even(row: np.ndarray[Any, Any]) -> list[tuple[int, int, Any]]:
    """Runs of a row of coordinates that are evenly spaced along one axis: first, how many, and how far apart."""
    steps, found, at = np.diff(row, axis=0), [], 0
    same = (steps[1:] == steps[:-1]).all(1) if len(steps) > 1 else np.zeros(0, bool)
    straight = (steps != 0).sum(1) == 1 if len(steps) else np.zeros(0, bool)
    breaks = np.flatnonzero(~same) + 1
    while at < len(row):
        if at + 1 == len(row) or not straight[at] or steps[at].min() < 0:
            found.append((at, 1, None))
            at += 1
            continue
        later = breaks[np.searchsorted(breaks, at + 1) :]
        end = int(later[0]) + 1 if later.size else len(row)
        found.append((at, end - at, steps[at]))
        at = end
    return found
