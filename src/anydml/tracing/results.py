"""What a traced function returned: its arrays, in the structure that they came in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter
from anydml.arrays.receive import guest_of
from anydml.engines.protocol import ArrayEngine
from anydml.tracing.refusing import broken
from anydml.tracing.sizes import Size
from anydml.tracing.structure import PLAIN, rebuilt
from anydml.tracing.trace import Trace, TracedArray, check_dtype

Array = np.ndarray[Any, Any]
Guests = Sequence[ArrayAdapter | None]


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """One array that a function returns.

    Attributes:
        array: traced.
        like: number of an argument of the same dtype; None where there is none, and all are NumPy's.
        number: which of the results it is.
    """

    array: TracedArray
    like: int | None
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """INT64 numbers that a function returns beside arrays of another library than NumPy."""

    array: Array


@dataclass(frozen=True, slots=True, eq=False)
class Traced:
    """A function that was traced.

    Attributes:
        name: the function's.
        tree: what it returned, with a `Result` for every array.
        results: the same in order.
        engine: where it runs.
        names: of the arguments that are arrays.
        unsigned: see `Trace`.
    """

    name: str
    tree: Any
    results: Sequence[Result]
    engine: ArrayEngine
    names: Sequence[str]
    unsigned: dict[str, int]


def results_of(trace: Trace, tree: Any, adapters: Guests, inputs: Sequence[Array]) -> Any:
    """What a function returned, with a `Result` for every array, and these.

    Args:
        trace: of the function.
        tree: what it returned.
        adapters: whose these are.
        inputs: as the engines see them.

    Raises:
        FuseError: it returned what is neither an array nor plain, or an array that the library cannot take.
    """
    results: list[Result] = []

    def result(leaf: Any, path: str) -> Any:
        if type(leaf) is Size:
            return int(leaf)
        if isinstance(leaf, PLAIN) and not isinstance(leaf, np.ndarray):
            return leaf
        if not isinstance(leaf, (TracedArray, np.ndarray)) and guest_of(leaf) is None:
            raise broken(f"{trace.name} returned a {type(leaf).__name__}: return arrays in tuples, lists or dicts")
        if adapters[0] is not None and isinstance(leaf, np.ndarray) and leaf.dtype == np.int64:
            return Known(leaf.copy())
        array = trace.array(leaf)
        check_dtype(array.element, path)
        like = array.like
        if like is None:
            like = next((k for k, each in enumerate(inputs) if each.dtype == array.element), None)
        if like is None and adapters[0] is not None and not adapters[0].holds(array.element):
            raise broken(f"{path} is {array.element}, but no argument is, and so is no array of its library")
        results.append(Result(array, like, len(results)))
        return results[-1]

    return rebuilt(tree, result, f"the result of {trace.name}"), results
