"""Tapes: lists of steps that compute a call's open sizes and check its guards.

A tape has registers: the numbers of a call first, then one per step. The compiled core runs the same steps.
"""

from __future__ import annotations

from collections.abc import Sequence

CONSTANT, ADD, SUBTRACT, MULTIPLY, FLOOR, LARGER, SMALLER, PROVIDED, AT_LEAST, AT_MOST, DIFFERS = range(11)
"""Kinds of steps. `PROVIDED` is a number that a call provides later; the last three are guards, without a result."""

Step = tuple[int, int, int]


class Tape:
    """The steps of a trace, in the order of its decisions.

    Args:
        input_count: number of registers that a call provides.

    Attributes:
        input_count: as above.
        steps: kind and two register numbers; the first of `CONSTANT` and the second of a guard are numbers themselves.
    """

    def __init__(self, input_count: int) -> None:
        self.input_count = input_count
        self.steps: list[Step] = []
        self._registers: dict[Step, int] = {}

    def step(self, operation: int, a: int, b: int) -> int:
        """Return the register of a step; equal steps share one."""
        key = operation, a, b
        register = self._registers.get(key)
        if register is None:
            register = self._registers[key] = self.input_count + len(self.steps)
            self.steps.append(key)
        return register

    def has_step(self, operation: int, a: int, b: int) -> bool:
        """Whether there is such a step."""
        return (operation, a, b) in self._registers

    def step_of(self, register: int) -> Step:
        """Return the step of a register, which is `PROVIDED` for the numbers of a call."""
        return self.steps[register - self.input_count] if register >= self.input_count else (PROVIDED, 0, 0)

    def add_provided(self, count: int) -> list[int]:
        """Add registers for numbers that a call provides later, such as the strides of its results."""
        first = self.input_count + len(self.steps)
        self.steps += [(PROVIDED, 0, 0)] * count
        return [*range(first, first + count)]

    def run(self, registers: list[int], steps: Sequence[Step]) -> bool:
        """Run steps, appending to the registers; return False if a guard fails."""
        for operation, a, b in steps:
            number = 0
            if operation == CONSTANT:
                number = a
            elif operation == ADD:
                number = registers[a] + registers[b]
            elif operation == SUBTRACT:
                number = registers[a] - registers[b]
            elif operation == MULTIPLY:
                number = registers[a] * registers[b]
            elif operation == FLOOR:
                if not registers[b]:
                    return False
                number = registers[a] // registers[b]
            elif operation == LARGER:
                number = max(registers[a], registers[b])
            elif operation == SMALLER:
                number = min(registers[a], registers[b])
            elif (
                (operation == AT_LEAST and registers[a] < b)
                or (operation == AT_MOST and registers[a] > b)
                or (operation == DIFFERS and registers[a] == b)
            ):
                return False
            registers.append(number)
        return True
