"""Calls of a fused function on arrays of one library in one step, found by their shapes alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from anydml.arrays.quick import QUICK
from anydml.functions.steps import MOST_ALIKE, GuestStep, Step
from anydml.tracing.plan import Plan

MISSED: Any = object()
"""What is given where there is no step that fits."""

MOST_SHAPES = 64
"""Combinations of shapes that steps are kept for."""


class FusedSteps:
    """The steps of one function; each has its plan, which knows the structure of the results."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[tuple[Any, Plan], ...]] = {}

    def take(self, key: Hashable, arguments: tuple[Any, ...], out: Any) -> Any:
        """The results of a call, or `MISSED`: then nothing was done.

        Args:
            key: of `key_of`.
            arguments: the arrays.
            out: the caller's arrays to write to; None for new ones.
        """
        for step, plan in self._found.get(key, ()):
            if out is not None and not plan.is_one and type(out) is not type(plan.tree):
                continue
            given = None if out is None else (out,) if plan.is_one else out
            results = step.take(arguments, (), given)
            if results is not None:
                return plan.in_shape(results) if out is None else out
        return MISSED

    def keep(self, key: Hashable, arguments: tuple[Any, ...], plan: Plan) -> None:
        """Let a plan be found, if it has a step for such arrays."""
        kind = type(arguments[0])
        if plan.launch is None or not plan.is_simple:
            return
        others = [pair for pair in self._found.get(key, ()) if pair[1] is not plan]
        made = plan.launch.variant((), None if kind is np.ndarray else kind)
        if made is None:
            return
        shapes = [shape for shape, _ in plan.shapes]
        step: Step | GuestStep
        if kind is np.ndarray:
            step = Step(made, shapes, [dtype for _, dtype in plan.shapes])
        elif any(result.like is None for result in plan.results):
            return
        else:
            likes = [arguments[result.like or 0] for result in plan.results]
            step = GuestStep(made, shapes, QUICK[kind], likes)
        if len(self._found) >= MOST_SHAPES:
            self._found.clear()
        self._found[key] = ((step, plan), *others[: MOST_ALIKE - 1])


def key_of(arguments: Sequence[Any], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """By what a step is looked for: the type of the arrays, and their shapes. Empty where there can be none."""
    if keywords or not arguments:
        return ()
    kind = type(arguments[0])
    if kind is not np.ndarray and (kind not in QUICK or QUICK[kind].is_traced()):
        return ()
    for each in arguments:
        if type(each) is not kind:
            return ()
    try:
        return kind, *[each.shape for each in arguments]
    except RuntimeError:
        # A nested tensor has no shape.
        return ()
