"""Convert JSON numbers to elements of a data type, with DxDispatch's rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.files.location import Location, show
from anydml.tensor import DataType

Array = np.ndarray[Any, np.dtype[Any]]

_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def array_of(values: Sequence[Any], data_type: DataType, place_of: Callable[[int], Location]) -> Array:
    """Convert JSON numbers, and for floating-point types "nan", "inf" and "-inf", to elements of a data type.

    Args:
        values: the JSON values.
        data_type: the type of the elements.
        place_of: returns the JSON path of the i-th value, for errors.

    Returns:
        A 1-D array of ``data_type.dtype``.

    Raises:
        ModelError: a value is not a number, not an integer for an integer type, or out of range.
    """
    dtype = data_type.dtype
    kinds = set(map(type, values))
    if not values:
        return np.empty(0, dtype)
    if dtype.kind != "f":
        bounds = np.iinfo(dtype)
        if not kinds <= {int} or not all(bounds.min <= end <= bounds.max for end in (min(values), max(values))):
            for i, value in enumerate(values):
                _check_integer(value, data_type, place_of, i)
        return np.array(values, dtype)
    try:
        numbers = np.array(values, np.float64) if kinds <= {int, float} else None
    except OverflowError:
        numbers = None
    if numbers is None or not np.isfinite(numbers).all():
        numbers = np.array([_real(value, data_type, place_of, i) for i, value in enumerate(values)], np.float64)
    elements = _round(numbers, dtype)
    is_too_large = np.isinf(elements) & np.isfinite(numbers)
    if is_too_large.any():
        raise _too_large(data_type, place_of(int(np.argmax(is_too_large))))
    return elements


def scalar_of(value: Any, data_type: DataType, location: Location) -> Array:
    """Convert one JSON number at `location` to an array of one element; raise like `array_of`."""
    return array_of([value], data_type, lambda _: location)


def fill_sequence(target: Array, start: Array, delta: Array) -> None:
    """Fill `target` with start, start + delta, …, where each sum is rounded or wrapped to the data type."""
    if target.dtype == np.float16:
        _fill_half_sequence(target, start, delta)
        return
    target[:1] = start
    target[1:] = delta
    with np.errstate(all="ignore"):
        np.add.accumulate(target, out=target)


def _fill_half_sequence(target: Array, start: Array, delta: Array) -> None:
    """Fill a sequence of FLOAT16 by a table of the successors of all 65,536 values, which is faster than adding."""
    states = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(all="ignore"):
        successor = _round(states + delta.astype(np.float32), np.dtype(np.float16)).view(np.uint16).tolist()
    bits = int(start.view(np.uint16)[0])
    out = target.view(np.uint16)
    for i in range(len(out)):
        out[i] = bits
        following = successor[bits]
        if following == bits:
            out[i:] = bits
            return
        bits = following


def _round(values: Array, dtype: np.dtype[Any]) -> Array:
    """Round to a floating-point type: to nearest, except FLOAT16, which is rounded via FLOAT32 and towards zero.

    This is the default of half.hpp, which DxDispatch uses.
    """
    with np.errstate(all="ignore"):
        if dtype != np.float16:
            return values.astype(dtype)
        singles = values.astype(np.float32)
        halves = singles.astype(np.float16)
        # Decrementing the bits of a half gives its neighbour towards zero. Values below 65536 do not overflow.
        is_rounded_up = (np.abs(halves.astype(np.float32)) > np.abs(singles)) & (np.abs(singles) < 65536)
        halves.view(np.uint16)[is_rounded_up] -= 1
        return halves


def _too_large(data_type: DataType, location: Location) -> ModelError:
    return location.error(f'is too large for {data_type}; write "inf" or "-inf"')


def _real(value: Any, data_type: DataType, place_of: Callable[[int], Location], i: int) -> float:
    if isinstance(value, str) and value.lower() in _WORDS:
        return _WORDS[value.lower()]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise place_of(i).error(f'must be a number, "nan", "inf" or "-inf", not {show(value)}')
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise _too_large(data_type, place_of(i))
    return number


def _check_integer(value: Any, data_type: DataType, place_of: Callable[[int], Location], i: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise place_of(i).error(f"must be an integer for {data_type}, not {show(value)}")
    bounds = np.iinfo(data_type.dtype)
    if not bounds.min <= value <= bounds.max:
        raise place_of(i).error(f"{show(value)} does not fit {data_type} ({bounds.min} to {bounds.max})")
