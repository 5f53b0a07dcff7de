"""`fill` and `sequence`: arrays of another array's shape and dtype (see `fill_value` for the descs)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anydml.errors import DescError
from anydml.moves import Computed, Constant, Move
from anydml.operators.element import Element
from anydml.operators.fill_value import numbers_of
from anydml.operators.function import Array, Inferred, Scalar, Sizes, function
from anydml.operators.regions import copied, filled
from anydml.tensor import Layout


def _infer_fill(name: str, shape: Sizes, value: Any) -> Inferred:
    return Inferred((value,), [tuple(shape)])


def _lower_fill(x: Layout, output: Layout, value: Element) -> tuple[Move, ...]:
    return (filled(1, output, value.pattern),)


@function(_infer_fill, _lower_fill)
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


def _infer_sequence(name: str, shape: Sizes, *arguments: Any) -> Inferred:
    for field, value in zip(("start", "delta"), arguments, strict=True):
        if isinstance(value, Element) and value.dtype.kind not in "iufc":
            message = f"{name}: x is {value.dtype}, but only numbers make a sequence"
            raise DescError(message, name, field, "x must be of integers, floats or complex numbers")
    return Inferred(arguments, [tuple(shape)])


def _sequence(x: Layout, output: Layout, *parameters: Element) -> tuple[Constant, ...]:
    start, delta = (np.frombuffer(each.pattern, each.dtype)[0] for each in parameters)
    count, dtype = math.prod(output.sizes), parameters[0].dtype
    # The sequence is computed in native byte order and stored in x's.
    return (Computed((count,), dtype, lambda: numbers_of(start, delta, count).astype(dtype, copy=False)),)


def _lower_sequence(x: Layout, output: Layout, *_: Element) -> tuple[Move, ...]:
    packed = Layout.packed(output.sizes, output.element_size)
    return (copied((2, packed), (1, output)),)


@function(_infer_sequence, _lower_sequence, fixed=_sequence)
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
