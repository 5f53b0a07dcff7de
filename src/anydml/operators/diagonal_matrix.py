"""DML_OPERATOR_DIAGONAL_MATRIX and DIAGONAL_MATRIX1: diagonals of one value (DML_DIAGONAL_MATRIX_OPERATOR_DESC …)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from anydml.core.bands import band
from anydml.errors import DescError
from anydml.feature_level import FeatureLevel, SupportTable
from anydml.moves import Access, Fill, Move
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc
from anydml.operators.function import Array, Inferred, Sizes, function
from anydml.operators.problem import Problem
from anydml.operators.regions import copied, filled
from anydml.operators.scalars import Scalar, float_bytes, scalar_bytes
from anydml.operators.slice1 import INT_MAX, INT_MIN
from anydml.operators.types import ALL_TYPES, FLOATS_16_AND_32, TYPES_8_TO_32, table
from anydml.records import Named, record
from anydml.tensor import UINT_MAX, DataType, Layout, TensorDesc
from anydml.text import counted

EVERY = UINT_MAX + 1
"""Greater than the number of any diagonal."""


def band_moves(operand: int, output: Layout, bands: Sequence[tuple[int, int]], pattern: bytes) -> tuple[Move, ...]:
    """Return moves that fill bands of diagonals ``first ≤ column − row < end``, a few boxes per band.

    Args:
        operand: operand number of the output.
        output: layout of the output, with 2 dimensions or more.
        bands: first and end of each band.
        pattern: the value's bytes.
    """
    *batch, height, width = output.sizes
    *steps, down, right = output.strides
    moves = []
    for first, end in bands:
        for box in band(height, width, first, end):
            strides = (rows * down + columns * right for rows, columns in box.steps)
            to = Access(operand, box.row * down + box.column * right, (*steps, *strides))
            moves.append(Move((*batch, *box.sizes), to, Fill(pattern), output.element_size))
    return tuple(moves)


class _DiagonalMatrix(OperatorDesc):
    """Base class: the diagonals x − y that get the value, and the contents of all others."""

    __slots__ = ()

    output_tensor: TensorDesc

    OUTPUTS: ClassVar[tuple[str, ...]] = ("output_tensor",)

    @property
    def pattern(self) -> bytes:
        """The value's bytes."""
        raise NotImplementedError

    def holds(self, t: int) -> bool:
        """Whether the diagonal t = x − y gets the value."""
        raise NotImplementedError

    def bands(self) -> list[tuple[int, int]]:
        """Half-open ranges of the diagonals that get the value."""
        raise NotImplementedError

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """The input or zeros everywhere; then the value, in a few boxes per band."""
        *inputs, output = layouts or self.layouts()
        under = copied((0, inputs[0]), (1, output)) if inputs else filled(0, output, bytes(output.element_size))
        return (under, *band_moves(len(inputs), output, self.bands(), self.pattern))

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """The value on its diagonals; elsewhere the input's element, or 0."""
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
            yield self.problem(field, f"{field} is {value}", "it must be −2147483648 to 2147483647 (INT)")


@record
class DiagonalMatrixOperatorDesc(_DiagonalMatrix):
    """DML_DIAGONAL_MATRIX_OPERATOR_DESC: ``Output[…, y, x] = Value if x == y + Offset else 0``.

    Args:
        output_tensor: matrices, of 2 to 4 dimensions.
        offset: INT; 0 is the main diagonal, 1 the one above it.
        value: a number; integer types truncate and saturate it.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.DiagonalMatrixOperatorDesc(T("FLOAT32", [1, 1, 2, 3]), offset=0, value=1.0)
        DiagonalMatrixOperatorDesc(→ FLOAT32 [1, 1, 2, 3], offset 0, value 1.0)
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

    def constraints(self) -> Iterator[Problem]:
        """Offset is an INT."""
        yield from self._int("Offset", self.offset)

    @property
    def pattern(self) -> bytes:
        """Value as bytes of an element."""
        return float_bytes(self.value, self.output_tensor.data_type)

    def holds(self, t: int) -> bool:
        """Whether t is Offset."""
        return t == self.offset

    def bands(self) -> list[tuple[int, int]]:
        """The diagonal Offset."""
        return [(self.offset, self.offset + 1)]


@record
class DiagonalMatrix1OperatorDesc(_DiagonalMatrix):
    """DML_DIAGONAL_MATRIX1_OPERATOR_DESC: diagonals ``t = x − y`` of a band get Value, the others the input or 0.

    If `diagonal_fill_begin` is at most `diagonal_fill_end`, the band is ``begin ≤ t < end``; otherwise it is all
    diagonals except ``end ≤ t < begin``.

    Args:
        input_tensor: source of the other diagonals; None for zeros.
        output_tensor: matrices, of 2 to 4 dimensions; its sizes are the input's.
        value_data_type: the output's data type.
        value: a number of that type.
        diagonal_fill_begin: INT.
        diagonal_fill_end: INT.

    Examples:
        >>> T = dml.TensorDesc
        >>> desc = dml.DiagonalMatrix1OperatorDesc(None, T("INT64", [3, 3]), "INT64", 1, 0, 1)
        >>> desc.problems()
        no problems
    """

    input_tensor: TensorDesc | None
    output_tensor: TensorDesc
    value_data_type: Named[DataType]
    value: Scalar
    diagonal_fill_begin: int
    diagonal_fill_end: int

    OPERATOR: ClassVar[str] = "DML_DIAGONAL_MATRIX1"
    INPUTS: ClassVar[tuple[str, ...]] = ("input_tensor",)
    SUPPORT: ClassVar[SupportTable] = table(("InputTensor", "OutputTensor"), (FeatureLevel.LEVEL_5_1, 2, 4, ALL_TYPES))

    def constraints(self) -> Iterator[Problem]:
        """Input like the output; Value of its type; bounds that are INTs."""
        if self.input_tensor is not None:
            kinds = [*self.same_kind("output_tensor", "input_tensor")]
            yield from kinds
            if not kinds:
                rule = "sizes must be InputTensor's"
                yield from self.sizes_are("OutputTensor", self.output_tensor, self.input_tensor.sizes, rule)
        yield from self.scalars_are("ValueDataType", self.value_data_type, Value=self.value)
        yield from self._int("DiagonalFillBegin", self.diagonal_fill_begin)
        yield from self._int("DiagonalFillEnd", self.diagonal_fill_end)

    @property
    def pattern(self) -> bytes:
        """Value as bytes of an element."""
        return scalar_bytes(self.value, self.value_data_type)

    def holds(self, t: int) -> bool:
        """The page's ``(end >= begin) ^ (t >= begin) ^ (t < end)``."""
        begin, end = self.diagonal_fill_begin, self.diagonal_fill_end
        return (end >= begin) ^ (t >= begin) ^ (t < end)

    def bands(self) -> list[tuple[int, int]]:
        """The range from begin to end, or, if begin is greater, all before end and all from begin on."""
        begin, end = self.diagonal_fill_begin, self.diagonal_fill_end
        return [(begin, end)] if begin <= end else [(-EVERY, end), (begin, EVERY)]


def _infer(name: str, shape: Sizes, *arguments: Any) -> Inferred:
    if len(shape) < 2:
        raise DescError(
            f"{name}: x has {counted(len(shape), 'dimension')}",
            name,
            "x",
            "x must be matrices, of 2 dimensions or more",
        )
    return Inferred(arguments, [tuple(shape)])


def _lower(source: Layout, output: Layout, value: Any, begin: int, end: int) -> tuple[Move, ...]:
    bands = [(begin, end)] if begin <= end else [(-EVERY, end), (begin, EVERY)]
    return copied((0, source), (1, output)), *band_moves(1, output, bands, value.pattern)


@function(_infer, _lower)
def diagonal_matrix(x: Array, value: Scalar, begin: int = 0, end: int = 1, *, out: Array | None = None) -> Array:
    """Copy matrices with a value on some diagonals (DML_OPERATOR_DIAGONAL_MATRIX1, without its limits).

    Args:
        x: array of any dtype with at least two dimensions; the last two are rows and columns.
        value: an element.
        begin: the first diagonal that gets the value; 0 is the main diagonal, 1 the one above it.
        end: the diagonal after the last. If less than `begin`, all diagonals except ``end ≤ t < begin`` get the value.
        out: output array of x's shape and dtype.

    Returns:
        An array of x's shape, new and contiguous, or `out`.

    Raises:
        DescError: x has fewer than two dimensions, or `value` is not a valid element of its dtype.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.diagonal_matrix(np.ones((3, 3), int), 0, 5)
        array([[0, 1, 1],
               [0, 0, 1],
               [0, 0, 0]])
    """
