"""Boxes of inputs that a box of a value needs, and the moves between them.

Values over arrays in chunks are traced with far strides, so that an address determines its coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.engines import array_engine
from anydml.errors import BindingError
from anydml.moves import Access, Fill, Move, Operand, Program
from anydml.moves.compose import CONSTANT, INPUT, SCRATCH
from anydml.moves.pieces import Piece
from anydml.moves.value import Value
from anydml.stores.formats.store import Box
from anydml.stores.planning.coordinates import Indices, coordinates, runs_of

NEIGHBOURS = 8
"""Most preceding boxes that a box is compared with, to be merged."""


class InputBox(NamedTuple):
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


class RegionMap:
    """The way from boxes of an output to boxes of the inputs.

    Args:
        name: of the program, for errors.
        value: of the output, over inputs with far strides and without scratch.
        ranks: number of axes of each input.
        indices: returns the elements of a constant, or of an input that holds indices.

    Raises:
        BindingError: the value needs scratch, or looks up indices by indices.
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
                pieces += runs_of(name, piece, source, self.rank, indices)
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
        """Number of axes of an operand; constants are flat."""
        return self.ranks[operand - INPUT] if operand < CONSTANT else 1

    def within(self, box: Box) -> Value:
        """The value of a box of the output."""
        pieces = self.value.pieces
        if len(pieces) > 1 and box:
            low, high = np.array(box, np.int64).T
            near = ((self._bounds[:, :, 0] < high) & (self._bounds[:, :, 1] >= low)).all(1)
            pieces = tuple(pieces[k] for k in np.flatnonzero(near))
        value = Value(self.value.sizes, self.value.element_size, pieces)
        sizes = [high - low for low, high in box]
        return value.slice([low for low, _ in box], sizes, [1] * len(box))

    def regions(self, value: Value) -> list[InputBox]:
        """Boxes of inputs that a value reads; close ones of one input are merged."""
        found: list[InputBox] = []
        for piece in value.pieces:
            source = piece.source
            if isinstance(source, Fill) or source.operand >= CONSTANT:
                continue
            region = InputBox(source.operand - INPUT, self._box(piece, source))
            last = range(max(0, len(found) - NEIGHBOURS), len(found))
            merged = next((k for k in last if _is_close(region, found[k])), None)
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
        regions: Sequence[InputBox],
        layouts: Sequence[tuple[int, Sequence[int]]],
        target: int,
        constants: dict[int, int],
    ) -> list[Move]:
        """The moves that write a value.

        Args:
            value: as `within` returns it.
            strides: of the operand that is written, in bytes, by axis.
            regions: boxes that hold the elements; each piece of the value lies in one of them.
            layouts: for each box the operand that holds it, and its strides in bytes.
            target: number of the operand that is written; those of constants follow.
            constants: operand numbers by the numbers of constants; missing ones are added.
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
        regions: Sequence[InputBox],
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


def _union(one: InputBox, other: InputBox) -> InputBox:
    pairs = zip(one.box, other.box, strict=True)
    return InputBox(one.operand, tuple((min(a[0], b[0]), max(a[1], b[1])) for a, b in pairs))


def _is_close(one: InputBox, other: InputBox) -> bool:
    """Whether the union of two boxes is hardly larger than both together."""
    if one.operand != other.operand:
        return False
    return math.prod(_union(one, other).shape) * 4 <= 5 * (math.prod(one.shape) + math.prod(other.shape))


Array = np.ndarray[Any, np.dtype[Any]]


def compiled(moves: Sequence[Move], count: int) -> Any:
    """A program that runs moves once, in order, on a number of operands."""
    boxes = tuple([Operand("input", f"box {k}") for k in range(count)])
    return array_engine("plan", ()).compile_program(Program("a block", boxes, tuple(moves)))


def run_moves(moves: Sequence[Move], operands: Sequence[Array]) -> None:
    """Run moves once, in order.

    Args:
        moves: to run.
        operands: by number, including those that are written.
    """
    if moves:
        compiled(moves, len(operands)).run(operands)
