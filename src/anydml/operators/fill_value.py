"""DML_OPERATOR_FILL_VALUE_CONSTANT and FILL_VALUE_SEQUENCE: outputs without an input; `fill` and `sequence`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from anydml.moves.number_sequences import number_kind
from anydml.moves.program import Element
from anydml.operators.base import Coordinate, Named, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.element import Element as ConvertedField
from anydml.operators.function import Array, Sizes, function
from anydml.operators.rule import DescError, Item, Maker, View, call_check, rule, sized
from anydml.operators.scalars import Scalar, scalar_bytes
from anydml.operators.types import ALL_TYPES, NO_FLOAT64, TYPES_8_TO_32
from anydml.tensor import DataType


@rule
def fill_rule(maker: Maker, x: View, value: Item) -> None:
    """Write the value to every element."""
    maker.fill(maker.result(maker.sizes(x)), value)


@rule
def sequence_rule(maker: Maker, x: View, start: Item, delta: Item) -> None:
    """Write ``start + k · delta`` in row-major order."""
    maker.count_up(maker.result(maker.sizes(x)), start, delta)


@record
class FillValueConstantOperatorDesc(OperatorDesc):
    """DML_FILL_VALUE_CONSTANT_OPERATOR_DESC: every element is Value.

    Args:
        output_tensor: the tensor to fill.
        value_data_type: the data type of Value.
        value: a number of that type.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.FillValueConstantOperatorDesc(T("FLOAT32", [4]), "FLOAT32", 1.5)
        FillValueConstantOperatorDesc(→ FLOAT32 [4], value_data_type FLOAT32, value 1.5)
    """

    output_tensor: TensorDesc
    value_data_type: Named[DataType]
    value: Scalar

    LEVELS = (
        ("4_1", 1, 8, ALL_TYPES),
        ("4_0", 1, 8, TYPES_8_TO_32),
        ("2_1", 4, 4, TYPES_8_TO_32),
    )

    def constraints(self) -> Iterator[Problem]:
        """Check that Value has the output's type."""
        yield from self.scalars_are("value_data_type", value=self.value)

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Fill the output."""
        fill_rule(maker, sized(self.output_tensor.sizes), Item(scalar_bytes(self.value, self.value_data_type)))

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``output[c] = Value``."""
        return scalar_bytes(self.value, self.value_data_type), ()


@record
class FillValueSequenceOperatorDesc(OperatorDesc):
    """DML_FILL_VALUE_SEQUENCE_OPERATOR_DESC: ValueStart, ValueStart + ValueDelta, … in row-major order.

    Element k is ``ValueStart + k · ValueDelta``: integer types of n bits wrap modulo 2ⁿ, floating-point types are
    computed in 64 bits and rounded once.

    Args:
        output_tensor: the tensor to fill.
        value_data_type: the data type of ValueStart and ValueDelta.
        value_start: a number of that type.
        value_delta: a number of that type; for unsigned types, a negative one counts down.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.FillValueSequenceOperatorDesc(T("INT64", [4]), "INT64", 10, -1)
        FillValueSequenceOperatorDesc(→ INT64 [4], value_data_type INT64, value_start 10, value_delta -1)
    """

    output_tensor: TensorDesc
    value_data_type: Named[DataType]
    value_start: Scalar
    value_delta: Scalar

    LEVELS = (
        # The operator's page does not list FLOAT64.
        ("5_0", 1, 8, NO_FLOAT64),
        ("4_0", 1, 8, TYPES_8_TO_32),
        ("2_1", 4, 4, TYPES_8_TO_32),
    )

    def constraints(self) -> Iterator[Problem]:
        """Check that values have the output's type; unsigned types may count down, as in an example of the page."""
        yield from self.scalars_are("value_data_type", value_start=self.value_start, value_delta=self._delta())

    def _delta(self) -> Scalar:
        """Return ValueDelta; for an unsigned type of n bits, a negative one modulo 2ⁿ."""
        delta, data_type = self.value_delta, self.value_data_type
        bits = 8 * data_type.itemsize
        is_down = data_type.dtype.kind == "u" and isinstance(delta, int) and -(1 << bits) < delta < 0
        return delta + (1 << bits) if is_down else delta

    def _ends(self) -> tuple[Any, Any]:
        """Start and delta converted to the type."""
        dtype, ends = self.value_data_type.dtype, (self.value_start, self._delta())
        start, delta = (scalar_bytes(value, self.value_data_type) for value in ends)
        return Item(start, None, dtype), Item(delta, None, dtype)

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Write start + k · delta for the k-th coordinate."""
        sequence_rule(maker, sized(self.output_tensor.sizes), *self._ends())

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``output[c] = ValueStart + k · ValueDelta`` for the k-th coordinate."""
        start, delta = (scalar.number for scalar in self._ends())
        for k, at in enumerate(itertools.product(*map(range, self.output_tensor.sizes))):
            if self.value_data_type.dtype.kind == "f":
                value = scalar_bytes(float(start) + k * float(delta), self.value_data_type)
            else:
                size = self.value_data_type.itemsize
                wrapped = (int(start) + k * int(delta)) % (1 << 8 * size)
                value = np.array(wrapped, f"u{size}").tobytes()
            yield 0, at, value, ()


@call_check
def check_fill(name: str, shape: Sizes, value: Item) -> tuple[Item]:
    """Return the value."""
    return (value,)


@function(check_fill, rule=fill_rule)
def fill(x: Array, value: Scalar, *, out: Array | None = None) -> Array:
    """Return an array like x filled with one value (DML_OPERATOR_FILL_VALUE_CONSTANT), like `numpy.full_like`.

    Args:
        x: array that gives the result's shape, dtype, library and device; its elements are not read.
        value: the elements' value; bools take any number as False or True, as in NumPy and PyTorch.
        out: output array of x's shape and dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: x's dtype has no such value, such as −1 for uint8, or 2.5 for integers.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.fill(np.empty(3, int), 7)
        array([7, 7, 7])
    """


@call_check
def check_sequence(name: str, shape: Sizes, start: Item, delta: Item) -> tuple[Item, Item]:
    """Return the first element, and the difference."""
    if not is_number(start) or not is_number(delta):
        field, value = ("delta", delta) if is_number(start) else ("start", start)
        message = f"{name}: x is {value.dtype}, but only numbers make a sequence"
        raise DescError(message, name, field, "x must be of integers, floats or complex numbers")
    return start, delta


def is_number(value: Any) -> bool:
    """Whether a value, if it is an element, is a number."""
    return not isinstance(value, ConvertedField) or number_kind(value.dtype) != ""


@function(check_sequence, rule=sequence_rule)
def sequence(x: Array, start: Scalar, delta: Scalar, *, out: Array | None = None) -> Array:
    """Return an array like x with elements ``start + k · delta`` in row-major order (DML_OPERATOR_FILL_VALUE_SEQUENCE).

    Integers of n bits wrap modulo 2ⁿ; other numbers are computed in 64 bits and rounded once, those of ml_dtypes as its
    casts do.

    Args:
        x: array of numbers that gives the result's shape, dtype, library and device; its elements are not read.
        start: the first element.
        delta: difference of consecutive elements.
        out: output array of x's shape and dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: `start` or `delta` does not fit x's dtype, or x's elements are not numbers.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.sequence(np.empty(3, int), 5, -1)
        array([5, 4, 3])
    """
