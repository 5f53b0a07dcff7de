"""Conversion of a desc's values to elements: DML_SCALAR_UNION, whose type is another field, and FLOAT."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anydml.tensor import DataType

Scalar = int | float
"""A DML_SCALAR_UNION: the number in its member for the data type."""


def scalar_problem(value: Scalar, data_type: DataType) -> str | None:
    """Return why a number is not a valid value of a data type, or None."""
    dtype = data_type.dtype
    if dtype.kind == "f":
        largest = float(np.finfo(dtype).max)
        is_lost = np.isinf(np.frombuffer(_rounded(value, dtype), dtype)[0]) and value not in (math.inf, -math.inf)
        return f"is {value}, which does not fit (−{largest:g} to {largest:g})" if is_lost else None
    if not isinstance(value, int):
        return f"is {value}, which is not an integer"
    bounds = np.iinfo(dtype)
    if not bounds.min <= value <= bounds.max:
        return f"is {value}, which does not fit ({bounds.min} to {bounds.max})"
    return None


def scalar_bytes(value: Scalar, data_type: DataType) -> bytes:
    """Convert a number to an element; floating-point types round to nearest."""
    if data_type.dtype.kind == "f":
        return _rounded(value, data_type.dtype)
    return np.array(value, data_type.dtype).tobytes()


def float_bytes(value: float, data_type: DataType) -> bytes:
    """Convert a FLOAT to an element; integer types truncate (10.6 to 10) and saturate, and convert NaN to 0."""
    dtype = data_type.dtype
    single = float(np.frombuffer(_rounded(value, np.dtype(np.float32)), np.float32)[0])
    if dtype.kind == "f":
        return _rounded(single, dtype)
    bounds = np.iinfo(dtype)
    integer = 0 if math.isnan(single) else int(min(max(single, bounds.min), bounds.max))
    return np.array(integer, dtype).tobytes()


def value_bytes(value: Scalar, data_type: DataType | None, output: DataType) -> bytes:
    """Convert a DML_SCALAR_UNION of a data type, or a FLOAT if there is none, to an element of the output."""
    return float_bytes(value, output) if data_type is None else scalar_bytes(value, data_type)


def _rounded(value: Scalar, dtype: np.dtype[Any]) -> bytes:
    try:
        double = np.float64(value)
    except OverflowError:
        double = np.float64(math.copysign(math.inf, value))
    with np.errstate(all="ignore"):
        return bytes(double.astype(dtype).tobytes())
