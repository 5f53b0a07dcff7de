"""The public functions: stubs from the operators' files, bound to a native call and to a general implementation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter, read_argument, read_arrays, read_indices
from anydml.core import native
from anydml.functions import arguments as checks
from anydml.functions.calling import call
from anydml.functions.traced import all_copied_to, copied_to, fused_functions, registered_for
from anydml.operators.function import ARRAYS, INDICES, MASK, Function, Parameter


def derived(function: Function) -> Callable[..., Any]:
    """Return the public function for a `Function`."""
    stub: Any = function.stub
    calls = {"native": native(function.name) or _no_fast_path, "general": partial(general, function)}
    names = {**stub.__globals__, **calls}
    # PyTorch's compiler would look the two calls up in the module of this name.
    del names["__name__"]
    made = FunctionType(stub.__code__, names, stub.__name__, stub.__defaults__)
    made.__kwdefaults__, made.__annotations__ = stub.__kwdefaults__, stub.__annotations__
    made.__wrapped__ = stub  # type: ignore[attr-defined]
    made.__module__ = "anydml.functions"
    return made


def _no_fast_path(*arguments: Any) -> None:
    """Replace the native call of a function that has none."""


def general(function: Function, *given: Any) -> Any:
    """Run a call that the native call declined, or raise an error if it breaks a rule.

    Args:
        function: the function's rules.
        given: all arguments in order, `out` last.
    """
    label, out = function.label, given[-1]
    by_name = {each.name: value for each, value in zip(function.parameters, given, strict=False)}
    # The first array determines the library and dtype of the results.
    parameters = function.arrays
    first, *others = parameters
    x = by_name[first.name]
    if first.kind == ARRAYS:
        x = by_name[first.name] = checks.as_tuple(label, first.name, x)
        registered = fused_functions(*x)
        if registered is None:
            registered = registered_for(x[0] if x else None)
    else:
        registered = None if type(x) is np.ndarray else registered_for(x)
    for each in others:
        if registered is None:
            registered = fused_functions(by_name[each.name])
    if registered is not None:
        return _call_traced(function, registered, by_name, out)
    if first.kind == ARRAYS:
        return _call_on_list(function, by_name, x, out)
    adapter = None
    if type(x) is not np.ndarray:
        x, adapter = read_argument(label, x, first.name)
    arrays = [x, *[_secondary_array(label, each, by_name[each.name], x, adapter) for each in others]]
    count = [each.is_index for each in parameters].count(False)
    arguments = checked_arguments(function, by_name, x, arrays[count:])
    if count > 1:
        checks.check_data(label, [each.name for each in parameters[:count]], arrays[:count])
    inputs = tuple(arrays)
    if function.has_parts:
        checks.check_out_list(label, out)
        return call(label, function, inputs, arguments, out, adapter)
    return call(label, function, inputs, arguments, None if out is None else (out,), adapter)[0]


def _call_on_list(function: Function, by_name: dict[str, Any], x: Any, out: Any) -> Any:
    """Run a function whose first argument is a list of arrays."""
    label, adapter = function.label, None
    if set(map(type, x)) != {np.ndarray}:
        x, adapter = read_arrays(label, x)
    if len({each.dtype for each in x}) > 1:
        checks.check_joined(label, function.arrays[0].name, x)
    arguments = checked_arguments(function, by_name, x, ())
    if not x:
        function.infer(label, (), arguments)
    found = call(label, function, x, arguments, None if out is None else (out,), adapter)[0]
    if function.lengths is None:
        return found
    return checks.with_lengths(function, found, x, arguments, adapter)


def _call_traced(function: Function, registered: Any, by_name: dict[str, Any], out: Any) -> Any:
    """Run a function on traced or lazy arrays."""
    count, label = function.stub.__code__.co_argcount, function.label
    names = [each.name for each in function.parameters]
    named = {name: by_name[name] for name in names[count:]}
    made = getattr(registered, function.name)(*[by_name[name] for name in names[:count]], **named)
    if function.has_parts:
        return all_copied_to(label, made, out)
    if function.lengths is not None:
        joined, lengths = made
        return copied_to(label, "out", joined, out), lengths
    return copied_to(label, "out", made, out)


def _secondary_array(label: str, parameter: Parameter, given: Any, x: Any, adapter: ArrayAdapter | None) -> Any:
    """Return an array argument other than the first, as the engines see it."""
    found = given
    if adapter is not None or type(given) is not np.ndarray:
        found = read_indices(label, given, adapter, parameter.name)
    if parameter.kind == MASK:
        return checks.checked_mask(label, parameter.name, found, x, adapter)
    if parameter.kind == INDICES:
        return checks.checked_indices(label, parameter.name, found, given, x, adapter)
    return found


def checked_arguments(function: Function, by_name: Mapping[str, Any], x: Any, indices: Any) -> tuple[Any, ...]:
    """Return the arguments of `Function.infer`: those that are no arrays, as Python's own types; the indices' dtypes.

    Args:
        function: the function.
        by_name: all arguments.
        x: the first array.
        indices: the indices and masks.

    Raises:
        DescError, TypeError: an argument has another type.
    """
    dtype = None if function.is_of_lists else x.dtype
    found = [
        checks.converted(function.label, each, by_name[each.name], dtype)
        for each in function.parameters
        if not each.is_array
    ]
    return (*found, *[each.dtype for each in indices])
