"""Tracing of a call of a fused function, with traced arrays and open sizes in place of its arrays and integers."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from anydml.arrays.receive import adapter_of, check_place
from anydml.engines import array_engine
from anydml.moves.composer import INPUT
from anydml.tracing.arrays_as_numbers import number_of
from anydml.tracing.call_arguments import MAX_OPEN, CallArguments, strides_of
from anydml.tracing.open_builtins import FunctionCopier, traced_twice
from anydml.tracing.random_draws import no_random_draws
from anydml.tracing.refusing import no_arrays_error
from anydml.tracing.short_integers import as_kind, kind_of
from anydml.tracing.structure import argument_names, map_leaves
from anydml.tracing.surroundings import Surroundings
from anydml.tracing.trace import Trace, check_dtype
from anydml.tracing.traced_ndarray import TracedNdarray
from anydml.tracing.traced_program import Path, TracedProgram
from anydml.tracing.traced_results import TracedFunction, results_of
from anydml.tracing.traced_tensor import TracedTensor


@traced_twice(is_kept=True)
def trace_call(
    copier: FunctionCopier,
    function: Callable[..., Any],
    name: str,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    call: CallArguments,
    surroundings: Surroundings,
    is_open: bool,
    watched: Callable[[], AbstractContextManager[None]],
) -> TracedProgram:
    """Trace a call.

    Args:
        copier: makes the copy of the function that runs on traced arrays.
        function: the function.
        name: its name in errors.
        arguments: positional arguments.
        keywords: keyword arguments.
        call: the arrays and numbers of these arguments.
        surroundings: what the function can reach.
        is_open: whether integers stay open; False for functions that accept only integers.
        watched: returns a context in which the function is run.

    Raises:
        FuseError: there is no array, or the function does something that a trace does not support.
        BindingError: the arrays are of several libraries or devices.
    """
    copier.may_repeat = lambda: not surroundings.change()
    inputs, adapters = call.inputs, call.adapters
    if not inputs:
        raise no_arrays_error(name, (*arguments, *keywords.values()))
    first = adapters[0]
    kind = TracedTensor if first is not None and first.LIBRARY == "a PyTorch tensor" else TracedNdarray
    trace = Trace(name, kind, None if first is None else first.device, input_count=len(call.numbers))
    names, paths, integers = list[str](), list[Path](), list[tuple[Any, str]]()
    variable = trace.scope.variable
    argument: int | str = 0

    count = 0

    def open_numbers(values: Sequence[int], path: str, rank: int) -> list[Any]:
        nonlocal count
        if len(inputs) > MAX_OPEN:
            return [*values]
        paths.append((count, path, rank))
        # Sizes are 0 or more.
        sizes = [variable(count + k, value, 0 if k < rank else None) for k, value in enumerate(values)]
        count += len(sizes)
        if is_open:
            return sizes
        return [trace.scope.pin(size, "a called function does not support open sizes") for size in sizes]

    def traced_leaf(leaf: Any, path: str) -> Any:
        if (number := kind_of(leaf)) is not None:
            (size,) = open_numbers([int(leaf)], path, -1)
            if number is int:
                integers.append((size, path))
            return as_kind(size, number) if is_open and len(inputs) <= MAX_OPEN else leaf
        if adapter_of(leaf) is None and not isinstance(leaf, np.ndarray):
            return leaf
        place = len(names)
        array, adapter = inputs[place], adapters[place]
        if place:
            check_place(name, path, adapter, adapters[0], names[0])
        names.append(path)
        check_dtype(array.dtype, path)
        rank = array.ndim
        extents = open_numbers(call.numbers[count : count + 2 * rank] or (*array.shape, *strides_of(array)), path, rank)
        value = trace.composer.input(path, extents[:rank], extents[rank:], array.itemsize)
        if not array.ndim and number_of(leaf) is not None:
            trace.number_arguments[INPUT + place] = argument
        return trace.new_array(value, array.dtype, place)

    fields = argument_names(function, len(arguments))
    positional, named = [], {}
    for argument, (tree, path) in enumerate(zip(arguments, fields, strict=True)):  # noqa: B007  # `traced_leaf` reads it
        positional.append(map_leaves(tree, traced_leaf, path))
    for argument, tree in keywords.items():
        named[argument] = map_leaves(tree, traced_leaf, argument)
    if any(call.are_long) and len(inputs) <= MAX_OPEN:
        for (size, path), is_long in zip(integers, call.are_long, strict=True):
            (flag,) = open_numbers([is_long], f"isinstance({path}, numpy.int64)", -1)
            if is_open:
                trace.scope.longs[size.register] = flag
        trace.scope.is_typed = is_open
    engine = array_engine(name, inputs)
    _offer_to_einops()
    try:
        with no_random_draws(name, surroundings):
            traced_function_copy = copier.copy_for_trace(function, trace)
            with watched():
                returned = traced_function_copy(*positional, **named)
        tree, results = results_of(trace, returned, adapters, inputs)
    finally:
        trace.is_over = True
    traced_function = TracedFunction(name, tree, results, engine, names, trace.unsigned)
    return TracedProgram(trace, traced_function, surroundings.surrounding_values, paths)


def _offer_to_einops() -> None:
    """Register the backend of traced arrays with einops, if imported: a function that imports it is traced again."""
    if "einops" in sys.modules:
        with contextlib.suppress(ImportError):
            importlib.import_module("anydml.tracing.einops_backend")
