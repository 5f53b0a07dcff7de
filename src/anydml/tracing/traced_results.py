"""Results of a traced function, in their structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter
from anydml.arrays.receive import adapter_of
from anydml.engines.protocol import ArrayEngine
from anydml.tracing.open_sizes import OpenSize
from anydml.tracing.refusing import fuse_error
from anydml.tracing.short_integers import ShortInteger, pinned_number
from anydml.tracing.structure import PLAIN_TYPES, map_leaves
from anydml.tracing.trace import Trace, TracedArray, check_dtype

Array = np.ndarray[Any, Any]
Adapters = Sequence[ArrayAdapter | None]


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """An array that a traced function returns.

    Attributes:
        array: the traced array.
        like: number of an argument of the same dtype; None if there is none, and all are NumPy arrays.
        number: the result's number.
    """

    array: TracedArray
    like: int | None
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class HostNumbers:
    """Constant INT64 numbers that a function returns, beside arrays of another library than NumPy."""

    array: Array


@dataclass(frozen=True, slots=True, eq=False)
class TracedFunction:
    """A traced function.

    Attributes:
        name: the function's name.
        tree: the returned structure, with a `Result` for every array.
        results: the `Result` objects, in order.
        engine: the engine that runs the program.
        names: names of the array arguments.
        unsigned: see `Trace`.
    """

    name: str
    tree: Any
    results: Sequence[Result]
    engine: ArrayEngine
    names: Sequence[str]
    unsigned: dict[str, int]


def results_of(trace: Trace, tree: Any, adapters: Adapters, inputs: Sequence[Array]) -> Any:
    """Return a function's returned structure with a `Result` for every array, and the list of results.

    Args:
        trace: the function's trace.
        tree: the returned structure.
        adapters: the arguments' libraries; None for NumPy.
        inputs: the arguments' arrays, as engines take them.

    Raises:
        FuseError: the function returned an unsupported type, or an array that the library cannot represent.
    """
    results: list[Result] = []

    def result(leaf: Any, path: str) -> Any:
        if type(leaf) in (OpenSize, ShortInteger):
            return pinned_number(leaf)
        if isinstance(leaf, PLAIN_TYPES) and not isinstance(leaf, np.ndarray):
            return leaf
        if not isinstance(leaf, (TracedArray, np.ndarray)) and adapter_of(leaf) is None:
            raise fuse_error(
                f"{trace.name} returned an object of {type(leaf).__name__}: return arrays in tuples, lists or dicts"
            )
        is_known = isinstance(leaf, np.ndarray) and not isinstance(leaf, TracedArray)
        if adapters[0] is not None and is_known and leaf.dtype == np.int64:
            return HostNumbers(leaf.copy())
        array = trace.array(leaf)
        check_dtype(array.element, path)
        like = array.like
        if like is None:
            like = next((k for k, x in enumerate(inputs) if x.dtype == array.element), None)
        if like is None and adapters[0] is not None and not adapters[0].supports(array.element):
            raise fuse_error(
                f"{path} is {array.element}, but no argument has this dtype, so its library's array cannot be created"
            )
        results.append(Result(array, like, len(results)))
        return results[-1]

    return map_leaves(tree, result, f"the result of {trace.name}"), results
