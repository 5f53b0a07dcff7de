"""DML_OPERATOR_DIAGONAL_MATRIX and DIAGONAL_MATRIX1: diagonals of one value (DML_DIAGONAL_MATRIX_OPERATOR_DESC …)."""

from __future__ import annotations

from collections.abc import Iterator

from anydml.operators.base import Coordinate, Named, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.function import Array, Sizes, function
from anydml.operators.problem import camel
from anydml.operators.rule import DescError, Integers, Item, Maker, View, call_check, int64, rule
from anydml.operators.scalars import Scalar, value_bytes
from anydml.operators.slice1 import INT_MAX, INT_MIN
from anydml.operators.types import ALL_TYPES, FLOATS_16_AND_32, TYPES_8_TO_32
from anydml.tensor import UINT_MAX, DataType
from anydml.text import count_noun

BEYOND_DIAGONALS = UINT_MAX + 1
"""Greater than the number of any diagonal."""


@rule
def diagonal_matrix_rule(maker: Maker, x: View, value: Item | None, begin: int64, end: int64) -> None:
    """Copy x; then write the value where ``begin ≤ column − row < end``, or everywhere else if begin is greater."""
    to: View = maker.result_from(x)
    if begin <= end:
        _band(maker, to, begin, end, value)
    else:
        _band(maker, to, -BEYOND_DIAGONALS, end, value)
        _band(maker, to, begin, BEYOND_DIAGONALS, value)


@rule
def _band(maker: Maker, to: View, first: int64, end: int64, value: Item | None) -> None:
    """Fill diagonals in a few boxes: parallelograms, rectangles, and triangles divided into squares."""
    if first >= end:
        return
    height: int64 = to.sizes[to.rank - 2]
    width: int64 = to.sizes[to.rank - 1]
    top: int64 = _clamp(1 - end, 0, height)
    bottom: int64 = _clamp(width - first, top, height)
    # The first row that is not cut off on the left, and the first that is cut off on the right.
    inside: int64 = _clamp(-first, top, bottom)
    border: int64 = _clamp(width - end, top, bottom)
    if inside < border:
        _fill_left(maker, to, top, inside, end, value)
        rows: View = _box(maker, to, inside, border - inside, inside + first, border - inside + end - first - 1)
        axis: int = to.rank - 1
        lines: View = maker.slide(rows, axis, border - inside, 1, end - first, 1)
        maker.fill(maker.diagonal(lines, axis - 1, axis), value)
    else:
        _fill_left(maker, to, top, border, end, value)
        maker.fill(_box(maker, to, border, inside - border, 0, width), value)
        inside, border = border, inside
    last: int64 = bottom + first - 1
    if bottom > border:
        maker.fill(_box(maker, to, border, bottom - border, last, width - last), value)
        _triangle(maker, to, border, border + first - 1, bottom - border, False, value)


@rule
def _fill_left(maker: Maker, to: View, row: int64, until: int64, end: int64, value: Item | None) -> None:
    """Fill rows from column 0 on, each one column further."""
    if until > row:
        maker.fill(_box(maker, to, row, until - row, 0, row + end), value)
        _triangle(maker, to, row, row + end, until - row, True, value)


@rule
def _triangle(
    maker: Maker, to: View, row: int64, column: int64, count: int64, is_low: bool, value: Item | None
) -> None:
    """Fill 0, 1, … count − 1 elements: along each row from a column on, or along each column from a row on.

    A triangle of 2ⁿ lines is a square and two triangles of half the size, one after the other along the diagonal: all
    squares of one size are one box. The number of boxes grows with the square of the logarithm of the count.
    """
    axis: int = to.rank - 2
    while count > 1:
        block_rows: int64 = 2
        while 2 * block_rows <= count:
            block_rows *= 2
        half: int64 = block_rows // 2
        while half:
            down: int64 = half if is_low else 0
            size: int64 = block_rows - half
            box: View = _box(maker, to, row + down, size, column + half - down, size)
            box = maker.slide(box, axis, block_rows // (2 * half), 2 * half, half, 1)
            box = maker.slide(box, axis + 2, block_rows // (2 * half), 2 * half, half, 1)
            maker.fill(maker.diagonal(box, axis, axis + 2), value)
            half //= 2
        count -= block_rows
        # The rectangle below or to the right of the triangle of `block_rows` lines.
        if is_low:
            maker.fill(_box(maker, to, row + block_rows, count, column, block_rows), value)
        else:
            maker.fill(_box(maker, to, row, block_rows, column + block_rows, count), value)
        row += block_rows
        column += block_rows


@rule
def _box(maker: Maker, to: View, row: int64, rows: int64, column: int64, columns: int64) -> View:
    """Cut rows and columns of matrices."""
    return maker.cut(maker.cut(to, to.rank - 2, row, rows, 1), to.rank - 1, column, columns, 1)


@rule
def _clamp(number: int64, low: int64, high: int64) -> int64:
    """Clamp a number to `low` … `high`."""
    number = high if number > high else number
    return low if number < low else number


class _DiagonalMatrix(OperatorDesc):
    """Base class: the diagonals ``t = x − y`` that get the value, and the contents of all others."""

    __slots__ = ()

    output_tensor: TensorDesc
    value: Scalar

    @property
    def band(self) -> tuple[int, int]:
        """The first diagonal with the value, and the end."""
        raise NotImplementedError

    @property
    def pattern(self) -> bytes:
        """The value's bytes."""
        return value_bytes(self.value, getattr(self, "value_data_type", None), self.output_tensor.data_type)

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Write the input or zeros, then the value on its diagonals."""
        x: View = inputs[0] if inputs else maker.filled(Integers(self.output_tensor.sizes), None)
        diagonal_matrix_rule(maker, x, Item(self.pattern), *self.band)

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """The value where ``(end >= begin) ^ (t >= begin) ^ (t < end)``, elsewhere the input's element or 0."""
        t, (begin, end) = at[-1] - at[-2], self.band
        if (end >= begin) ^ (t >= begin) ^ (t < end):
            return self.pattern, ()
        return (0, at) if self.inputs else (bytes(self.output_tensor.data_type.itemsize), ())

    def _are_ints(self, *fields: str) -> Iterator[Problem]:
        for name, value in ((camel(field), getattr(self, field)) for field in fields):
            if not INT_MIN <= value <= INT_MAX:
                yield self.problem(name, f"{name} is {value}", "it must be −2147483648 to 2147483647 (INT)")


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

    LEVELS = (
        ("5_1", 2, 4, ALL_TYPES),
        ("4_0", 2, 4, TYPES_8_TO_32),
        ("2_1", 4, 4, TYPES_8_TO_32),
        ("2_0", 4, 4, FLOATS_16_AND_32),
    )

    def constraints(self) -> Iterator[Problem]:
        """Check that Offset is an INT."""
        yield from self._are_ints("offset")

    @property
    def band(self) -> tuple[int, int]:
        """Offset, and the diagonal after it."""
        return self.offset, self.offset + 1


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
        >>> dml.DiagonalMatrix1OperatorDesc(None, T("INT64", [3, 3]), "INT64", 1, 0, 1).problems()
        no problems
    """

    input_tensor: TensorDesc | None
    output_tensor: TensorDesc
    value_data_type: Named[DataType]
    value: Scalar
    diagonal_fill_begin: int
    diagonal_fill_end: int

    SAME = ("output_tensor", "input_tensor")
    LEVELS = (("5_1", 2, 4, ALL_TYPES),)

    def constraints(self) -> Iterator[Problem]:
        """Check that the input has the output's sizes, that Value has its type, and that bounds are INTs."""
        if self.input_tensor is not None:
            yield from self.have_equal_sizes("input_tensor", "output_tensor")
        yield from self.scalars_are("value_data_type", value=self.value)
        yield from self._are_ints("diagonal_fill_begin", "diagonal_fill_end")

    @property
    def band(self) -> tuple[int, int]:
        """DiagonalFillBegin and DiagonalFillEnd."""
        return self.diagonal_fill_begin, self.diagonal_fill_end


def check_matrices(name: str, shape: Sizes) -> None:
    """Check that x has rows and columns.

    Raises:
        DescError: x has fewer than two dimensions.
    """
    if len(shape) < 2:
        message = f"{name}: x has {count_noun(len(shape), 'dimension')}"
        rule = "x must have at least 2 dimensions, the last two of which are rows and columns"
        raise DescError(message, name, "x", rule)


@call_check
def check_diagonals(name: str, shape: Sizes, value: Item, begin: int, end: int) -> tuple[Item, int, int]:
    """Return the rule's numbers."""
    check_matrices(name, shape)
    return value, begin, end


@function(check_diagonals, rule=diagonal_matrix_rule)
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
