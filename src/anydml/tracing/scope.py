"""The open sizes of a trace: the tape that computes them, and the decisions on them (see `sizes`)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
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
    """

    def __init__(self, input_count: int = 0) -> None:
        self.tape = Tape(input_count)
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
        """Return a number that is the same in all calls, as a size."""
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
        if (difference := self._known_difference(x, y)) is not None:
            return difference
        if (difference := self._known_difference(y, x)) is not None:
            return -difference
        return Size(self, self.tape.step(SUBTRACT, x.register, y.register), x.plus - y.plus, x.value - y.value)

    def _known_difference(self, x: Size, y: Size) -> Any:
        """Subtract y from x if that takes no further step; else return None."""
        a, b, plus, value = x.register, y.register, x.plus - y.plus, x.value - y.value
        if a == b:
            return plus
        kind, first, second = self.tape.of(a)
        if kind == ADD and b in (first, second):
            return Size(self, second if b == first else first, plus, value)
        kind, first, second = self.tape.of(b)
        if kind == SUBTRACT and a == first:
            return Size(self, second, plus, value)
        return Size(self, self.tape.step(SUBTRACT, a, b), plus, value) if self.tape.has(SUBTRACT, a, b) else None

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
        if len(sizes) == 2:
            x, y = sizes
            if self._is_at_least(x, y):
                return y if is_least else x
            if self._is_at_least(y, x):
                return x if is_least else y
        each_once = sorted({self._place(size): size for size in sizes}.items(), key=lambda item: item[0])
        extreme, *others = [size for _, size in each_once]
        for size in others:
            # A constant that the result has need not be added before.
            plus = extreme.plus if type(extreme) is Size else size.plus
            extreme = self._extreme(extreme - plus, size - plus, is_least) + plus
        return extreme

    def _extreme(self, x: Any, y: Any, is_least: bool) -> Size:
        register = self.tape.step(SMALLER if is_least else LARGER, self.register(x), self.register(y))
        (low, high), (other_low, other_high) = self._bounds(x), self._bounds(y)
        values = _value(x), _value(y)
        if is_least:
            self._note_bounds(register, _of_both(min, low, other_low), _of_either(min, high, other_high))
            return Size(self, register, 0, min(values))
        self._note_bounds(register, _of_either(max, low, other_low), _of_both(max, high, other_high))
        return Size(self, register, 0, max(values))

    def _note_bounds(self, register: int, low: int | None, high: int | None) -> None:
        if low is not None:
            self._low[register] = low
        if high is not None:
            self._high[register] = high

    def _bounds(self, size: Any) -> tuple[int | None, int | None]:
        """Return the minimum and the maximum of a number in all calls, as far as they are known."""
        if type(size) is not Size:
            return size, size
        low, high = self._low.get(size.register), self._high.get(size.register)
        return None if low is None else low + size.plus, None if high is None else high + size.plus

    def _is_at_least(self, x: Any, y: Any) -> bool:
        """Whether x is known to be y or larger."""
        low, high = self._bounds(x)[0], self._bounds(y)[1]
        if low is not None and high is not None:
            return low >= high
        if type(x) is not Size or type(y) is not Size or (difference := self._known_difference(x, y)) is None:
            return False
        low = self._bounds(difference)[0]
        return low is not None and low >= 0

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


def _of_both(extreme: Callable[[int, int], int], bound: int | None, other: int | None) -> int | None:
    return None if bound is None or other is None else extreme(bound, other)


def _of_either(extreme: Callable[[int, int], int], bound: int | None, other: int | None) -> int | None:
    return other if bound is None else bound if other is None else extreme(bound, other)


def _caller() -> str:
    """Return the file and line of the traced function, or of a function outside this package that it called."""
    frame: Any = sys._getframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).split(".")[0] in ("anydml", "numpy", "einops"):
        frame = frame.f_back
    return "a call" if frame is None else f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"
