"""anydml's functions on Dask arrays: lazy, with a task per chunk of the result where that reads few chunks.

`anydml.split`, `join`, `slice`, `copy` and the other functions, and fused functions, dispatch here when called with
Dask arrays. Each task runs one program over the input chunks that its output chunk reads. Output chunks follow the
chunks of the inputs. A task reads and returns at most four times the bytes of the largest chunk of the inputs
and the result, or 1 MiB. If a chunk of the result reads more, several tasks pick the elements that it needs, from about
one chunk each, and one task assembles them. Output chunks are split where a task would still need more than
``anydml.memory`` in Dask's configuration (1 GB by default).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from anydml.arrays.lazy import refuse_lazy
from anydml.errors import BindingError
from anydml.functions.traced_calls import is_lazy
from anydml.operators.registry import FUNCTIONS
from anydml.tensor import Layout
from anydml.tracing import anydml_functions
from anydml.tracing.executed_instructions import ExecutedInstructions
from anydml.tracing.open_builtins import FunctionCopier, traced_again
from anydml.tracing.structure import argument_names, map_leaves
from anydml.tracing.trace import Trace, check_dtype
from anydml.tracing.traced_ndarray import TracedNdarray
from anydml.tracing.traced_results import HostNumbers, Result, results_of


def __getattr__(name: str) -> Any:
    """Return the anydml function of that name, for Dask arrays."""
    if name == "copy":
        return partial(_call_lazily, name, anydml_functions.copy)
    if name not in FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    function = FUNCTIONS[name]
    return partial(_call_lazily, function.name, getattr(anydml_functions, name), stub=function.stub)


def _call_lazily(
    name: str, function: Callable[..., Any], *arguments: Any, stub: Callable[..., Any] | None = None, **keywords: Any
) -> Any:
    return lazily(function, name, arguments, keywords, stub)


@traced_again(is_kept=False)
def lazily(
    copier: FunctionCopier,
    function: Callable[..., Any],
    name: str,
    arguments: Any,
    keywords: dict[str, Any],
    stub: Callable[..., Any] | None = None,
) -> Any:
    """Trace a function of arrays and return its results as Dask arrays.

    Args:
        copier: makes the copy of the function that runs on traced arrays.
        function: must only move elements.
        name: the function's name in error messages and task keys.
        arguments: positional arguments; nested structures may hold Dask arrays, and NumPy arrays, which are constants.
        keywords: keyword arguments, as above.
        stub: the function whose parameter names appear in errors; `function` if None.

    Returns:
        The structure that `function` returns, with a Dask array in place of each array.

    Raises:
        BindingError: a shape is unknown, a chunk is not a NumPy array, an argument is a lazy array of another library,
            or a task of one element does not fit in ``anydml.memory``.
        FuseError: the function computes, branches on elements, writes to an argument, or calls an unknown function.
    """
    from anydml.dask.graphs import LAZY_INDICES, lazy_array

    trace = Trace(name, TracedNdarray)
    trace.lazy_indices = LAZY_INDICES
    inputs: list[Any] = []

    def trace_leaf(leaf: Any, path: str) -> Any:
        if not is_lazy(leaf):
            if not isinstance(leaf, np.ndarray):
                refuse_lazy(name, path, leaf)
            return leaf
        if any(math.isnan(size) for size in leaf.shape):
            raise BindingError(
                f"{name}: {path} has a shape that Dask does not know yet: call {path}.compute_chunk_sizes() before",
                name,
                path,
            )
        _check_chunks(name, path, leaf._meta)
        check_dtype(leaf.dtype, path)
        if not leaf.dtype.itemsize:
            raise BindingError(
                f"{name}: {path} has elements of no bytes ({leaf.dtype!r}), which have no places in chunks", name, path
            )
        shape = tuple(map(int, leaf.shape))
        size = leaf.dtype.itemsize
        value = trace.composer.input(path, shape, Layout.packed(shape, size).strides, size)
        inputs.append(leaf)
        return trace.new_array(value, leaf.dtype, len(inputs) - 1)

    names_of_arguments = argument_names(stub or function, len(arguments))
    traced_arguments = [
        map_leaves(argument, trace_leaf, place) for argument, place in zip(arguments, names_of_arguments, strict=True)
    ]
    by_name = {key: map_leaves(argument, trace_leaf, key) for key, argument in keywords.items()}
    like = [np.empty(0, source.dtype) for source in inputs]
    try:
        traced_function_copy = copier.copy_for_trace(function, trace)
        with ExecutedInstructions(function).watched(copier.follow):
            returned = traced_function_copy(*traced_arguments, **by_name)
        tree, _ = results_of(trace, returned, [None] * len(inputs), like)
    finally:
        trace.is_over = True
        copier.end()

    def build_leaf(leaf: Any, path: str) -> Any:
        if isinstance(leaf, HostNumbers):
            return leaf.array
        if not isinstance(leaf, Result):
            return leaf
        return lazy_array(name, trace.composer, leaf.array.value, leaf.array.element, inputs)

    return map_leaves(tree, build_leaf, "")


def _check_chunks(name: str, path: str, meta: Any) -> None:
    """Refuse chunks that are not plain NumPy arrays: masks would be lost, other types converted in every task."""
    if isinstance(meta, np.ma.MaskedArray):
        raise BindingError(
            f"{name}: {path} has chunks with masks: pass dask.array.ma.getdata({path}), and "
            f"dask.array.ma.getmaskarray({path}) in a separate call", name, path, "a mask is not moved",
        )  # fmt: skip
    if not isinstance(meta, np.ndarray):
        class_name = f"{type(meta).__module__}.{type(meta).__qualname__}"
        raise BindingError(f"{name}: {path} has chunks of {class_name}: convert them by {path}.map_blocks", name, path,
                           "chunks must be NumPy arrays")  # fmt: skip


def check_out(name: str, out: Any) -> None:
    """Refuse `out`, because lazy results cannot be written to it.

    Raises:
        BindingError: `out` is not None.
    """
    if out is not None:
        raise BindingError(
            f"{name}: out with Dask arrays: take the result, or store it by dask.array.store", name, "out"
        )
