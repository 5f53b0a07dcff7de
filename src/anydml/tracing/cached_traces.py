"""The traces of a fused function, and the reasons for tracing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from anydml.tracing.call_arguments import CallArguments
from anydml.tracing.call_differences import Selection, difference, selection_of
from anydml.tracing.traced_program import TracedProgram

MAX_TRACES = 64
"""Maximum number of traces per key of a call."""

MAX_BYTES = 32 << 20
"""Maximum of the approximate bytes of all traces of a function."""

MAX_REASONS = 4
"""Maximum number of reasons for tracing that are remembered."""


class CachedTraces:
    """The traces of a function by the keys of calls; the newest are tried first."""

    def __init__(self) -> None:
        self._traces: dict[Hashable, list[TracedProgram]] = {}
        self._bytes = 0

    def find_trace(self, key: Hashable, call: CallArguments) -> tuple[TracedProgram, Sequence[int]] | None:
        """Return the first trace whose guards a call passes, and the call's registers; None if there is none."""
        for trace in self._traces.get(key, []):
            registers = None if trace.surrounding_values.change() else trace.registers(call.numbers)
            if registers is not None:
                return trace, registers
        return None

    def add(self, key: Hashable, trace: TracedProgram) -> None:
        """Keep a trace; drop all others if there would be too many."""
        traces = self._traces.get(key, [])
        self._bytes += trace.weight
        if len(traces) >= MAX_TRACES or self._bytes > MAX_BYTES:
            self._traces.clear()
            self._bytes, traces = trace.weight, []
        self._traces[key] = [trace, *traces]


class LatestTrace:
    """The latest trace of a function, and the differences of the calls that led to new traces.

    Attributes:
        reasons: the latest of these differences.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.reasons: list[str] = []
        self._function = function
        self._trace: TracedProgram | None = None
        self._selection: Selection = [], []
        self._numbers: Sequence[int] = ()

    def difference(self, arguments: tuple[Any, ...], keywords: dict[str, Any], call: CallArguments) -> str:
        """Return the difference between a call and the call of the latest trace."""
        if self._trace is None:
            return "nothing was traced"
        difference_text = difference(self._function, self._selection, selection_of(arguments, keywords))
        return difference_text or self._trace.refusal(call.numbers) or "its trace was dropped for others"

    def note_reason(self, arguments: tuple[Any, ...], keywords: dict[str, Any], call: CallArguments) -> None:
        """Note why a call is traced, unless it is the first."""
        if self._trace is not None:
            self.reasons = [*self.reasons, self.difference(arguments, keywords, call)][-MAX_REASONS:]

    def note(
        self, trace: TracedProgram, arguments: tuple[Any, ...], keywords: dict[str, Any], call: CallArguments
    ) -> None:
        """Note the trace of a call."""
        self._trace, self._selection, self._numbers = trace, selection_of(arguments, keywords), (*call.numbers,)

    def registers(self) -> tuple[TracedProgram, Sequence[int]] | None:
        """Return the trace and the registers of the call that was traced; None before the first."""
        registers = None if self._trace is None else self._trace.registers(self._numbers)
        return None if self._trace is None or registers is None else (self._trace, registers)
