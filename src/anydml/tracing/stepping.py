"""Calls of a fused function on arrays of one library in one step, found by their shapes alone."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from anydml.arrays.quick import QUICK, kind_of
from anydml.tracing.form_source import Arrays, is_deep, opener
from anydml.tracing.forms import Taken, taken_apart
from anydml.tracing.plan import Plan
from anydml.tracing.steps import MOST_ALIKE, GuestStep, Step, is_plain, makers_of

MISSED: Any = object()
"""What is given where there is no step that fits."""

MOST_SHAPES = 64
"""Combinations of shapes that steps are kept for."""


class FusedSteps:
    """The steps of one function; each has its plan, which knows the structure of the results."""

    __slots__ = ("_calls", "_form", "_found", "whole")

    def __init__(self) -> None:
        self._found: dict[Hashable, tuple[tuple[Any, Plan], ...]] = {}
        self._calls: Any = None
        self._form: Any = None
        self.whole: Callable[..., Any] | None = None

    def wholly(self, arguments: Sequence[Any], out: Any) -> Any:
        """The results of a call that compiled code does, or `MISSED`: then nothing was done.

        Args:
            arguments: arrays, or a list of them, and then what is no array.
            out: the caller's arrays to write to, in the structure of the results; None for new ones.
        """
        assert self.whole is not None
        form = self._form
        if out is None:
            found = self.whole(*arguments, None)
            if found is None:
                return MISSED
            return found if form.is_one or form.build is None else form.build(found)
        given = out
        if not form.is_one:
            given = form.arrays(out)
            if given is None:
                return MISSED
        return MISSED if self.whole(*arguments, given) is None else out

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
        """Let a plan be found, if it has a step for such arrays.

        Args:
            key: of `key_of`.
            arguments: the arrays.
            plan: does the call.
        """
        kind = kind_of(arguments[0])
        if plan.launch is None or kind is None or not plan.launch.is_ready(None if kind is np.ndarray else kind):
            return
        made = plan.launch.variant((), None if kind is np.ndarray else kind)
        if made is None:
            return
        self.keep_whole(arguments, (), False, plan)
        if not plan.is_simple:
            return
        others = [pair for pair in self._found.get(key, ()) if pair[1] is not plan]
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

    def keep_whole(self, arrays: Sequence[Any], plain: Sequence[object], is_list: bool, plan: Plan) -> None:
        """Let compiled code find a plan, with new results and the caller's.

        Args:
            arrays: of one library.
            plain: the arguments after them.
            is_list: whether the arrays are given as a list.
            plan: does the call.
        """
        launch, form = plan.launch, plan.form
        guest = None if type(arrays[0]) is np.ndarray else kind_of(arrays[0])
        made = None if launch is None or not launch.is_ready(guest) else launch.variant((), guest)
        if made is None or made.whole is None or form is None:
            return
        if self._calls is None:
            self._calls, self._form = made.whole.make(False), form
        if form.words != self._form.words:
            return
        if guest is not None and any(result.like is None for result in plan.results):
            return
        makes = makers_of(guest, plan.shapes, [arrays[result.like or 0] for result in plan.results])
        shapes, has_parts = tuple([each.shape for each in arrays]), not plan.is_one
        for has_out in (False, True):
            known_by = guest, shapes, is_list, plan, has_out
            self._calls.keep(
                known_by, made.whole, shapes[0], len(arrays), makes, plain, is_list, has_parts, has_out, guest
            )
        self.whole = self._calls.function


class StepsByForm:
    """Steps of calls whose arguments are more than arrays and what follows them, by all that is no array."""

    __slots__ = ("_found", "_last")

    def __init__(self) -> None:
        self._found: dict[Hashable, FusedSteps] = {}
        self._last: tuple[tuple[Callable[[Any, Any], Arrays | None], FusedSteps], ...] = ()

    def __bool__(self) -> bool:
        return bool(self._found)

    def take(self, arguments: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> Any:
        """The results of a call that compiled code does, or `MISSED`: then nothing was done."""
        for opened, steps in self._last:
            arrays = opened(arguments, keywords)
            if arrays is not None:
                return steps.wholly(arrays, out)
        taken = taken_apart(arguments, keywords)
        if taken is None:
            return MISSED
        found = self._found.get(taken.form)
        if found is None or found.whole is None:
            return MISSED
        if not is_deep((arguments, keywords)):
            # Most calls are like one of the last.
            self._last = ((opener(arguments, keywords), found), *self._last[: MOST_ALIKE - 1])
        return found.wholly(taken.arrays, out)

    def keep(self, taken: Taken, plan: Plan) -> None:
        """Let a plan be found."""
        steps = self._found.get(taken.form)
        if steps is None:
            if len(self._found) >= MOST_SHAPES:
                self._found.clear()
                self._last = ()
            steps = self._found[taken.form] = FusedSteps()
        steps.keep_whole(taken.arrays, (), False, plan)


def followed(arguments: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any], bool] | None:
    """Arrays that come first, or as a list, what follows them, and whether they are a list; None of other arguments."""
    if not arguments:
        return None
    is_list = type(arguments[0]) is list and bool(arguments[0])
    kind = kind_of(arguments[0][0] if is_list else arguments[0])
    if kind is None:
        return None
    count = 0
    while not is_list and count < len(arguments) and kind_of(arguments[count]) is kind:
        count += 1
    arrays, plain = (arguments[0], arguments[1:]) if is_list else (arguments[:count], arguments[count:])
    if any(kind_of(each) is not kind for each in arrays) or not all(map(is_plain, plain)):
        return None
    return arrays, plain, is_list


def key_of(arguments: Sequence[Any], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """By what a step is looked for: the type of the arrays, and their shapes. Empty where there can be none."""
    if keywords or not arguments:
        return ()
    kind = kind_of(arguments[0])
    if kind is None or (kind is not np.ndarray and QUICK[kind].is_traced()):
        return ()
    for each in arguments:
        if kind_of(each) is not kind:
            return ()
    try:
        return kind, *[each.shape for each in arguments]
    except RuntimeError:
        # A nested tensor has no shape.
        return ()
