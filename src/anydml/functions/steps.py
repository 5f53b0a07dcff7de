"""Calls on NumPy's arrays in one step, found by what the caller gave, before anything is looked at.

A step is found by the first shapes and the other arguments as they are. Compiled code sees whether all else fits: the
arrays' layouts, and that an argument which equals a planned one is of its type, too (``1.0`` equals ``1``). Whatever
does not fit goes the long way, which says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml.engines.program_cache import ProgramCache
from anydml.engines.protocol import Launch, Start
from anydml.memory.warm import CACHE, LEAST

PLANS = ProgramCache()
"""Plans for layouts seen before, and their steps."""

MOST_STEPS = 4096
"""Steps that are found at once, at most: several may be one plan's."""

Made = Callable[[], Any]


class Step:
    """A plan's work on the tuple of a call's arrays, results and other arguments.

    Attributes:
        start: does it (see `Launch`).
        make: makes the first result.
        makes: make every result.
    """

    __slots__ = ("_launch", "make", "makes", "start")

    def __init__(self, launch: Launch, shapes: Sequence[tuple[int, ...]], dtype: np.dtype[Any]) -> None:
        self._launch = launch
        self.start: Start = launch.start
        self.makes = [_maker(shape, dtype) for shape in shapes]
        self.make = self.makes[0] if self.makes else None


def _maker(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Made:
    size = dtype.itemsize
    for each in shape:
        size *= each
    return partial(np.empty, shape, dtype) if size < LEAST else partial(CACHE.array, shape, dtype, size)


def keep_step(key: Hashable, plan: Any, arguments: Sequence[object]) -> None:
    """Let a plan that has a step be found by what its callers give.

    Args:
        key: by which they look for it; equal for equal arguments.
        plan: a `Plan`, which has a launch.
        arguments: those that are no arrays, in Python's own types.
    """
    step = plan.step
    if step is None:
        if plan.launch is None or not all(map(_is_plain, arguments)):
            return
        launch = plan.launch.with_arguments(arguments)
        step = plan.step = Step(launch, plan.inferred.shapes, plan.dtype)
    steps = PLANS.steps
    if len(steps) >= MOST_STEPS:
        steps.clear()
    steps[key] = step


def _is_plain(argument: object) -> bool:
    """Whether types alone tell such an argument from others that are equal."""
    if type(argument) is tuple:
        return all(type(each) is int for each in argument)
    return argument is None or type(argument) in (int, str)
