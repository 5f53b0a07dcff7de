"""The public functions: their signatures and documentation are the stubs', their bodies are the same for all."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from functools import partial, update_wrapper
from typing import Any

import numpy as np

from anydml.arrays import read_argument, read_arrays
from anydml.arrays.quick import are_native, is_native
from anydml.core import native
from anydml.fields import items_of
from anydml.functions import arguments as checks
from anydml.functions.calling import call
from anydml.functions.traced import all_copied_to, copied_to, fused_functions, registered_for
from anydml.operators.function import Function

_BODY = """
    found = native({given}) if {is_native} else None
    return general({given}) if found is None else found
"""
"""The bodies of functions. `native` is compiled, and returns None for calls that it does not support, which `general`
does. Both take all arguments by position, ``out`` last."""


def derived(function: Function) -> Callable[..., Any]:
    """Return the public function for a `Function`."""
    code = function.stub.__code__
    count, names = code.co_argcount, code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    parameters = [*names[:count], *(["*", *names[count:]] if names[count:] else [])]
    compiled = native(function.name)
    is_of_native = "are_native(arrays)" if function.is_of_lists else "type({0}) is ndarray or is_native({0})"
    condition = is_of_native.format(*names) if compiled else "False"
    body = _BODY.format(given=", ".join(names), is_native=condition)
    text = f"def {function.name}({', '.join(parameters)}):{body}"
    file = f"<anydml.{function.name}>"
    # Tracebacks and debuggers show the lines.
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    variables: dict[str, Any] = {"native": compiled, "general": partial(general, function)}
    variables |= {"ndarray": np.ndarray, "is_native": is_native, "are_native": are_native}
    exec(compile(text, file, "exec"), variables)
    made: Any = update_wrapper(variables[function.name], function.stub)
    made.__defaults__, made.__kwdefaults__ = function.stub.__defaults__, function.stub.__kwdefaults__
    made.__module__ = "anydml.functions"
    return made  # type: ignore[no-any-return]


def general(function: Function, *given: Any) -> Any:
    """Run a call that the native call declined, or raise an error if it breaks a rule.

    Args:
        function: the function's rules.
        given: all arguments in order, `out` last.
    """
    label, out = function.label, given[-1]
    by_name = {each.name: value for each, value in zip(function.parameters, given, strict=False)}
    # The first array determines the library and dtype of the results.
    first, *others = function.arrays
    if function.is_of_lists:
        by_name[first.name] = items_of(label, first.name, by_name[first.name], "a list of arrays")
    x = by_name[first.name]
    every = [*(x if function.is_of_lists else [x]), *[by_name[each.name] for each in others]]
    registered = fused_functions(*every)
    if registered is None and every:
        registered = registered_for(every[0])
    if registered is not None:
        return _call_traced(function, registered, by_name, out)
    if function.is_of_lists:
        x, adapter = read_arrays(label, x)
        inputs = x
    else:
        x, adapter = read_argument(label, x, first.name)
        inputs = x, *[checks.secondary_array(label, each, by_name[each.name], x, adapter) for each in others]
    count = function.data_count(len(inputs))
    arguments = checked_arguments(function, by_name, x, inputs[count:])
    if not function.is_of_lists:
        checks.check_data(label, [each.name for each in function.arrays[:count]], inputs[:count])
    if function.has_parts:
        checks.check_out_list(label, out)
        return call(label, function, inputs, arguments, out, adapter)
    (found,) = call(label, function, inputs, arguments, None if out is None else (out,), adapter)
    if function.lengths is None:
        return found
    lengths = np.array(function.lengths([array.shape for array in inputs], arguments), np.int64)
    return found, lengths if adapter is None else adapter.from_lengths(lengths)


def _call_traced(function: Function, registered: Any, by_name: dict[str, Any], out: Any) -> Any:
    """Run a function on traced or lazy arrays."""
    count, label = function.stub.__code__.co_argcount, function.label
    names = [each.name for each in function.parameters]
    named = {name: by_name[name] for name in names[count:]}
    made = getattr(registered, function.name)(*[by_name[name] for name in names[:count]], **named)
    if out is None:
        return [*made] if function.has_parts else made
    if check_out := getattr(registered, "check_out", None):
        check_out(label, out)
    if function.has_parts:
        return all_copied_to(label, made, out)
    if function.lengths is not None:
        joined, lengths = made
        return copied_to(label, "out", joined, out), lengths
    return copied_to(label, "out", made, out)


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
