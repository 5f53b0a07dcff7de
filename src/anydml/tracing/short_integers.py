"""Open integers of fewer than 64 bits, as NumPy's: results of arithmetic with them must stay in their range.

NumPy wraps results that do not fit. Guards check that they fit; a call that fails one needs another trace, in which
the numbers are pinned and are NumPy's own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from anydml.fields import SHORT_INTEGERS
from anydml.tracing.open_sizes import OPEN_UFUNCS, OpenSize

SHORT_DTYPES = {name: np.dtype(name) for name in SHORT_INTEGERS}
"""Dtypes of such integers by NumPy's types."""


def kind_of(number: Any) -> Any:
    """Return the kind of an argument that stays open: `int` if it has as many bits as sizes, or NumPy's short type.

    None is returned for any other argument.
    """
    if type(number) is int:
        return int
    if isinstance(number, np.signedinteger) and number.itemsize == 8 and not isinstance(number, np.timedelta64):
        return int
    return type(number) if type(number) in SHORT_DTYPES else None


class ShortInteger:
    """An open integer of fewer than 64 bits, used like NumPy's.

    Args:
        open_size: the value of the integer.
        number_type: NumPy's type.
    """

    __slots__ = ("number_type", "open_size")

    def __init__(self, open_size: OpenSize, number_type: Any) -> None:
        self.open_size, self.number_type = open_size, number_type

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """NumPy's type, so that users' `isinstance` checks pass."""
        class_: type = self.number_type
        return class_

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype."""
        return SHORT_DTYPES[self.number_type]

    def item(self) -> OpenSize:
        """Return this number as a Python integer, like NumPy's integers."""
        return self.open_size

    def __neg__(self) -> Any:
        return apply_operator(operator.mul, self, -1)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return -self if self.open_size < 0 else self

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __bool__(self) -> bool:
        return bool(self.open_size)

    def __index__(self) -> int:
        return self.open_size.__index__()

    def __int__(self) -> int:
        return self.open_size.__index__()

    def __float__(self) -> float:
        return float(self.open_size.__index__())

    def __hash__(self) -> int:
        return hash(pinned_number(self))

    def __repr__(self) -> str:
        return repr(pinned_number(self))

    def __str__(self) -> str:
        return str(pinned_number(self))

    def __format__(self, spec: str) -> str:
        return format(pinned_number(self), spec)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(pinned_number(self), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        """Apply a ufunc; arithmetic with two numbers stays open."""
        if ufunc in OPEN_UFUNCS and method == "__call__" and not named:
            return apply_operator(OPEN_UFUNCS[ufunc], *inputs)
        return getattr(ufunc, method)(*map(pinned_number, inputs), **named)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the pinned value."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(pinned_number(self), name)


def apply_operator(function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """Apply an operator, as NumPy does, to two numbers, of which one is open and one is a short integer.

    Raises:
        OverflowError: the result or a Python integer does not fit, so that NumPy would wrap or refuse it.
    """
    numbers = x, y
    if not all(map(_is_number, numbers)):
        return function(pinned_number(x), pinned_number(y))
    types = [_type_of(number) for number in numbers]
    result_type = np.result_type(*[number_type for number_type in types if number_type not in (int, bool)])
    for number in numbers:
        if type(number) in (int, OpenSize):
            _check(number, result_type)
    result = function(as_open(x), as_open(y))
    if result_type.type not in SHORT_DTYPES:
        if result_type != np.int64:
            raise OverflowError(f"a result of {result_type}")
        return result
    _check(result, result_type)
    if type(result) is not OpenSize:
        open_number = next(as_open(number) for number in numbers if type(number) in (OpenSize, ShortInteger))
        result = open_number.scope.constant(result)
    return ShortInteger(result, result_type.type)


def _binary_methods(function: Callable[[Any, Any], Any], is_open: bool) -> tuple[Any, Any]:
    """Return the methods of an operator; if results cannot be open, they are computed with pinned numbers."""
    if not is_open:
        return lambda self, other: function(pinned_number(self), other), lambda self, other: function(
            other, pinned_number(self)
        )
    return (
        lambda self, other: apply_operator(function, self, other),
        lambda self, other: apply_operator(function, other, self),
    )


def _comparison(function: Callable[[Any, Any], Any]) -> Any:
    def compare(self: ShortInteger, other: Any) -> Any:
        if _is_number(other):
            return np.bool_(function(self.open_size, as_open(other)))
        return function(pinned_number(self), other)

    return compare


for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow", "lshift", "rshift", "and", "or", "xor"):
    _function = getattr(operator, f"{_name}_" if _name in ("and", "or") else _name)
    _method, _reflected = _binary_methods(_function, _name in ("add", "sub", "mul", "floordiv", "mod"))
    setattr(ShortInteger, f"__{_name}__", _method)
    setattr(ShortInteger, f"__r{_name}__", _reflected)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(ShortInteger, f"__{_name}__", _comparison(getattr(operator, _name)))


def as_kind(size: OpenSize, number_type: Any) -> Any:
    """Return an open number as an object of the kind that `kind_of` returned."""
    return size if number_type is int else ShortInteger(size, number_type)


def as_open(number: Any) -> Any:
    """Return a number as an integer or an open size."""
    return number.open_size if type(number) is ShortInteger else number if type(number) is OpenSize else int(number)


def pinned_number(number: Any) -> Any:
    """Pin an open number; a short integer becomes one of NumPy's."""
    if type(number) is ShortInteger:
        return number.number_type(number.open_size.__index__())
    return number.scope.pin_typed(number) if type(number) is OpenSize else number


def _type_of(number: Any) -> type:
    class_ = type(number)
    return (
        number.scope.type_of(number) if class_ is OpenSize else number.number_type if class_ is ShortInteger else class_
    )


def _is_number(number: Any) -> bool:
    return type(number) in (int, bool, OpenSize, ShortInteger) or isinstance(number, np.integer)


def _check(number: Any, dtype: np.dtype[Any]) -> None:
    """Check that a number fits a dtype, by guards if it is open.

    Raises:
        OverflowError: the number does not fit.
    """
    limits = np.iinfo(dtype)
    if number < int(limits.min) or number > int(limits.max):
        raise OverflowError(f"{number} does not fit {dtype}")
