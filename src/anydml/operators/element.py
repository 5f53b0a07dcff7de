"""Scalar arguments, converted to the bytes of an element."""

from __future__ import annotations

import math
import sys
from numbers import Number
from typing import Any

import numpy as np

from anydml.errors import DescError
from anydml.moves.number_sequences import number_kind

INT64 = np.dtype(np.int64)


class Element:
    """A ``Scalar`` argument, converted to an element of x's dtype.

    Attributes:
        pattern: the element's bytes.
        value: the argument itself, for dtypes whose elements are references.
        dtype: NumPy's dtype.
    """

    __slots__ = ("dtype", "pattern", "value")

    def __init__(self, pattern: bytes, value: Any = None, dtype: np.dtype[Any] = INT64) -> None:
        self.pattern = pattern
        self.value = value
        self.dtype = dtype

    @property
    def number(self) -> Any:
        """The element as a scalar of NumPy's."""
        return np.frombuffer(self.pattern, self.dtype)[0]

    @classmethod
    def of(cls, name: str, field: str, value: Any, dtype: np.dtype[Any]) -> Element:
        """Convert a value to an element of a dtype.

        Raises:
            DescError: the dtype has no such element.
        """
        if isinstance(value, Element):
            return value
        scalar = np.zeros((), dtype)
        is_plain = dtype.type is np.void and not dtype.names
        if is_plain and isinstance(value, (int, float, complex, np.number, np.bool_)):
            # For void types NumPy knows the size only; it would store the number's decimal digits.
            if value:
                message = f"{name}: {field} is {value!r}, but NumPy knows only the size of {dtype}: fill with 0"
                raise DescError(message, name, field, f"{field} must be an element of x")
            return cls(scalar.tobytes(), None, dtype)
        try:
            with np.errstate(over="raise"):
                scalar[()] = scalar_value = _scalar(value, dtype)
            if dtype.isbuiltin == 2:
                _check_extended(scalar_value, scalar[()], dtype)
        except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
            is_beyond = isinstance(error, OverflowError) and dtype.kind in "iu"
            reason = f"it holds {np.iinfo(dtype).min} to {np.iinfo(dtype).max}" if is_beyond else error
            reason = "it would be stored as inf" if isinstance(error, FloatingPointError) else reason
            message = f"{name}: {field} is {value!r}, which is not an element of {dtype}: {reason}"
            raise DescError(message, name, field, f"{field} must be an element of x") from None
        return (
            cls(b"", scalar[()], dtype) if dtype.hasobject or dtype.kind == "T" else cls(scalar.tobytes(), None, dtype)
        )

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Element) and self.pattern != b"" and self.pattern == other.pattern)

    def __hash__(self) -> int:
        return hash(self.pattern)


def _scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value; convert a number of an array library to a Python number, so that NumPy checks its range.

    Raises:
        TypeError: the elements are numbers and the value is not, although NumPy would convert it.
        ValueError: the value has dimensions, requires grad, or has a fraction and the elements are integers.
    """
    if dtype.names and (fields := _fields(value, dtype)) is not None:
        return fields
    if dtype.subdtype:
        are_several = isinstance(value, (list, tuple)) or getattr(value, "ndim", 0) > 0
        return [_scalar(part, dtype) for part in value] if are_several else _scalar(value, dtype.base)
    if dtype.kind == "O":
        return value
    if rank := getattr(value, "ndim", 0):
        raise ValueError(f"it has {rank} dimension{'s' * (rank > 1)}: pass one element of it")
    if dtype.kind in "SUVMm" and dtype.isbuiltin != 2 and not dtype.names:
        _check_kept(value, dtype)
        return value
    if type(value) in (int, complex, bool):
        return value
    if type(value) is float:
        return _without_fraction(value, dtype)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.requires_grad and torch.is_grad_enabled():
            raise ValueError("it requires grad: pass its detach(), or a number")
        return _without_fraction(value.item(), dtype)
    kind = value.dtype.kind if isinstance(value, (np.generic, np.ndarray)) else ""
    is_numeric = dtype.kind in "biufc" or dtype.isbuiltin == 2
    # Accessing `np.ma` imports it, which takes longer than any call.
    is_masked = isinstance(value, np.ndarray) and type(value) is not np.ndarray and isinstance(value, np.ma.MaskedArray)
    is_number = hasattr(value, "__float__") or hasattr(value, "__index__") or hasattr(value, "__complex__")
    is_other = is_masked or isinstance(value, np.void) or not is_number
    if is_numeric and (is_other or (kind and kind in "SUTMmO")):
        raise TypeError("pass a number")
    # An extended float would lose digits.
    is_plain = kind and kind in "biufc" and value.dtype.itemsize <= 8 * (1 + (kind == "c"))
    return _without_fraction(value.item() if is_plain else value, dtype)


def _without_fraction(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value.

    Raises:
        ValueError: it has a fraction, which NumPy would cut off, and the elements are integers.
    """
    is_index = hasattr(type(value), "__index__") and not isinstance(value, np.ndarray)
    if number_kind(dtype) != "i" or isinstance(value, complex) or is_index:
        return value
    # Other objects can be converted, but may not compare with numbers.
    number: Any = value if isinstance(value, (Number, np.generic)) else float(value)
    if math.floor(number) != number:
        raise ValueError("it has a fraction: round it")
    return value


def _check_kept(value: Any, dtype: np.dtype[Any]) -> None:
    """Check that NumPy would not cut off a part of a text, of bytes, or of a time.

    Raises:
        TypeError: the value is a time where the elements are differences, or the reverse, or a number with a fraction.
        ValueError: the value would be cut off.
    """
    kind = np.asarray(value).dtype.kind
    if dtype.kind in "Mm" and kind not in "biuSUTO" + dtype.kind:
        raise TypeError(f"pass a {'datetime' if dtype.kind == 'M' else 'timedelta'}")
    if kind in "biu" and dtype.kind not in "SU":
        # Larger integers would wrap.
        np.int64(int(value))
        return
    exact, stored = np.array(value, dtype.kind), np.array(value, dtype)
    if dtype.kind == "V":
        is_kept = exact.itemsize <= stored.itemsize
    elif dtype.kind in "SU":
        is_kept = bool(exact == stored)
    else:
        is_kept = bool(stored.astype(exact.dtype) == exact or (np.isnat(stored) and np.isnat(exact)))
    if not is_kept:
        raise ValueError(f"it would be stored as {stored[()]!r}")


def _check_extended(value: Any, stored: Any, dtype: np.dtype[Any]) -> None:
    """Check that ml_dtypes stored a number: it wraps integers, and makes numbers out of range infinite or NaN.

    Raises:
        OverflowError: another number was stored.
    """
    number_class = number_kind(dtype)
    pairs = [(value, stored)]
    if number_class == "c":
        pairs = [(getattr(complex(value), part), getattr(complex(stored), part)) for part in ("real", "imag")]
    for number, stored_number in [(float(x), float(y)) for x, y in pairs]:
        is_wrapped = number_class == "i" and stored_number != math.trunc(number)
        classes = [(math.isinf(x), math.isnan(x)) for x in (number, stored_number)]
        if is_wrapped or classes[0] != classes[1]:
            raise OverflowError(f"it would be stored as {stored}")


def _fields(value: Any, dtype: np.dtype[Any]) -> tuple[Any, ...] | None:
    """Return the values of a structure's fields, or None for those that NumPy converts or refuses as a whole."""
    names = dtype.names or ()
    if isinstance(value, (np.ndarray, np.void)) and value.dtype.names:
        if value.dtype == dtype or value.ndim:
            return None
        value = tuple(value[name] for name in value.dtype.names)
    if not isinstance(value, tuple):
        # NumPy assigns one value to every field.
        value = (value,) * len(names)
    if len(value) != len(names):
        return None
    return tuple(_scalar(part, dtype[name]) for part, name in zip(value, names, strict=True))


ZERO = Element(bytes(8))
"""The INT64 element 0."""
