"""Open sizes: integers of a trace that may differ in later calls.

A function is traced once for many shapes. Sizes, strides and integers of its arguments are numbers that calls provide;
arithmetic on them is recorded on a tape, which computes them anew in every call. Each has a value now.

    a comparison  ``if n > 1:`` is decided by the value; the outcome becomes a *guard*: others need another trace
    a number      ``range(n)``, ``len(x)`` need an integer: n is *pinned*, which is a guard on its value

So whatever Python does with a size, the trace is valid for every call that passes its guards; the fewer there are, the
more calls pass. A guard that holds for all numbers excludes no call, so sizes need no algebra.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np


class OpenSize:
    """An open size, used like an integer: the number in a register of the trace's tape, and a constant.

    Args:
        scope: the trace's `Scope`.
        register: the number of the register.
        addend: the constant.
        traced_value: their sum in the traced call.
    """

    __slots__ = ("addend", "register", "scope", "traced_value")

    def __init__(self, scope: Any, register: int, addend: int, traced_value: int) -> None:
        self.scope, self.register, self.addend, self.traced_value = scope, register, addend, traced_value

    @property
    def place(self) -> tuple[int, int]:
        """The register, and the constant that is added to it; equal sizes have equal pairs."""
        return self.register, self.addend

    def larger(self, other: Any) -> Any:
        """Return the larger of two numbers, without a guard on which one it is."""
        return self.scope.extreme_of_two(self, other, False)

    def smaller(self, other: Any) -> Any:
        """Return the smaller of two numbers; both may be open."""
        return self.scope.extreme_of_two(self, other, True)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The type of the number that it stands for, so that users' `isinstance` checks pass."""
        return self.scope.type_of(self) if self.scope.is_typed else int

    def __add__(self, other: Any) -> Any:
        class_ = type(other)
        if class_ is int:
            return (
                OpenSize(self.scope, self.register, self.addend + other, self.traced_value + other) if other else self
            )
        return self.scope.sum(self, other) if class_ is OpenSize else self._apply_pinned(operator.add, other)

    def __mul__(self, other: Any) -> Any:
        class_ = type(other)
        if class_ is int:
            return self.scope.multiply_by_constant(self, other)
        return self.scope.product(self, other) if class_ is OpenSize else self._apply_pinned(operator.mul, other)

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return -self if self < 0 else self

    def __sub__(self, other: Any) -> Any:
        class_ = type(other)
        if class_ is int:
            return self + -other
        return self.scope.difference(self, other) if class_ is OpenSize else self._apply_pinned(operator.sub, other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other if type(other) is int else self._apply_pinned(_swapped(operator.sub), other)

    def __floordiv__(self, other: Any) -> Any:
        if type(other) in (int, OpenSize):
            return self.scope.quotient(self, other)
        return self._apply_pinned(operator.floordiv, other)

    def __rfloordiv__(self, other: Any) -> Any:
        if type(other) is int:
            return self.scope.quotient(other, self)
        return self._apply_pinned(_swapped(operator.floordiv), other)

    def __mod__(self, other: Any) -> Any:
        if type(other) in (int, OpenSize):
            return self - self // other * other
        return self._apply_pinned(operator.mod, other)

    def __rmod__(self, other: Any) -> Any:
        return other - other // self * self if type(other) is int else self._apply_pinned(_swapped(operator.mod), other)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __eq__(self, other: object) -> Any:
        if type(other) is int or type(other) is OpenSize:
            size: Any = self - other
            return self._answer(other, self.scope.is_zero(size) if type(size) is OpenSize else size == 0)
        if _is_short(other):
            return NotImplemented
        is_number = isinstance(other, (int, float, complex, np.generic))
        return self._answer(other, self._apply_pinned(operator.eq, other) if is_number else False)

    def __ne__(self, other: object) -> Any:
        return self._answer(other, not self == other)

    def __lt__(self, other: Any) -> Any:
        if type(other) is int or type(other) is OpenSize:
            size = self - other
            return self._answer(other, self.scope.is_negative(size) if type(size) is OpenSize else size < 0)
        return NotImplemented if _is_short(other) else self._answer(other, self._apply_pinned(operator.lt, other))

    def __ge__(self, other: Any) -> Any:
        if type(other) is int or type(other) is OpenSize:
            return self._answer(other, not self < other)
        # Nothing is less than nan, nor is it at least nan.
        return NotImplemented if _is_short(other) else self._answer(other, self._apply_pinned(operator.ge, other))

    def __gt__(self, other: Any) -> Any:
        if type(other) is int or type(other) is OpenSize:
            size = other - self
            return self._answer(other, self.scope.is_negative(size) if type(size) is OpenSize else size < 0)
        return NotImplemented if _is_short(other) else self._answer(other, self._apply_pinned(operator.gt, other))

    def __le__(self, other: Any) -> Any:
        if type(other) is int or type(other) is OpenSize:
            return self._answer(other, not self > other)
        return NotImplemented if _is_short(other) else self._answer(other, self._apply_pinned(operator.le, other))

    def _answer(self, other: Any, answer: Any) -> Any:
        """Return the answer of a comparison: a bool of NumPy, which ``~`` negates, if a number is NumPy's."""
        is_numpys = isinstance(other, np.generic)
        if not is_numpys and self.scope.is_typed:
            is_numpys = self.scope.type_of(self) is not int or self.scope.type_of(other) is not int
        return np.bool_(answer) if is_numpys else bool(answer)

    def _apply_pinned(self, function: Callable[[Any, Any], Any], other: Any) -> Any:
        """Apply an operator to this size's pinned value and an operand that is neither a size nor an `int`."""
        if _is_short(other):
            return NotImplemented
        if isinstance(other, bool) or (isinstance(other, np.signedinteger) and other.itemsize == 8):
            return function(self, int(other))
        return function(self.scope.pin_typed(self), other)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __index__(self) -> int:
        number: int = self.scope.pin(self)
        return number

    def __int__(self) -> int:
        return self.__index__()

    def __hash__(self) -> int:
        return hash(self.__index__())

    def __truediv__(self, other: Any) -> Any:
        return self.scope.pin_typed(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.scope.pin_typed(self)

    def __lshift__(self, other: Any) -> Any:
        return self.scope.pin_typed(self) << other

    def __rlshift__(self, other: Any) -> Any:
        return other << self.scope.pin_typed(self)

    def __rshift__(self, other: Any) -> Any:
        return self.scope.pin_typed(self) >> other

    def __rrshift__(self, other: Any) -> Any:
        return other >> self.scope.pin_typed(self)

    def __and__(self, other: Any) -> Any:
        return self.scope.pin_typed(self) & other

    def __rand__(self, other: Any) -> Any:
        return other & self.scope.pin_typed(self)

    def __or__(self, other: Any) -> Any:
        return self.scope.pin_typed(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | self.scope.pin_typed(self)

    def __xor__(self, other: Any) -> Any:
        return self.scope.pin_typed(self) ^ other

    def __rxor__(self, other: Any) -> Any:
        return other ^ self.scope.pin_typed(self)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        # Python also calls the method of the modulus, and compiled code does so with a base of any type.
        if type(self) is OpenSize and type(other) is int and 0 <= other <= 8 and modulus is None:
            return math.prod([self] * other)
        base = self.scope.pin_typed(self) if type(self) is OpenSize else self
        return pow(base, other, None if modulus is None else operator.index(modulus))

    def __rpow__(self, other: Any, modulus: Any = None) -> Any:
        return pow(other, self.scope.pin_typed(self), None if modulus is None else operator.index(modulus))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        """Apply a ufunc; arithmetic with NumPy scalars stays open."""
        if ufunc in OPEN_UFUNCS and method == "__call__" and not named and all(map(np.isscalar, inputs)):
            if any(map(_is_short, inputs)):
                return NotImplemented
            # NumPy wraps all other numbers.
            if all(x.dtype == np.int64 for x in inputs if isinstance(x, np.integer)):
                return OPEN_UFUNCS[ufunc](*(x.item() if isinstance(x, np.integer) else x for x in inputs))
        return getattr(ufunc, method)(*(x.scope.pin_typed(x) if type(x) is OpenSize else x for x in inputs), **named)

    def __float__(self) -> float:
        return float(self.scope.pin(self))

    def __repr__(self) -> str:
        return repr(self.scope.pin_typed(self))

    def __str__(self) -> str:
        return str(self.scope.pin(self))

    def __format__(self, spec: str) -> str:
        return format(self.scope.pin(self), spec)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the pinned value."""
        number_type = self.scope.type_of(self)
        if not hasattr(int if name.startswith("__") else number_type, name):
            raise AttributeError(name)
        return (lambda: self.scope.as_int(self)) if name == "item" else getattr(self.scope.pin_typed(self), name)


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda first, second: function(second, first)


OPEN_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.minimum: min,
    np.maximum: max,
}
"""Ufuncs whose results of open numbers are open."""


def _is_short(number: Any) -> bool:
    """Whether a number is a short integer, whose class does the operation."""
    return isinstance(number, np.integer) and not issubclass(type(number), np.generic)


def is_open(values: Any) -> bool:
    """Whether a number is open, or a sequence contains an open one."""
    return any(type(value) is OpenSize for value in values)
