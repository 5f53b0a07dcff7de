"""The value of an element as an argument: its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.errors import DescError

INT64 = np.dtype(np.int64)


class Element:
    """A ``Scalar`` argument: an element of x's dtype.

    Attributes:
        pattern: its bytes.
        value: what was given, where elements are references and no plain bytes.
        dtype: NumPy's.
    """

    __slots__ = ("dtype", "pattern", "value")

    def __init__(self, pattern: bytes, value: Any = None, dtype: np.dtype[Any] = INT64) -> None:
        self.pattern = pattern
        self.value = value
        self.dtype = dtype

    @classmethod
    def of(cls, name: str, field: str, value: Any, dtype: np.dtype[Any]) -> Element:
        """The element of a dtype with this value.

        Raises:
            DescError: there is none.
        """
        if isinstance(value, Element):
            return value
        one = np.zeros((), dtype)
        is_plain = dtype.type is np.void and not dtype.names
        if is_plain and isinstance(value, (int, float, complex, np.number, np.bool_)):
            # NumPy knows no more than their size: it would take the digits' text for a number's bytes.
            if value:
                message = f"{name}: {field} is {value!r}, but of {dtype} NumPy knows the size only: fill with 0"
                raise DescError(message, name, field, f"{field} must be an element of x")
            return cls(one.tobytes(), None, dtype)
        try:
            one[()] = value
        except (OverflowError, RuntimeError, TypeError, ValueError) as error:
            message = f"{name}: {field} is {value!r}, which is no element of {dtype}: {error}"
            raise DescError(message, name, field, f"{field} must be an element of x") from None
        return cls(b"", one[()], dtype) if dtype.hasobject or dtype.kind == "T" else cls(one.tobytes(), None, dtype)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Element) and self.pattern != b"" and self.pattern == other.pattern)

    def __hash__(self) -> int:
        return hash(self.pattern)


ZERO = Element(bytes(8))
"""The INT64 element 0."""
