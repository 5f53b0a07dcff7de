"""Values of descs as elements: DML_SCALAR_UNION, whose type a field beside it says, and FLOAT, which is converted."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anydml.tensor import DataType

Scalar = int | float
"""A DML_SCALAR_UNION: the number that its member for the data type beside it holds."""


def scalar_problem(value: Scalar, data_type: DataType) -> str | None:
    """Why a number is none of a data type, or None."""
    dtype = data_type.dtype
    if dtype.kind == "f":
        return None
    if not isinstance(value, int):
        return f"is {value}, which is no integer"
    bounds = np.iinfo(dtype)
    if not bounds.min <= value <= bounds.max:
        return f"is {value}, which does not fit ({bounds.min} to {bounds.max})"
    return None


def scalar_bytes(value: Scalar, data_type: DataType) -> bytes:
    """An element with this value; floating-point types round to nearest."""
    if data_type.dtype.kind == "f":
        return _rounded(value, data_type.dtype)
    return np.array(value, data_type.dtype).tobytes()


def float_bytes(value: float, data_type: DataType) -> bytes:
    """An element from a FLOAT: integer types truncate it (10.6 is 10), and hold it at their ends; NaN is 0."""
    dtype = data_type.dtype
    single = float(np.frombuffer(_rounded(value, np.dtype(np.float32)), np.float32)[0])
    if dtype.kind == "f":
        return _rounded(single, dtype)
    bounds = np.iinfo(dtype)
    if math.isnan(single):
        whole = 0
    elif math.isinf(single):
        whole = bounds.max if single > 0 else bounds.min
    else:
        whole = min(max(int(single), bounds.min), bounds.max)
    return np.array(whole, dtype).tobytes()


def _rounded(value: Scalar, dtype: np.dtype[Any]) -> bytes:
    try:
        double = np.float64(value)
    except OverflowError:
        double = np.float64(math.copysign(math.inf, value))
    with np.errstate(all="ignore"):
        return bytes(double.astype(dtype).tobytes())
