"""Calls of a fused function on arrays of one library in one step, found by their shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from anydml.arrays.quick import QUICK
from anydml.engines.protocol import Guest, Launch
from anydml.functions.steps import MOST_ALIKE, GuestStep, Step
from anydml.tracing.plan import Plan

MISSED: Any = object()
"""What is given where there is no step that fits."""

MOST_SHAPES = 64
"""Combinations of shapes that steps are kept for."""


class FusedSteps:
    """The steps of one function; each has its plan, which knows the structure of the results."""

    __slots__ = ("_calls", "_found", "_is_tuple", "whole")

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[tuple[Any, Plan], ...]] = {}
        self._calls: Any = None
        self._is_tuple = False
        self.whole: Callable[..., Any] | None = None

    def wholly(self, arguments: tuple[Any, ...], out: Any) -> Any:
        """The results of a call that compiled code does, or `MISSED`: then nothing was done."""
        assert self.whole is not None
        found = self.whole(*arguments, out)
        if found is None:
            return MISSED
        if out is not None:
            return out
        return tuple(found) if self._is_tuple else found

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

    def keep(self, key: tuple[Any, ...], arguments: tuple[Any, ...], plan: Plan) -> None:
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
            if self._calls is not None:
                self._calls.clear()
        self._found[key] = ((step, plan), *others[: MOST_ALIKE - 1])
        self._keep_whole(key, made, plan, step.makes, kind)

    def _keep_whole(self, key: tuple[Any, ...], launch: Launch, plan: Plan, makes: Sequence[Any], kind: type) -> None:
        """Let compiled code find a plan, with new results and, of NumPy's arrays, the caller's."""
        if launch.whole is None:
            return
        is_tuple = type(plan.tree) is tuple
        if self._calls is None:
            self._calls, self._is_tuple = launch.whole.make(), is_tuple
        if is_tuple != self._is_tuple:
            return
        inputs, guest = len(key) - 1, None
        if kind is not np.ndarray:
            guest = Guest(kind, QUICK[kind].can_use, launch.spans[:inputs])
        for has_out in (False, True):
            if not has_out or (guest is None and not is_tuple):
                known_by, has_parts = (key, plan, has_out), not plan.is_one
                self._calls.keep(known_by, launch.whole, key[1], inputs, makes, (), False, has_parts, has_out, guest)
        self.whole = self._calls.function


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
