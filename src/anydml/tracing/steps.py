"""Calls of fused functions in one step: on NumPy's arrays, and on other libraries'.

Compiled code sees whether the arrays' layouts are those that a step was made for. Whatever does not fit goes the long
way, which says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np

from anydml.arrays.quick import QUICK, QuickKind
from anydml.engines.protocol import Launch, Start
from anydml.memory.results import empty

MOST_ALIKE = 4
"""Steps that are found by the same arguments, at most: they differ in what those do not say, such as strides."""

Made = Callable[[], Any]
Sizes = tuple[int, ...]


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
        self.makes = [*map(partial, repeat(empty), shapes, dtypes)]
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


def makers_of(guest: type | None, results: Sequence[tuple[Sizes, np.dtype[Any]]], likes: Sequence[Any]) -> list[Made]:
    """What makes the results of calls that compiled code does.

    Args:
        guest: the type of another library's arrays, whose structure is known; None for NumPy's.
        results: their shapes and dtypes.
        likes: for each, an array of its dtype.
    """
    if guest is None:
        return [partial(empty, shape, dtype) for shape, dtype in results]
    structure = QUICK[guest].structure()
    assert structure is not None
    return [structure.new(shape, like) for (shape, _), like in zip(results, likes, strict=True)]


def is_plain(argument: object) -> bool:
    """Whether types alone tell such an argument from others that are equal."""
    if type(argument) is tuple:
        return all(type(each) is int for each in argument)
    return (
        argument is None
        or type(argument) in (int, str, float, bool)
        or (isinstance(argument, type) and argument in QUICK)
    )
