"""Calls on NumPy's arrays in one step, found by what the caller gave, before anything is looked at.

A step is found by the first shapes and the other arguments as they are. Compiled code sees whether all else fits: the
arrays' layouts, and that an argument which equals a planned one is of its type, too (``1.0`` equals ``1``). Whatever
does not fit goes the long way, which says what is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from anydml.engines.program_cache import ProgramCache
from anydml.engines.protocol import Launch, Start
from anydml.functions.operations import Inferred
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


class Plan:
    """What calls with the same layouts and arguments share.

    Attributes:
        inferred: parameters and shapes.
        dtype: of the results.
        compiled: what moves the bytes; None where NumPy does, or nothing has to be done.
        is_empty: whether there is nothing to do.
        sizes: bytes of the results, if there are such as may be had warm.
        start: does a whole call on NumPy's arrays, where there is such a step (see `Launch`).
        step: the same for what the caller gave, once it was asked for.
    """

    __slots__ = ("calls", "compiled", "dtype", "inferred", "is_empty", "launch", "sizes", "start", "step", "wait")

    def __init__(self, inferred: Inferred, dtype: np.dtype[Any], compiled: Any, is_empty: bool, wait: int) -> None:
        self.inferred = inferred
        self.dtype = dtype
        self.compiled = compiled
        self.is_empty = is_empty
        self.calls, self.wait = 0, wait
        sizes = [math.prod(shape) * dtype.itemsize for shape in inferred.shapes]
        self.sizes = sizes if max(sizes, default=0) >= LEAST else None
        self.launch: Launch | None = None
        self.start: Start | None = None
        self.step: Step | None = None

    @property
    def weight(self) -> int:
        """Bytes that are kept, about."""
        kept: int = 1024 + 64 * len(self.inferred.shapes) + (self.compiled.weight if self.compiled else 0)
        # Once for `start`, and once for `step`.
        return kept + (2 * self.launch.weight if self.launch else 0)

    def ready(self, key: Hashable, launch: Launch) -> None:
        """Have a step for whole calls from now on."""
        self.launch = launch
        PLANS.keep(key, self)
        self.start = launch.start


def keep_step(key: tuple[Hashable, ...], plan: Plan, plain: int) -> None:
    """Let a plan that has a step be found by what its callers give.

    Args:
        key: by which they look for it: the operation, shapes and what the caller gave, and whether there is no `out`.
        plan: a `Plan`, which has a launch.
        plain: how many arguments that are no arrays the key has before its last word.
    """
    # Other things than Python's own could never take the step, and a key would keep them alive.
    if not all(map(_is_plain, key[1:-1])):
        return
    arguments = key[len(key) - 1 - plain : -1]
    step = plan.step
    # Equal elements may be given as numbers of several types, of which a step takes one.
    if step is None or float in map(type, arguments):
        if plan.launch is None:
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
    return argument is None or type(argument) in (int, str, float, bool)
