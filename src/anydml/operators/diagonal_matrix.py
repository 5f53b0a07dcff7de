"""DML_OPERATOR_DIAGONAL_MATRIX and DIAGONAL_MATRIX1: diagonals of one value (DML_DIAGONAL_MATRIX_OPERATOR_DESC …)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from anydml.feature_level import FeatureLevel, SupportTable
from anydml.moves import Access, Fill, Lookup, Move
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc, Problem
from anydml.operators.regions import copied, filled
from anydml.operators.scalars import Scalar, float_bytes, scalar_bytes
from anydml.operators.slice1 import INT_MAX, INT_MIN
from anydml.operators.types import ALL_TYPES, FLOATS_16_AND_32, TYPES_8_TO_32, table
from anydml.tensor import UINT_MAX, DataType, Layout, TensorDesc

FEW_DIAGONALS = 16
"""Diagonals that get a move each."""

EVERY = UINT_MAX + 1
"""Beyond every diagonal."""

FEW_LINES = 64
"""Rows or columns that get a move each, where there are more diagonals; more are told apart element by element."""


class _DiagonalMatrix(OperatorDesc):
    """What both have in common: the diagonals x − y that hold the value, and what the others hold."""

    __slots__ = ()

    output_tensor: TensorDesc

    OUTPUTS: ClassVar[tuple[str, ...]] = ("output_tensor",)

    @property
    def pattern(self) -> bytes:
        """The bytes of the value."""
        raise AssertionError("each operator has its own")

    def holds(self, t: int) -> bool:
        """Whether the diagonal t = x − y holds the value."""
        raise AssertionError("each operator has its own")

    def bands(self) -> list[tuple[int, int]]:
        """The diagonals that hold it, as ranges that lie inside the matrix."""
        raise AssertionError("each operator has its own")

    def _inside(self, *bands: tuple[int, int]) -> list[tuple[int, int]]:
        height, width = self.output_tensor.sizes[-2:]
        clipped = [(max(first, 1 - height), min(end, width)) for first, end in bands]
        return [(first, end) for first, end in clipped if first < end]

    def _by_table(self) -> bool:
        """Whether there are too many diagonals, rows and columns for moves of their own."""
        many = sum(end - first for first, end in self.bands()) > FEW_DIAGONALS
        return many and min(self.output_tensor.sizes[-2:]) > FEW_LINES

    @property
    def constants(self) -> tuple[np.ndarray[Any, Any], ...]:
        """For each diagonal 0 where it holds the value, and 1 where not; where there are many."""
        if len(self.output_tensor.sizes) < 2 or not self._by_table():
            return ()
        height, width = self.output_tensor.sizes[-2:]
        table = np.ones(height + width - 1, np.uint32)
        for first, end in self.bands():
            table[first + height - 1 : end + height - 1] = 0
        return (table,)

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """What the others hold, everywhere; then the value: by diagonals, by lines, or where a constant says so."""
        *inputs, output = layouts or self.layouts()
        whole, zero = len(inputs), bytes(output.element_size)
        under = copied((0, inputs[0]), (1, output)) if inputs else filled(0, output, zero)
        *batch, height, _ = output.sizes
        fill, size = Fill(self.pattern), output.element_size
        if self._by_table():
            strides = (*(0 for _ in batch), -4, 4)
            lookup = Lookup(whole + 1, "uint32", (height - 1) * 4, strides, 1, 0, "skip")
            return under, Move(output.sizes, Access(whole, 0, output.strides, (lookup,)), fill, size)
        moves = [under]
        for y, x, down, right, count in self._lines():
            *steps, row, column = output.strides
            to = Access(whole, y * row + x * column, (*steps, down * row + right * column))
            moves.append(Move((*batch, count), to, fill, size))
        return tuple(moves)

    def _lines(self) -> Iterator[tuple[int, int, int, int, int]]:
        """First element, step and length of the lines that the bands are made of: diagonals, rows or columns."""
        height, width = self.output_tensor.sizes[-2:]
        bands = self.bands()
        few = sum(end - first for first, end in bands) <= FEW_DIAGONALS
        for first, end in bands:
            if few:
                for t in range(first, end):
                    y = max(0, -t)
                    yield y, y + t, 1, 1, min(height, width - t) - y
            elif height <= width:
                for y in range(height):
                    left, right = max(0, y + first), min(width, y + end)
                    if left < right:
                        yield y, left, 0, 1, right - left
            else:
                for x in range(width):
                    top, bottom = max(0, x - end + 1), min(height, x - first + 1)
                    if top < bottom:
                        yield top, x, 1, 0, bottom - top

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """The value where the diagonal holds it, else the input's element, else 0."""
        zero = bytes(self.output_tensor.data_type.itemsize)
        output = len(self.inputs)
        for at in itertools.product(*map(range, self.output_tensor.sizes)):
            if self.holds(at[-1] - at[-2]):
                yield output, at, self.pattern, ()
            elif output:
                yield output, at, 0, at
            else:
                yield output, at, zero, ()

    def _int(self, field: str, value: int) -> Iterator[Problem]:
        if not INT_MIN <= value <= INT_MAX:
            yield self.problem(field, f"{field} is {value}", "it is −2147483648 to 2147483647 (INT)")


@dataclass(frozen=True, slots=True)
class DiagonalMatrixOperatorDesc(_DiagonalMatrix):
    """DML_DIAGONAL_MATRIX_OPERATOR_DESC: ``Output[…, y, x] = Value if x == y + Offset else 0``.

    Args:
        output_tensor: matrices, of 2 to 4 dimensions.
        offset: INT; 0 is the main diagonal, 1 the one above it.
        value: integer types truncate it, and hold it at their ends.
    """

    output_tensor: TensorDesc
    offset: int
    value: float

    OPERATOR: ClassVar[str] = "DML_DIAGONAL_MATRIX"
    INPUTS: ClassVar[tuple[str, ...]] = ()
    SUPPORT: ClassVar[SupportTable] = table(
        ("OutputTensor",),
        (FeatureLevel.LEVEL_5_1, 2, 4, ALL_TYPES),
        (FeatureLevel.LEVEL_4_0, 2, 4, TYPES_8_TO_32),
        (FeatureLevel.LEVEL_2_1, 4, 4, TYPES_8_TO_32),
        (FeatureLevel.LEVEL_2_0, 4, 4, FLOATS_16_AND_32),
    )

    def __init__(self, output_tensor: TensorDesc, offset: int, value: float) -> None:
        self._put(output_tensor=output_tensor, offset=offset, value=value)

    def constraints(self) -> Iterator[Problem]:
        """Offset is an INT."""
        yield from self._int("Offset", self.offset)

    @property
    def pattern(self) -> bytes:
        """Value as an element."""
        return float_bytes(self.value, self.output_tensor.data_type)

    def holds(self, t: int) -> bool:
        """One diagonal does."""
        return t == self.offset

    def bands(self) -> list[tuple[int, int]]:
        """One diagonal."""
        return self._inside((self.offset, self.offset + 1))


@dataclass(frozen=True, slots=True)
class DiagonalMatrix1OperatorDesc(_DiagonalMatrix):
    """DML_DIAGONAL_MATRIX1_OPERATOR_DESC: a band of diagonals ``t = x − y`` gets Value, the others the input or 0.

    Where `diagonal_fill_begin` is at most `diagonal_fill_end`, ``begin ≤ t < end`` gets it; where it is greater, all
    but ``end ≤ t < begin``.

    Args:
        input_tensor: what the other diagonals hold; None is 0.
        output_tensor: matrices, of 2 to 4 dimensions; its sizes are the input's.
        value_data_type: the output's data type.
        value: a number of that type.
        diagonal_fill_begin: INT.
        diagonal_fill_end: INT.
    """

    input_tensor: TensorDesc | None
    output_tensor: TensorDesc
    value_data_type: DataType
    value: Scalar
    diagonal_fill_begin: int
    diagonal_fill_end: int

    OPERATOR: ClassVar[str] = "DML_DIAGONAL_MATRIX1"
    INPUTS: ClassVar[tuple[str, ...]] = ("input_tensor",)
    SUPPORT: ClassVar[SupportTable] = table(("InputTensor", "OutputTensor"), (FeatureLevel.LEVEL_5_1, 2, 4, ALL_TYPES))

    def __init__(
        self,
        input_tensor: TensorDesc | None,
        output_tensor: TensorDesc,
        value_data_type: DataType | str,
        value: Scalar,
        diagonal_fill_begin: int,
        diagonal_fill_end: int,
    ) -> None:
        self._put(
            input_tensor=input_tensor,
            output_tensor=output_tensor,
            value_data_type=value_data_type,
            value=value,
            diagonal_fill_begin=diagonal_fill_begin,
            diagonal_fill_end=diagonal_fill_end,
        )

    def constraints(self) -> Iterator[Problem]:
        """The input is like the output; a value of its type; bounds are INTs."""
        if self.input_tensor is not None:
            kinds = [*self._same_kind("output_tensor", "input_tensor")]
            yield from kinds
            if not kinds:
                rule = "sizes are InputTensor's"
                yield from self.sizes_are("OutputTensor", self.output_tensor, self.input_tensor.sizes, rule)
        yield from self._scalars("ValueDataType", self.value_data_type, Value=self.value)
        yield from self._int("DiagonalFillBegin", self.diagonal_fill_begin)
        yield from self._int("DiagonalFillEnd", self.diagonal_fill_end)

    @property
    def pattern(self) -> bytes:
        """Value as an element."""
        return scalar_bytes(self.value, self.value_data_type)

    def holds(self, t: int) -> bool:
        """The page's ``(end >= begin) ^ (t >= begin) ^ (t < end)``."""
        begin, end = self.diagonal_fill_begin, self.diagonal_fill_end
        return (end >= begin) ^ (t >= begin) ^ (t < end)

    def bands(self) -> list[tuple[int, int]]:
        """From begin to end, or, where begin is greater, all before end and all from begin on."""
        begin, end = self.diagonal_fill_begin, self.diagonal_fill_end
        return self._inside((begin, end)) if begin <= end else self._inside((-EVERY, end), (begin, EVERY))
