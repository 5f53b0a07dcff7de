"""Calls that compiled code declines: on arrays of other libraries, traced or lazy ones, and those that break a rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anydml.arrays import read_argument, read_arrays
from anydml.fields import items_of
from anydml.functions import argument_conversion as checks
from anydml.functions.call_plans import call
from anydml.functions.traced_calls import (
    copy_result,
    copy_results,
    dispatch_package,
    fused_functions,
    is_lazy,
    lazy_functions,
)
from anydml.operators.function import Function


def call_from_python(function: Function, *values: Any) -> Any:
    """Run a call that the native call declined, or raise an error if it breaks a rule.

    Args:
        function: the function's rules.
        values: all arguments in order, `out` last.
    """
    label, out = function.name, values[-1]
    by_name = {parameter.name: value for parameter, value in zip(function.parameters, values, strict=False)}
    # The first array determines the library and dtype of the results.
    first, *other_parameters = function.arrays
    if function.is_of_lists:
        by_name[first.name] = items_of(label, first.name, by_name[first.name], "a list of arrays")
    x = by_name[first.name]
    all_arrays = [*(x if function.is_of_lists else [x]), *[by_name[parameter.name] for parameter in other_parameters]]
    registered = fused_functions(*all_arrays)
    if registered is None and all_arrays:
        registered = dispatch_package(all_arrays[0])
        if registered is None and any(map(is_lazy, all_arrays)):
            registered = lazy_functions()
    if registered is not None:
        return _call_traced(function, registered, by_name, out)
    if function.is_of_lists:
        x, adapter = read_arrays(label, x)
        inputs = x
    else:
        x, adapter = read_argument(label, x, first.name)
        inputs = (x, *[checks.secondary_array(label, p, by_name[p.name], x, adapter) for p in other_parameters])
    count = function.data_count(len(inputs))
    arguments = check_arguments(function, by_name, x, inputs[count:])
    if not function.is_of_lists:
        checks.check_data(label, [parameter.name for parameter in function.arrays[:count]], inputs[:count])
    if function.has_parts:
        checks.check_out_list(label, out)
        return call(label, function, inputs, arguments, out, adapter)
    (result,) = call(label, function, inputs, arguments, None if out is None else (out,), adapter)
    if function.lengths is None:
        return result
    lengths = np.array(function.lengths(label, [array.shape for array in inputs], *arguments), np.int64)
    return result, lengths if adapter is None else adapter.from_lengths(lengths)


def _call_traced(function: Function, registered: Any, by_name: dict[str, Any], out: Any) -> Any:
    """Run a function on traced or lazy arrays."""
    count, label = function.stub.__code__.co_argcount, function.name
    names = [parameter.name for parameter in function.parameters]
    named = {name: by_name[name] for name in names[count:]}
    results = getattr(registered, function.name)(*[by_name[name] for name in names[:count]], **named)
    if out is None:
        return [*results] if function.has_parts else results
    if check_out := getattr(registered, "check_out", None):
        check_out(label, out)
    if function.has_parts:
        return copy_results(label, results, out)
    if function.lengths is not None:
        joined, lengths = results
        return copy_result(label, "out", joined, out), lengths
    return copy_result(label, "out", results, out)


def check_arguments(function: Function, by_name: Mapping[str, Any], x: Any, indices: Any) -> tuple[Any, ...]:
    """Return the arguments for `Function.infer`: all except arrays, in Python's types, then the indices' dtypes.

    Args:
        function: the function.
        by_name: all arguments.
        x: the first array.
        indices: the indices and masks.

    Raises:
        DescError, TypeError: an argument has another type.
    """
    dtype = None if function.is_of_lists else x.dtype
    checked = [
        checks.convert_argument(function.name, parameter, by_name[parameter.name], dtype)
        for parameter in function.parameters
        if not parameter.is_array
    ]
    return (*checked, *[array.dtype for array in indices])
