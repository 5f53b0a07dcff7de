"""anydml's functions on traced arrays: those on arrays, without `out`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from anydml.functions import arguments as own_arguments
from anydml.functions.calling import check_size
from anydml.infer import axis_of
from anydml.moves.compose import SCRATCH, strided
from anydml.moves.value_maker import Lazy, ValueMaker
from anydml.operators.function import Function
from anydml.operators.registry import FUNCTIONS
from anydml.tracing import axes, refusing
from anydml.tracing.constants import known, trace_of
from anydml.tracing.indexing import indexed
from anydml.tracing.picking import check_dtype_of, pick
from anydml.tracing.refusing import refused
from anydml.tracing.trace import Trace, TracedArray


def check_out(name: str, out: Any) -> None:
    """Check that `out` is None.

    Raises:
        FuseError: it is not.
    """
    if out is not None:
        raise refused(f"{name} with out", "use the result instead")


def __getattr__(name: str) -> Any:
    """Return any other function of `anydml.functions`."""
    if name not in FUNCTIONS:
        raise AttributeError(name)
    return partial(_called, FUNCTIONS[name])


def _called(function: Function, *arguments: Any, **named: Any) -> Any:
    """Call a function: compose its results if possible, else move them to scratch."""
    given = {**dict(zip([each.name for each in function.parameters], arguments, strict=False)), **named}
    values = [given.get(each.name, each.default) for each in function.parameters]
    label = function.label
    trace, arrays, indices = _inputs(function, values)
    rest: list[Any] = []
    for each, value in zip(function.parameters, values, strict=True):
        if each.is_array:
            continue
        if isinstance(value, TracedArray):
            raise refused(f"{label} by a traced {each.name}", "shapes would depend on elements: pass numbers")
        rest.append(own_arguments.converted(label, each, value, arrays[0].element))
    rest += [each.element if isinstance(each, TracedArray) else each.dtype for each in indices]
    inputs = [*arrays, *indices]
    shapes = [each.shape for each in inputs]
    if function.rule is not None:
        with refusing.named(label):
            parameters = function.checked(label, shapes, tuple(rest))
            own = arrays[0].element
            make = ValueMaker(trace.composer, own.itemsize, lambda sizes: check_size(trace.name, sizes, own))
            function.apply(make, [Lazy(each.value) for each in inputs], parameters)
            results = [trace.made(value, own, _like(arrays)) for value in make.values()]
        if function.lengths is not None:
            return results[0], np.array(function.lengths(shapes, parameters), np.int64)
        return results if function.has_parts else results[0]
    inferred = function.infer(label, shapes, tuple(rest))
    if (compose := function.shortcuts.compose) is not None:
        with refusing.named(label):
            results = compose(_COMPOSING, inputs, inferred)
    else:
        for parameter, each in zip([p for p in function.arrays if p.is_index], indices, strict=True):
            # Indices that may be out of range are checked before any move, so they cannot be in scratch.
            found = strided(each.value)
            if "refuse" in inferred.parameters and each.count and (found is None or found[0].operand >= SCRATCH):
                hint = f"pass {parameter.name} as an argument, or out_of_range={_other_word(function)!r}"
                raise refusing.broken(f"{label}: indices are checked before anything moves: {hint}")
        made = trace.composer.moved(
            [each.value for each in inputs],
            inferred.shapes,
            arrays[0].itemsize,
            lambda own, results: ((made := function.lowered(own, results, inferred.parameters)).moves, made.constants),
            f"{label} reads and writes memory",
        )
        results = [arrays[0].made(value) for value in made]
    return results[0]


def _like(arrays: Sequence[TracedArray]) -> int | None:
    return next((array.like for array in arrays if array.like is not None), None)


def _other_word(function: Function) -> str:
    return function.parameter("out_of_range").words[-1]


def _inputs(function: Function, values: Sequence[Any]) -> tuple[Trace, list[TracedArray], list[Any]]:
    """Return the trace, the data arrays, and the indices and masks of a call."""
    by_name = {each.name: value for each, value in zip(function.parameters, values, strict=True)}
    names = [each.name for each in function.arrays]
    every = [by_name[name] for name in names]
    every = [*every[0]] if function.is_of_lists else every
    trace = trace_of(every)
    label, count = function.label, function.data_count(len(every))
    with refusing.named(label):
        arrays = [trace.array(each) for each in every[:count]]
        indices = [
            _mask(trace, label, parameter.name, each)
            if parameter.kind == "Mask"
            else _indices(trace, function, parameter.name, each)
            for parameter, each in zip((p for p in function.arrays if p.is_index), every[count:], strict=True)
        ]
    fields = [f"{function.arrays[0].name}[{k}]" for k in range(count)] if function.is_of_lists else names
    own_arguments.check_data(label, fields[:count], arrays)
    return trace, arrays, indices


_COMPOSING = SimpleNamespace(
    pick=pick,
)
"""See `Composing`."""


def _indices(trace: Trace, function: Function, field: str, given: Any) -> Any:
    """Return indices as a traced array; constant ones of a function that is composed as NumPy's."""
    is_traced, is_composed = isinstance(given, TracedArray), function.shortcuts.compose is not None
    found: Any = given if is_traced else known(given)
    if not is_traced and not found.size and not isinstance(given, np.ndarray):
        found = found.astype(np.int64)
    dtype = found.element if is_traced else found.dtype
    if is_traced and not is_composed:
        check_dtype_of(found)
    elif dtype.kind not in "iu":
        raise own_arguments.no_indices(function.label, field, dtype)
    if is_traced:
        return trace.array(found)
    numbers = found.astype(np.uint64 if dtype.kind == "u" and found.itemsize == 8 else np.int64)
    return numbers if is_composed else trace.array(numbers)


def _mask(trace: Trace, label: str, field: str, given: Any) -> TracedArray:
    mask = trace.array(given)
    own_arguments.check_mask(label, field, mask.element)
    return mask


def compress(condition: Any, x: TracedArray, axis: int | None = None) -> TracedArray:
    """Select elements, or slices along an axis, by a constant condition.

    Raises:
        FuseError: the condition is traced.
    """
    flags = known(condition) != 0
    if axis is None and flags.shape != x.shape:
        x = axes.ravel(x)
    first = 0 if axis is None else axis_of("compress", x.ndim, axis)
    return indexed(x, (slice(None),) * first + (flags,))


def nonzero_coordinates(x: TracedArray) -> NoReturn:
    """Refuse: the result's shape depends on elements.

    Raises:
        FuseError: always.

    Examples:
        >>> dml.nonzero_coordinates(np.array([[0, 5], [7, 0]]))
        array([[0, 1],
               [1, 0]])
    """
    raise refused("nonzero_coordinates", "shapes would depend on elements: call it outside and pass the result")


def copy(x: TracedArray) -> TracedArray:
    """Return x: results of a fused function are copies anyway."""
    return x.trace.array(x)
