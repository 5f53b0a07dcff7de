"""`fill` and `sequence`: arrays of another array's shape and dtype (see `fill_value` for the descs)."""

from __future__ import annotations

from typing import Any

from anydml.errors import DescError
from anydml.operators.element import Element
from anydml.operators.fill_value import fill_rule, sequence_rule
from anydml.operators.function import Array, Scalar, Sizes, function
from anydml.operators.rule import Item, front


@front
def check_fill(name: str, shape: Sizes, value: Item) -> tuple[Item]:
    """Return the value."""
    return (value,)


@function(check_fill, rule=fill_rule)
def fill(x: Array, value: Scalar, *, out: Array | None = None) -> Array:
    """Return an array like x filled with one value (DML_OPERATOR_FILL_VALUE_CONSTANT), like `numpy.full_like`.

    Args:
        x: array that gives the result's shape, dtype, library and device; its elements are not read.
        value: the elements' value.
        out: output array of x's shape and dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: x's dtype has no such value.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.fill(np.empty(3, int), 7)
        array([7, 7, 7])
    """


@front
def check_sequence(name: str, shape: Sizes, start: Item, delta: Item) -> tuple[Item, Item]:
    """Return the first element, and the difference."""
    if not is_number(start) or not is_number(delta):
        field, value = ("delta", delta) if is_number(start) else ("start", start)
        message = f"{name}: x is {value.dtype}, but only numbers make a sequence"
        raise DescError(message, name, field, "x must be of integers, floats or complex numbers")
    return start, delta


def is_number(value: Any) -> bool:
    """Whether a value, if it is an element, is a number."""
    return not isinstance(value, Element) or value.dtype.kind in "iufc"


@function(check_sequence, rule=sequence_rule)
def sequence(x: Array, start: Scalar, delta: Scalar, *, out: Array | None = None) -> Array:
    """Return an array like x with elements ``start + k · delta`` in row-major order (DML_OPERATOR_FILL_VALUE_SEQUENCE).

    Integers of n bits wrap modulo 2ⁿ; other numbers are computed in 64 bits and rounded once.

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
