"""The open sizes of a trace: the tape that computes them, and the decisions on them (see `open_sizes`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.tracing.open_sizes import OpenSize
from anydml.tracing.tape import (
    ADD,
    AT_LEAST,
    AT_MOST,
    CONSTANT,
    DIFFERS,
    FLOOR,
    LARGER,
    MULTIPLY,
    PROVIDED,
    SMALLER,
    SUBTRACT,
    Tape,
)


class Scope:
    """The open sizes of one trace.

    Args:
        input_count: number of the integers that a call provides.

    Attributes:
        tape: the steps so far.
        pins: descriptions of the pinned sizes and of the lines that needed them.
        is_typed: whether comparisons return NumPy's bools for NumPy's integers, as in the traced function.
        longs: for registers that may hold an np.int64, a flag (possibly an open size) that tells whether they do.
    """

    def __init__(self, input_count: int = 0) -> None:
        self.tape = Tape(input_count)
        self.pins: dict[str, None] = {}
        self.is_typed = False
        self.longs: dict[int, OpenSize | int] = {}
        self._extremes: dict[int, tuple[Any, Any, bool]] = {}
        self._low: dict[int, int] = {}
        self._high: dict[int, int] = {}

    def variable(self, argument_number: int, value: int, min_value: int | None = None) -> OpenSize:
        """Return a number that calls provide.

        Args:
            argument_number: the place of the number among those that calls provide.
            value: the number's value in the traced call.
            min_value: the minimum in all calls, if there is one.
        """
        if min_value is not None:
            self._low[argument_number] = min_value
        return OpenSize(self, argument_number, 0, value)

    def constant(self, number: int) -> OpenSize:
        """Return a number that is the same in all calls, as a size."""
        return OpenSize(self, self.tape.step(CONSTANT, number, 0), 0, number)

    def register(self, size: Any) -> int:
        """Return the register of a size, or of an integer; add its steps if necessary."""
        if type(size) is not OpenSize:
            return self.tape.step(CONSTANT, size, 0)
        return (
            self.tape.step(ADD, size.register, self.tape.step(CONSTANT, size.addend, 0))
            if size.addend
            else size.register
        )

    def sum(self, x: OpenSize, y: OpenSize) -> Any:
        """Add x and y."""
        first_register, second_register, addend, value = (
            x.register,
            y.register,
            x.addend + y.addend,
            x.traced_value + y.traced_value,
        )
        for first, second in ((first_register, second_register), (second_register, first_register)):
            operation, minuend, subtrahend = self.tape.step_of(first)
            if operation == SUBTRACT and subtrahend == second:
                return OpenSize(self, minuend, addend, value)
        return OpenSize(
            self,
            self.tape.step(ADD, min(first_register, second_register), max(first_register, second_register)),
            addend,
            value,
        )

    def difference(self, x: OpenSize, y: OpenSize) -> Any:
        """Subtract y from x."""
        if (difference := self._known_difference(x, y)) is not None:
            return difference
        if (difference := self._known_difference(y, x)) is not None:
            return -difference
        return OpenSize(
            self, self.tape.step(SUBTRACT, x.register, y.register), x.addend - y.addend, x.traced_value - y.traced_value
        )

    def _known_difference(self, x: OpenSize, y: OpenSize) -> Any:
        """Subtract y from x if that takes no further step; else return None."""
        first_register, second_register, addend, value = (
            x.register,
            y.register,
            x.addend - y.addend,
            x.traced_value - y.traced_value,
        )
        if first_register == second_register:
            return addend
        operation, first, second = self.tape.step_of(first_register)
        if operation == ADD and second_register in (first, second):
            return OpenSize(self, second if second_register == first else first, addend, value)
        operation, first, second = self.tape.step_of(second_register)
        if operation == SUBTRACT and first_register == first:
            return OpenSize(self, second, addend, value)
        return (
            OpenSize(self, self.tape.step(SUBTRACT, first_register, second_register), addend, value)
            if self.tape.has_step(SUBTRACT, first_register, second_register)
            else None
        )

    def multiply_by_constant(self, size: OpenSize, factor: int) -> Any:
        """Multiply a size by an integer."""
        if factor == 1:
            return size
        if not factor:
            return 0
        register, by = self._scaled(size.register)
        addend, value, by = size.addend * factor, size.traced_value * factor, by * factor
        if by == 1:
            return OpenSize(self, register, addend, value)
        return OpenSize(self, self.tape.step(MULTIPLY, register, self.tape.step(CONSTANT, by, 0)), addend, value)

    def _scaled(self, register: int) -> tuple[int, int]:
        """Return a register and an integer whose product is the value of the given register."""
        operation, first, second = self.tape.step_of(register)
        if operation == MULTIPLY and self.tape.step_of(second)[0] == CONSTANT:
            return first, self.tape.step_of(second)[1]
        return register, 1

    def product(self, x: OpenSize, y: OpenSize) -> Any:
        """Multiply two sizes."""
        first_register, second_register = self.register(x), self.register(y)
        if first_register > second_register:
            first_register, second_register = second_register, first_register
        return OpenSize(
            self, self.tape.step(MULTIPLY, first_register, second_register), 0, x.traced_value * y.traced_value
        )

    def quotient(self, dividend: Any, by: Any) -> Any:
        """Divide with rounding down."""
        divisor = by.traced_value if type(by) is OpenSize else by
        if not divisor:
            raise ZeroDivisionError("integer division or modulo by zero")
        value = (dividend.traced_value if type(dividend) is OpenSize else dividend) // divisor
        if type(dividend) is OpenSize and type(by) is int and by > 0:
            register, factor = self._scaled(dividend.register)
            if factor % by == 0:
                inner = OpenSize(self, register, 0, (dividend.traced_value - dividend.addend) // factor)
                return self.multiply_by_constant(inner, factor // by) + dividend.addend // by
            carried, addend = divmod(dividend.addend, by)
            register = self.register(OpenSize(self, dividend.register, addend, dividend.traced_value - carried * by))
            return OpenSize(self, self.tape.step(FLOOR, register, self.register(by)), carried, value)
        return OpenSize(self, self.tape.step(FLOOR, self.register(dividend), self.register(by)), 0, value)

    def extreme(self, sizes: Sequence[Any], is_minimum: bool = False) -> Any:
        """Return the maximum, or minimum, of sizes and integers, without a guard on which one it is."""
        if len(sizes) == 2:
            return self.extreme_of_two(sizes[0], sizes[1], is_minimum)
        each_once = sorted({self._sort_key(size): size for size in sizes}.items(), key=lambda item: item[0])
        extreme, *other_sizes = [size for _, size in each_once]
        for size in other_sizes:
            extreme = self._extreme(extreme, size, is_minimum)
        return extreme

    def extreme_of_two(self, x: Any, y: Any, is_minimum: bool) -> Any:
        """Return the maximum, or minimum, of two sizes or integers, without a guard on which one it is."""
        if self._is_at_least(x, y):
            return y if is_minimum else x
        if self._is_at_least(y, x):
            return x if is_minimum else y
        # Equal extremes share a step.
        if self._comes_before(y, x):
            return self._extreme(y, x, is_minimum)
        return self._extreme(x, y, is_minimum)

    def _extreme(self, first: Any, second: Any, is_minimum: bool) -> Any:
        # A constant that the result has need not be added before.
        addend = first.addend if type(first) is OpenSize else second.addend
        x, y = first - addend, second - addend
        register = self.tape.step(SMALLER if is_minimum else LARGER, self.register(x), self.register(y))
        self._extremes[register] = x, y, is_minimum
        (low, high), (other_low, other_high) = self._bounds(x), self._bounds(y)
        value, other_value = _value(x), _value(y)
        if is_minimum:
            self._note_bounds(
                register, _extreme_of_known(low, other_low, True), _extreme_of_any(high, other_high, True)
            )
            return OpenSize(self, register, addend, min(value, other_value) + addend)
        self._note_bounds(register, _extreme_of_any(low, other_low, False), _extreme_of_known(high, other_high, False))
        return OpenSize(self, register, addend, max(value, other_value) + addend)

    def _note_bounds(self, register: int, low: int | None, high: int | None) -> None:
        if low is not None:
            self._low[register] = low
        if high is not None:
            self._high[register] = high

    def _bounds(self, size: Any) -> tuple[int | None, int | None]:
        """Return the minimum and the maximum of a number in all calls, as far as they are known."""
        if type(size) is not OpenSize:
            return size, size
        low, high = self._low.get(size.register), self._high.get(size.register)
        return None if low is None else low + size.addend, None if high is None else high + size.addend

    def _is_at_least(self, x: Any, y: Any) -> bool:
        """Whether x is known to be y or larger."""
        low, high = self._bounds(x)[0], self._bounds(y)[1]
        if low is not None and high is not None:
            return low >= high
        if type(x) is not OpenSize or type(y) is not OpenSize or (difference := self._known_difference(x, y)) is None:
            return False
        low = self._bounds(difference)[0]
        return low is not None and low >= 0

    def _comes_before(self, x: Any, y: Any) -> bool:
        """Whether x comes before y in the order of `_sort_key`."""
        if type(x) is not OpenSize or type(y) is not OpenSize:
            return type(x) is not OpenSize
        return x.register < y.register or (x.register == y.register and x.addend < y.addend)

    @staticmethod
    def _sort_key(size: Any) -> tuple[int, int]:
        return (size.register, size.addend) if type(size) is OpenSize else (-1, size)

    def is_zero(self, size: OpenSize) -> bool:
        """Whether a size is 0; adds a guard if this does not hold for all calls."""
        register, bound = size.register, -size.addend
        low, high = self._low.get(register), self._high.get(register)
        if (low is not None and bound < low) or (high is not None and bound > high):
            return False
        if low is not None and low == high:
            return True
        tape = self.tape
        if not size.traced_value:
            tape.step(AT_LEAST, register, bound)
            tape.step(AT_MOST, register, bound)
            self._low[register] = self._high[register] = bound
            return True
        if bound == low:
            tape.step(AT_LEAST, register, bound + 1)
            self._low[register] = bound + 1
        elif bound == high:
            tape.step(AT_MOST, register, bound - 1)
            self._high[register] = bound - 1
        else:
            tape.step(DIFFERS, register, bound)
        return False

    def is_negative(self, size: OpenSize) -> bool:
        """Whether a size is negative; adds a guard if this does not hold for all calls."""
        register, negative_up_to = size.register, -size.addend - 1
        low, high = self._low.get(register), self._high.get(register)
        if high is not None and high <= negative_up_to:
            return True
        if low is not None and low > negative_up_to:
            return False
        if size.traced_value < 0:
            self.tape.step(AT_MOST, register, negative_up_to)
            self._high[register] = negative_up_to
            return True
        self.tape.step(AT_LEAST, register, negative_up_to + 1)
        self._low[register] = negative_up_to + 1
        return False

    def is_known(self, size: OpenSize) -> bool:
        """Whether all calls have the same value."""
        low = self._low.get(size.register)
        return low is not None and low == self._high.get(size.register)

    def pin(self, size: OpenSize, why: str = "") -> int:
        """Pin a size to its value in this call, by a guard. `why` is the reason, by default a line of the caller."""
        if not self.is_known(size):
            self.pins.setdefault(
                f"traced anew for other sizes, since {why or f'{_caller()} needs the number {size.traced_value}'}"
            )
            self.is_zero(size - size.traced_value)
        return size.traced_value

    def type_of(self, size: Any) -> type:
        """Return the type of a number: NumPy's if it is computed from a number of NumPy's, else `int`; by guards."""
        if not self.longs or type(size) is not OpenSize:
            return int
        waiting, visited = [size.register], set[int]()
        while waiting:
            register = waiting.pop()
            if (flag := self.longs.get(register)) is not None:
                if type(flag) is OpenSize and not self.is_zero(flag):
                    return np.int64
                continue
            operation, first, second = self.tape.step_of(register)
            if operation in (CONSTANT, PROVIDED) or register in visited:
                continue
            visited.add(register)
            if operation not in (LARGER, SMALLER):
                waiting += [first, second]
            elif self._type_of_extreme(*self._extremes[register]) is not int:
                return np.int64
        return int

    def _type_of_extreme(self, x: Any, y: Any, is_minimum: bool) -> type:
        """Return the type of a maximum or minimum: that of the larger, or smaller, number."""
        types = self.type_of(x), self.type_of(y)
        if types[0] is types[1]:
            return types[0]
        difference = x - y
        is_less = self.is_negative(difference) if type(difference) is OpenSize else difference < 0
        # Of equal numbers, Python returns the first. Which of the two came first is unknown here; x is assumed.
        return types[is_less is not is_minimum]

    def as_int(self, size: OpenSize) -> OpenSize:
        """Return a number as one of Python's."""
        register = self.register(size)
        copied = self.tape.step(SMALLER, register, register)
        self.longs[copied] = 0
        return OpenSize(self, copied, 0, size.traced_value)

    def pin_typed(self, size: OpenSize) -> Any:
        """Pin a size, and return the number, converted to the size's type."""
        return self.type_of(size)(self.pin(size))


def _value(size: Any) -> int:
    return size.traced_value if type(size) is OpenSize else size


def _extreme_of_known(bound: Any, other: Any, is_minimum: bool) -> Any:
    """Return the minimum, or maximum, of two bounds; None if a bound is unknown."""
    if bound is None or other is None:
        return None
    return min(bound, other) if is_minimum else max(bound, other)


def _extreme_of_any(bound: Any, other: Any, is_minimum: bool) -> Any:
    """Return the minimum, or maximum, of two bounds; if only one is known, that one."""
    if bound is None or other is None:
        return other if bound is None else bound
    return min(bound, other) if is_minimum else max(bound, other)


def _caller() -> str:
    """Return the file and line of the traced function, or of a function outside this package that it called."""
    frame: Any = sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in ("anydml", "numpy", "einops"):
        frame = frame.f_back
    return "a call" if frame is None else f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"
