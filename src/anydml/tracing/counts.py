"""Counts of a fused function's traces and calls."""

from __future__ import annotations

from typing import NamedTuple

from anydml.text import count_noun


class Counts(NamedTuple):
    """Counts of the calls of a fused function.

    Attributes:
        traces: the number of traces of the function.
        fused: the number of calls that used a trace.
        unfused: the number of calls that ran the function without a trace, since tracing would have taken longer.
    """

    traces: int
    fused: int
    unfused: int

    def __str__(self) -> str:
        times = "once" if self.traces == 1 else f"{self.traces} times"
        return f"traced {times}; {count_noun(self.fused, 'call')} used a trace, and {self.unfused} ran without one"
