"""The open sizes of a trace: the tape that computes them, and the decisions on them (see `sizes`)."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from anydml.tracing.sizes import Size
from anydml.tracing.tape import (
    ADD,
    AT_LEAST,
    AT_MOST,
    CONSTANT,
    DIFFERS,
    FLOOR,
    LARGER,
    MULTIPLY,
    SUBTRACT,
    Tape,
)


class Scope:
    """The open sizes of one trace.

    Args:
        input_count: number of the integers that a call provides.
        is_clamped: whether sizes are compared by maxima and minima where possible, rather than by guards.

    Attributes:
        tape: the steps so far.
        pins: descriptions of the pinned sizes and of the lines that needed them.
    """

    def __init__(self, input_count: int = 0, is_clamped: bool = False) -> None:
        self.tape = Tape(input_count)
        self.is_clamped = is_clamped
        self.pins: dict[str, None] = {}
        self._low: dict[int, int] = {}
        self._high: dict[int, int] = {}

    def variable(self, number: int, value: int, min_value: int | None = None) -> Size:
        """Return a number that calls provide.

        Args:
            number: its place among these numbers.
            value: its value in the traced call.
            min_value: its minimum in all calls, if there is one.
        """
        if min_value is not None:
            self._low[number] = min_value
        return Size(self, number, 0, value)

    def constant(self, number: int) -> Size:
        """Return a size that equals another one in all calls."""
        return Size(self, self.tape.step(CONSTANT, number, 0), 0, number)

    def register(self, size: Any) -> int:
        """Return the register of a size, or of an integer; add its steps if necessary."""
        if type(size) is not Size:
            return self.tape.step(CONSTANT, size, 0)
        return (
            self.tape.step(ADD, size.register, self.tape.step(CONSTANT, size.plus, 0)) if size.plus else size.register
        )

    def sum(self, x: Size, y: Size) -> Any:
        """Add x and y."""
        a, b, plus, value = x.register, y.register, x.plus + y.plus, x.value + y.value
        for first, second in ((a, b), (b, a)):
            kind, minuend, subtrahend = self.tape.of(first)
            if kind == SUBTRACT and subtrahend == second:
                return Size(self, minuend, plus, value)
        return Size(self, self.tape.step(ADD, min(a, b), max(a, b)), plus, value)

    def difference(self, x: Size, y: Size) -> Any:
        """Subtract y from x."""
        a, b, plus, value = x.register, y.register, x.plus - y.plus, x.value - y.value
        if a == b:
            return plus
        kind, first, second = self.tape.of(a)
        if kind == ADD and b in (first, second):
            return Size(self, second if b == first else first, plus, value)
        if kind == SUBTRACT and b == first:
            return Size(self, second, -plus, -value) * -1
        kind, first, second = self.tape.of(b)
        if kind == SUBTRACT and a == first:
            return Size(self, second, plus, value)
        return Size(self, self.tape.step(SUBTRACT, a, b), plus, value)

    def times(self, size: Size, factor: int) -> Any:
        """Multiply a size by an integer."""
        if factor == 1:
            return size
        if not factor:
            return 0
        register, by = self._scaled(size.register)
        plus, value, by = size.plus * factor, size.value * factor, by * factor
        if by == 1:
            return Size(self, register, plus, value)
        return Size(self, self.tape.step(MULTIPLY, register, self.tape.step(CONSTANT, by, 0)), plus, value)

    def _scaled(self, register: int) -> tuple[int, int]:
        """Return a register and an integer whose product is the value of the given register."""
        kind, first, second = self.tape.of(register)
        if kind == MULTIPLY and self.tape.of(second)[0] == CONSTANT:
            return first, self.tape.of(second)[1]
        return register, 1

    def product(self, x: Size, y: Size) -> Any:
        """Multiply two sizes."""
        a, b = self.register(x), self.register(y)
        if a > b:
            a, b = b, a
        return Size(self, self.tape.step(MULTIPLY, a, b), 0, x.value * y.value)

    def quotient(self, dividend: Any, by: Any) -> Any:
        """Divide with rounding down."""
        divisor = by.value if type(by) is Size else by
        if not divisor:
            raise ZeroDivisionError("integer division or modulo by zero")
        value = (dividend.value if type(dividend) is Size else dividend) // divisor
        if type(dividend) is Size and type(by) is int and by > 0:
            register, factor = self._scaled(dividend.register)
            if factor % by == 0:
                inner = Size(self, register, 0, (dividend.value - dividend.plus) // factor)
                return self.times(inner, factor // by) + dividend.plus // by
            carried, plus = divmod(dividend.plus, by)
            register = self.register(Size(self, dividend.register, plus, dividend.value - carried * by))
            return Size(self, self.tape.step(FLOOR, register, self.register(by)), carried, value)
        return Size(self, self.tape.step(FLOOR, self.register(dividend), self.register(by)), 0, value)

    def extreme(self, sizes: Sequence[Any], is_least: bool = False) -> Any:
        """Return the maximum, or minimum, of sizes and integers, without a guard on which one it is."""
        if is_least:
            return -self.extreme([-size for size in sizes])
        if len(sizes) == 2 and (extreme := self._known_extreme(sizes[0], sizes[1])) is not None:
            return extreme
        each_once = sorted({self._place(size): size for size in sizes}.items(), key=lambda item: item[0])
        extreme, *others = [size for _, size in each_once]
        for size in others:
            register = self.tape.step(LARGER, self.register(extreme), self.register(size))
            extreme = Size(self, register, 0, max(_value(extreme), _value(size)))
        return extreme

    def _known_extreme(self, x: Any, y: Any) -> Any:
        """Return the larger of two numbers; None if it is not the same one in all calls."""
        difference = x - y
        if type(difference) is Size:
            low, high = (bounds.get(difference.register) for bounds in (self._low, self._high))
            if low is not None and low + difference.plus >= 0:
                return x
            return y if high is not None and high + difference.plus <= 0 else None
        return x if difference >= 0 else y

    @staticmethod
    def _place(size: Any) -> tuple[int, int]:
        return (size.register, size.plus) if type(size) is Size else (-1, size)

    def is_zero(self, size: Size) -> bool:
        """Whether a size is 0; adds a guard if this does not hold for all calls."""
        register, place = size.register, -size.plus
        low, high = self._low.get(register), self._high.get(register)
        if (low is not None and place < low) or (high is not None and place > high):
            return False
        if low is not None and low == high:
            return True
        tape = self.tape
        if not size.value:
            tape.step(AT_LEAST, register, place)
            tape.step(AT_MOST, register, place)
            self._low[register] = self._high[register] = place
            return True
        if place == low:
            tape.step(AT_LEAST, register, place + 1)
            self._low[register] = place + 1
        elif place == high:
            tape.step(AT_MOST, register, place - 1)
            self._high[register] = place - 1
        else:
            tape.step(DIFFERS, register, place)
        return False

    def is_negative(self, size: Size) -> bool:
        """Whether a size is negative; adds a guard if this does not hold for all calls."""
        register, negative_up_to = size.register, -size.plus - 1
        low, high = self._low.get(register), self._high.get(register)
        if high is not None and high <= negative_up_to:
            return True
        if low is not None and low > negative_up_to:
            return False
        if size.value < 0:
            self.tape.step(AT_MOST, register, negative_up_to)
            self._high[register] = negative_up_to
            return True
        self.tape.step(AT_LEAST, register, negative_up_to + 1)
        self._low[register] = negative_up_to + 1
        return False

    def is_known(self, size: Size) -> bool:
        """Whether all calls have the same value."""
        low = self._low.get(size.register)
        return low is not None and low == self._high.get(size.register)

    def pinned(self, size: Size, why: str = "") -> int:
        """Pin a size to its value in this call, by a guard. `why` is the reason, by default a line of the caller."""
        if not self.is_known(size):
            self.pins.setdefault(
                f"traced anew for other sizes, since {why or f'{_caller()} needs the number {size.value}'}"
            )
            self.is_zero(size - size.value)
        return size.value


def _value(size: Any) -> int:
    return size.value if type(size) is Size else size


def _caller() -> str:
    """Return the file and line of the traced function, or of a function outside this package that it called."""
    frame: Any = sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in ("anydml", "numpy", "einops"):
        frame = frame.f_back
    return "a call" if frame is None else f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"
