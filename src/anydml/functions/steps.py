"""Calls in one step, found by what the caller gave, before anything is looked at: on NumPy's arrays, and on PyTorch's.

A step is found by the first shapes and the other arguments as they are. Compiled code sees whether all else fits: the
arrays' layouts, and that an argument which equals a planned one is of its type, too (``1.0`` equals ``1``). Whatever
does not fit goes the long way, which says what is wrong with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.arrays.quick import QUICK, QuickKind
from anydml.engines.program_cache import ProgramCache
from anydml.engines.protocol import Launch, Start
from anydml.functions.operations import Inferred
from anydml.memory.warm import CACHE, LEAST

PLANS = ProgramCache()
"""Plans for layouts seen before, and their steps."""

MOST_STEPS = 4096
"""Steps that are found at once, at most: several may be one plan's."""

MOST_ALIKE = 4
"""Steps that are found by the same arguments, at most: they differ in what those do not say, such as strides."""

NAMESPACES: dict[Hashable, list[dict[str, Any]]] = {}
"""Where functions look for what does whole calls, by their operations; filled by `derived`."""

ANSWERED: dict[Hashable, tuple[Callable[..., Any], Sequence[str], Sequence[str]]] = {}
"""Functions by their operations, with the parameters that whole calls take, in their order, and those that must be left
at their default."""

Made = Callable[[], Any]
Sizes = tuple[int, ...]


def nobody(*_: object) -> None:
    """What does whole calls until there is compiled code that does: none of them."""


class Step:
    """A plan's work on the tuple of a call's arrays, results and other arguments, of NumPy's arrays.

    Attributes:
        start: does it (see `Launch`).
        make: makes the first result.
        makes: make every result.
    """

    __slots__ = ("_launch", "make", "makes", "start")

    def __init__(self, launch: Launch, shapes: Sequence[Sizes], dtypes: Sequence[np.dtype[Any]]) -> None:
        self._launch = launch
        self.start: Start = launch.start
        self.makes = [*map(CACHE.maker, shapes, dtypes)]
        self.make = self.makes[0] if self.makes else None

    def take(self, arrays: Sequence[Any], plain: tuple[object, ...], out: Sequence[Any] | None) -> list[Any] | None:
        """As `GuestStep`; callers that count every tenth of a microsecond do the same themselves."""
        results = [make() for make in self.makes] if out is None else [*out]
        given = (*arrays, *results, *plain)
        return None if self.start(id(given)) else results


class GuestStep:
    """The same of another library's arrays."""

    __slots__ = ("_input_spans", "_kind", "_launch", "_output_spans", "_start", "makes")

    def __init__(self, launch: Launch, shapes: Sequence[Sizes], kind: QuickKind, likes: Sequence[Any]) -> None:
        self._launch = launch
        self._start: Start = launch.start
        self._kind = kind
        self.makes = [*map(kind.maker, shapes, likes)]
        inputs = len(launch.spans) - len(shapes)
        self._input_spans, self._output_spans = launch.spans[:inputs], launch.spans[inputs:]

    def take(self, arrays: Sequence[Any], plain: tuple[object, ...], out: Sequence[Any] | None) -> list[Any] | None:
        """The results of a call, or None where it does not fit: then nothing was done.

        Args:
            arrays: the inputs.
            plain: the arguments that are no arrays.
            out: the caller's arrays to write to; None for new ones.
        """
        can_use = self._kind.can_use
        for array, span in zip(arrays, self._input_spans, strict=False):
            if not can_use(array, span):
                return None
        if out is None:
            results = [make() for make in self.makes]
            # Compiled code sees how many there are.
            given = (*arrays, *results, *plain)
            return None if self._start(id(given)) else results
        for array, span in zip(out, self._output_spans, strict=False):
            if not can_use(array, span):
                return None
        given = (*arrays, *out, *plain)
        if self._start(id(given)):
            return None
        self._kind.written(out)
        return [*out]


class Plan:
    """What calls with the same layouts and arguments share.

    Attributes:
        inferred: parameters and shapes.
        dtype: of the results.
        compiled: what moves the bytes; None where NumPy does, or nothing has to be done.
        is_empty: whether there is nothing to do.
        sizes: bytes of the results, if there are such as may be had warm.
        start: does a whole call on NumPy's arrays, where there is such a step (see `Launch`).
        steps: the same for what callers gave, by their arrays' type, once it was asked for.
    """

    __slots__ = ("calls", "compiled", "dtype", "inferred", "is_empty", "launch", "sizes", "start", "steps", "wait")

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
        self.steps: dict[type, Step | GuestStep | None] = {}

    @property
    def weight(self) -> int:
        """Bytes that are kept, about."""
        kept: int = 1024 + 64 * len(self.inferred.shapes) + (self.compiled.weight if self.compiled else 0)
        # Once for `start`, and once for each kind of arrays.
        return kept + (3 * self.launch.weight if self.launch else 0)

    def ready(self, key: Hashable, launch: Launch) -> None:
        """Have a step for whole calls from now on."""
        self.launch = launch
        PLANS.keep(key, self)
        self.start = launch.start


class Asked(NamedTuple):
    """By what callers look for the step of a plan.

    Attributes:
        key: the operation, shapes and what the caller gave, and whether there is no `out`.
        plain: how many arguments that are no arrays the key has before its last word.
        like: the first array, of another library; None for NumPy's.
    """

    key: tuple[Hashable, ...]
    plain: int
    like: Any = None

    def keep(self, plan: Plan) -> None:
        """Let a plan's step be found, if it has one."""
        # Other things than Python's own could never take the step, and a key would keep them alive.
        key = tuple([tuple(each) if isinstance(each, tuple) else each for each in self.key])
        if plan.launch is None or not all(map(is_plain, key[1:-1])):
            return
        arguments = key[len(key) - 1 - self.plain : -1]
        kind = np.ndarray if self.like is None else QUICK[type(self.like)].kind
        if not plan.launch.is_ready(None if self.like is None else kind):
            return
        # Equal elements may be given as numbers of several types, of which a step takes one.
        if kind not in plan.steps or float in map(type, arguments):
            plan.steps[kind] = _step(plan, plan.launch, arguments, kind, self.like)
        step = plan.steps[kind]
        if step is None:
            return
        self._keep_whole(plan, plan.launch, key, arguments)
        steps = PLANS.steps
        if len(steps) >= MOST_STEPS:
            PLANS.forget_steps()
            steps = PLANS.steps
        others = [each for each in steps.get(key, ()) if each is not step]
        steps[key] = (step, *others[: MOST_ALIKE - 1])

    def _keep_whole(self, plan: Plan, launch: Launch, key: tuple[Any, ...], plain: tuple[object, ...]) -> None:
        """Have compiled code find it, too."""
        operation: Any = key[0]
        shapes, has_out = plan.inferred.shapes, not key[-1]
        guest = None if self.like is None else QUICK[type(self.like)].kind
        made = launch if guest is None else launch.variant((), guest)
        if made is None or made.whole is None or operation not in NAMESPACES:
            return
        first = key[1] if guest is None else key[2]
        makers = makers_of(guest, [(shape, plan.dtype) for shape in shapes], [self.like] * len(shapes))
        inputs = len(launch.spans) - len(shapes)
        calls = PLANS.whole.get(operation)
        if calls is None:
            calls = PLANS.whole.setdefault(operation, made.whole.make(True))
        if NAMESPACES[operation][0]["whole"] is not calls.function and operation in ANSWERED:
            calls.answer(*ANSWERED[operation])
        for namespace in NAMESPACES[operation]:
            namespace["whole"] = calls.function
        is_list = not operation.input_names
        known_by = key, plan
        calls.keep(known_by, made.whole, first, inputs, makers, plain, is_list, operation.has_parts, has_out, guest)


def makers_of(guest: type | None, results: Sequence[tuple[Sizes, np.dtype[Any]]], likes: Sequence[Any]) -> list[Made]:
    """What makes the results of calls that compiled code does.

    Args:
        guest: the type of another library's arrays, whose structure is known; None for NumPy's.
        results: their shapes and dtypes.
        likes: for each, an array of its dtype.
    """
    if guest is None:
        return [CACHE.maker(shape, dtype) for shape, dtype in results]
    structure = QUICK[guest].structure()
    assert structure is not None
    return [structure.new(shape, like) for (shape, _), like in zip(results, likes, strict=True)]


def _step(plan: Plan, launch: Launch, arguments: Sequence[object], kind: type, like: Any) -> Step | GuestStep | None:
    made = launch.variant(arguments, None if like is None else kind)
    if made is None:
        return None
    if like is None:
        return Step(made, plan.inferred.shapes, [plan.dtype] * len(plan.inferred.shapes))
    return GuestStep(made, plan.inferred.shapes, QUICK[kind], [like] * len(plan.inferred.shapes))


def is_plain(argument: object) -> bool:
    """Whether types alone tell such an argument from others that are equal."""
    if type(argument) is tuple:
        return all(type(each) is int for each in argument)
    return (
        argument is None
        or type(argument) in (int, str, float, bool)
        or (isinstance(argument, type) and argument in QUICK)
    )
