"""A Python function for each function of an operator's file: its stub, whose body calls the two ways of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter, received, received_all, received_indices
from anydml.core import native
from anydml.fields import ONE_OR_LIST, integer, integers
from anydml.functions import arguments as given_as
from anydml.functions.calling import call
from anydml.functions.traced import all_copied, copied, fused_functions, registered_for
from anydml.operators.element import Element
from anydml.operators.function import ARRAYS, INDICES, MASK, Function, Parameter


def derived(function: Function) -> Callable[..., Any]:
    """The Python function of what is recorded."""
    stub: Any = function.stub
    ways = {"native": native(function.name) or _leave, "general": partial(general, function)}
    names = {**stub.__globals__, **ways}
    # PyTorch's compiler would look for them in the module of this name.
    del names["__name__"]
    made = FunctionType(stub.__code__, names, stub.__name__, stub.__defaults__)
    made.__kwdefaults__, made.__annotations__ = stub.__kwdefaults__, stub.__annotations__
    made.__wrapped__ = stub  # type: ignore[attr-defined]
    made.__module__ = "anydml.functions"
    return made


def _leave(*arguments: Any) -> None:
    """The compiled way where there is none."""


def general(function: Function, *given: Any) -> Any:
    """The way in Python, which does what compiled code does not, and refuses what breaks a rule.

    Args:
        function: what is done.
        given: the arguments by their places, `out` last.
    """
    label, out = function.label, given[-1]
    by_name = {each.name: value for each, value in zip(function.parameters, given, strict=False)}
    # Results are of the library and dtype of the first that is data.
    parameters = function.arrays
    first, *others = parameters
    x = by_name[first.name]
    if first.kind == ARRAYS:
        x = by_name[first.name] = given_as.listed(label, first.name, x)
        registered = fused_functions(*x)
        if registered is None:
            registered = registered_for(x[0] if x else None)
    else:
        registered = None if type(x) is np.ndarray else registered_for(x)
    for each in others:
        if registered is None:
            registered = fused_functions(by_name[each.name])
    if registered is not None:
        return _traced(function, registered, by_name, out)
    if first.kind == ARRAYS:
        return _of_lists(function, by_name, x, out)
    adapter = None
    if type(x) is not np.ndarray:
        x, adapter = received(label, x, first.name)
    arrays = [x, *[_other(label, each, by_name[each.name], x, adapter) for each in others]]
    count = [each.is_index for each in parameters].count(False)
    arguments = _arguments(function, by_name, x, arrays[count:])
    if count > 1:
        given_as.check_data(label, [each.name for each in parameters[:count]], arrays[:count])
    inputs = tuple(arrays)
    if function.has_parts:
        given_as.check_out_list(label, out)
        return call(label, function, inputs, arguments, out, adapter)
    return call(label, function, inputs, arguments, None if out is None else (out,), adapter)[0]


def _of_lists(function: Function, by_name: dict[str, Any], x: Any, out: Any) -> Any:
    """A function on a list of arrays."""
    label, adapter = function.label, None
    if set(map(type, x)) != {np.ndarray}:
        x, adapter = received_all(label, x)
    if len({each.dtype for each in x}) > 1:
        given_as.parts_of(label, function.arrays[0].name, x)
    arguments = _arguments(function, by_name, x, ())
    if not x:
        function.infer(label, (), arguments)
    found = call(label, function, x, arguments, None if out is None else (out,), adapter)[0]
    if function.lengths is None:
        return found
    return given_as.with_lengths(function, found, x, arguments, adapter)


def _traced(function: Function, registered: Any, by_name: dict[str, Any], out: Any) -> Any:
    """The call on traced arrays."""
    count, label = function.stub.__code__.co_argcount, function.label
    names = [each.name for each in function.parameters]
    named = {name: by_name[name] for name in names[count:]}
    made = getattr(registered, function.name)(*[by_name[name] for name in names[:count]], **named)
    if function.has_parts:
        return all_copied(label, made, out)
    if function.lengths is not None:
        joined, lengths = made
        return copied(label, "out", joined, out), lengths
    return copied(label, "out", made, out)


def _other(label: str, parameter: Parameter, given: Any, x: Any, adapter: ArrayAdapter | None) -> Any:
    """An array beside the first one, as the engines see it."""
    found = given
    if adapter is not None or type(given) is not np.ndarray:
        found = received_indices(label, given, adapter, parameter.name)
    if parameter.kind == MASK:
        return given_as.seen_mask(label, parameter.name, found, x, adapter)
    if parameter.kind == INDICES:
        return given_as.seen_indices(label, parameter.name, found, given, x, adapter)
    return found


def _arguments(function: Function, by_name: dict[str, Any], x: Any, indices: Any) -> tuple[Any, ...]:
    """The arguments that are no arrays, in Python's own types, and the dtypes of indices."""
    found = [
        _argument(function.label, each, by_name[each.name], x) for each in function.parameters if not each.is_array
    ]
    return (*found, *[each.dtype for each in indices])


def _argument(label: str, parameter: Parameter, value: Any, x: Any) -> Any:
    name, kind = parameter.name, parameter.kind
    if kind == "HostInts | None":
        return given_as.all_parts(label, name, value)
    if kind == "Scalar":
        return Element.of(label, name, value, x.dtype)
    if kind == "Literal":
        given_as.check_word(label, name, value, parameter.words)
        return value
    if value is None and kind.endswith("| None"):
        return None
    kind = kind.removesuffix(" | None")
    if kind == "Ints":
        return integers(label, name, value)
    if type(value) is int:
        return value
    if kind == "int":
        return integer(label, name, value)
    return value.__index__() if isinstance(value, np.integer) else integers(label, name, value, ONE_OR_LIST)
