"""Calls of a plan that come often, each as a single step of compiled code."""

from __future__ import annotations

from anydml.engines.protocol import Array, Launch, Launches, Start
from anydml.moves import Program

OFTEN = 16
"""Calls of a plan after which it is asked whether they should become a single step."""


class QuickCall:
    """A plan's calls, counted until there is a step that does them.

    Args:
        launches: what makes such steps; None where nothing does.
        program: what a call does.

    Attributes:
        launch: does a whole call; None as long as nothing does.
        start: its own.
    """

    __slots__ = ("_calls", "_launches", "_program", "_wait", "launch", "start")

    def __init__(self, launches: Launches | None, program: Program) -> None:
        self.start: Start | None = None
        self.launch: Launch | None = None
        self._launches = launches
        self._program = program
        self._calls, self._wait = 0, OFTEN

    def run(self, operands: tuple[Array, ...]) -> bool:
        """Whether a call was done: nothing was if there is no step yet, or these arrays do not fit it."""
        if self.start is not None:
            return not self.start(id(operands))
        self._calls += 1
        if self._calls == self._wait:
            self._ask(operands)
        return False

    def _ask(self, operands: tuple[Array, ...]) -> None:
        launches = self._launches
        if launches is None or not (often := launches.often(self._calls)):
            return
        if self._calls < often:
            self._wait = often
            return
        # Layouts, not arrays: what waits for the compiler keeps nobody's memory.
        layouts = [(array.shape, array.strides, array.dtype) for array in operands]
        inputs = sum(operand.role == "input" for operand in self._program.operands)
        launches.ask(self._program, layouts, inputs, self._ready)

    def _ready(self, launch: Launch) -> None:
        self.launch = launch
        self.start = launch.start
