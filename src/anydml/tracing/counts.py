"""How often a fused function was traced, and what distinguishes calls that share no trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from anydml.arrays.receive import adapter_of
from anydml.text import counted
from anydml.tracing.call import is_long
from anydml.tracing.structure import argument_names, rebuilt


class Counts(NamedTuple):
    """What the calls of a fused function were.

    Attributes:
        traces: how often the function was traced.
        fused: how many calls used a trace.
        unfused: how many calls ran the function as it stands, since tracing would have taken longer.
    """

    traces: int
    fused: int
    unfused: int

    def __str__(self) -> str:
        often = "once" if self.traces == 1 else f"{self.traces} times"
        return f"traced {often}; {counted(self.fused, 'call')} used a trace, and {self.unfused} ran without one"


def leaves_of(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    """Return what selects the traces of a call, by the arguments' names: of arrays, dtype and number of dimensions."""
    found: dict[str, Any] = {}

    def note(leaf: Any, path: str) -> None:
        if adapter_of(leaf) is not None or isinstance(leaf, np.ndarray):
            # Arrays that are lent by DLPack alone say neither.
            shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
            found[path] = type(leaf).__name__ if shape is None else f"{dtype} of {counted(len(shape), 'dimension')}"
        else:
            found[path] = "an integer" if type(leaf) is int or is_long(leaf) else repr(leaf)[:80]

    for tree, path in zip(arguments, argument_names(function, len(arguments)), strict=True):
        rebuilt(tree, note, path)
    for path, tree in keywords.items():
        rebuilt(tree, note, path)
    return found


def difference(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """Return the first thing in which two calls differ that share no trace because of it; None if there is none."""
    for path, value in now.items():
        if path not in before:
            return f"there is {path}"
        if before[path] != value:
            return f"{path} is {value}, not {before[path]}"
    return next((f"there is no {path}" for path in before if path not in now), None)
