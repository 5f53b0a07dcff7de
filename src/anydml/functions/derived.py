"""A Python function for each function of an operator's file, with its signature and docstring.

Its body is written for its parameters, as `dataclasses` writes methods: a call costs what one written by hand would.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from anydml.arrays import received, received_all, received_indices
from anydml.arrays.quick import is_native
from anydml.core import native
from anydml.fields import ONE_OR_LIST, integer, integers
from anydml.functions import arguments, packing
from anydml.functions.calling import call
from anydml.functions.operations import OPERATIONS, Operation
from anydml.functions.traced import all_copied, copied, fused_functions, registered_for
from anydml.operators.element import Element
from anydml.operators.function import ARRAY, ARRAYS, INDICES, MASK, Function, Parameter

_NAMES: dict[str, Any] = {
    "Element": Element,
    "all_copied": all_copied,
    "all_parts": arguments.all_parts,
    "call": call,
    "check_data": arguments.check_data,
    "check_out_list": arguments.check_out_list,
    "check_word": arguments.check_word,
    "copied": copied,
    "fused_functions": fused_functions,
    "integer": integer,
    "is_native": is_native,
    "integers": integers,
    "one_or_list": ONE_OR_LIST,
    "listed": arguments.listed,
    "ndarray": np.ndarray,
    "number": np.integer,
    "packed": packing.packed,
    "parts_of": arguments.parts_of,
    "received": received,
    "received_all": received_all,
    "received_indices": received_indices,
    "registered_for": registered_for,
    "seen_indices": arguments.seen_indices,
    "seen_mask": arguments.seen_mask,
    "type": type,
    "with_lengths": arguments.with_lengths,
}
"""What bodies call. `type`, too: what is found among a function's own names is found in fewer lines of memory."""


def derived(function: Function, operation: Operation | None = None) -> Callable[..., Any]:
    """The Python function.

    Args:
        function: what it does.
        operation: the same for `calling`.
    """
    stub = function.stub
    code = stub.__code__
    count = code.co_argcount
    plain, named = code.co_varnames[:count], code.co_varnames[count : count + code.co_kwonlyargcount]
    first = f"def {function.name}({', '.join([*plain, *(['*', *named] if named else [])])}):"
    made = _compiled(function, operation or OPERATIONS[function.name], function.name, [first, *_source(function)])
    made.__globals__["native"] = native(function.name)
    made.__defaults__, made.__kwdefaults__ = stub.__defaults__, stub.__kwdefaults__
    made.__doc__, made.__annotations__, made.__wrapped__ = stub.__doc__, stub.__annotations__, stub
    made.__module__ = "anydml.functions"
    found: Callable[..., Any] = made
    return found


def _compiled(function: Function, operation: Operation, title: str, lines: Iterable[str]) -> Any:
    source = "\n".join(lines) + "\n"
    # Inside of the package, so that errors that name the caller's line look further.
    file = str(Path(__file__).with_name(f"<{title}>"))
    names = {**_NAMES, "FUNCTION": function, "OPERATION": operation}
    exec(compile(source, file, "exec"), names)  # made from the stub's signature alone
    # Tracebacks show its lines.
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    return names[function.name]


def _source(function: Function) -> Iterator[str]:
    label = repr(function.label)
    # Results are of the library and dtype of the first that is data.
    first, *others = function.arrays
    compiled = native(function.name)
    if compiled:
        x = function.parameters[0].name
        if function.is_of_lists:
            yield f"    if type({x}) in (list, tuple) and {x} and is_native({x}[0]):"
        else:
            yield f"    if type({x}) is ndarray or is_native({x}):"
        yield f"        found = native({', '.join([*[each.name for each in function.parameters], 'out'])})"
        yield "        if found is not None:"
        yield "            return found"
    yield "    adapter = None"
    yield from _first(function, first, label)
    for other in others:
        yield from _other(function, other, first, label)
    yield from _numbers(function, label)
    data = [each.name for each in function.arrays if not each.is_index]
    indices = [each.name for each in function.arrays if each.is_index]
    rest = [each.name for each in function.parameters if not each.is_array]
    rest += [f"{name}.dtype" for name in indices]
    inputs = first.name if function.is_of_lists else f"({', '.join([*data, *indices])},)"
    if len(data) > 1:
        yield f"    check_data({label}, {data!r}, ({', '.join(data)},))"
    yield f"    arguments = ({''.join(f'{name}, ' for name in rest)})"
    yield f"    inputs = {inputs}"
    if indices:
        yield f"    if type({data[0]}) is ndarray and {data[0]}.nbytes > {packing.APART}:"
        yield f"        inputs = packed({label}, OPERATION, inputs, arguments, out)"
    if function.is_of_lists:
        yield "    if not inputs:"
        yield f"        FUNCTION.infer({label}, (), arguments)"
    if function.has_parts:
        yield f"    check_out_list({label}, out)"
        yield f"    return call({label}, OPERATION, inputs, arguments, out, adapter)"
        return
    made = f"call({label}, OPERATION, inputs, arguments, None if out is None else (out,), adapter)[0]"
    if function.lengths is not None:
        made = f"with_lengths(FUNCTION, {made}, inputs, arguments, adapter)"
    yield f"    return {made}"


def _first(function: Function, first: Parameter, label: str) -> Iterator[str]:
    """The first array, or list of arrays: whose it is, and whether the call is traced."""
    x = first.name
    if first.kind == ARRAYS:
        yield f"    {x} = listed({label}, {x!r}, {x})"
        yield f"    if (registered := fused_functions(*{x}) or registered_for({x}[0] if {x} else None)) is not None:"
        yield from _traced(function, label, "        ")
        yield f"    if set(map(type, {x})) != {{ndarray}}:"
        yield f"        {x}, adapter = received_all({label}, {x})"
        yield f"    if len({{each.dtype for each in {x}}}) > 1:"
        yield f"        parts_of({label}, {x!r}, {x})"
        return
    yield f"    if type({x}) is not ndarray:"
    yield f"        if (registered := registered_for({x})) is not None:"
    yield from _traced(function, label, "            ")
    if first.kind == INDICES:
        yield f"        given = {x}"
        yield f"        {x}, adapter = received({label}, {x}, {x!r})"
        yield f"        {x} = seen_indices({label}, {x!r}, {x}, given, {x}, adapter)"
        yield "    else:"
        yield f"        {x} = seen_indices({label}, {x!r}, {x}, {x}, {x}, adapter)"
    else:
        yield f"        {x}, adapter = received({label}, {x}, {x!r})"


def _other(function: Function, each: Parameter, first: Parameter, label: str) -> Iterator[str]:
    """An array beside the first one."""
    x = each.name
    yield f"    if (registered := fused_functions({x})) is not None:"
    yield from _traced(function, label, "        ")
    is_own = f"adapter is None and type({x}) is ndarray"
    if each.kind == ARRAY:
        yield f"    if not ({is_own}):"
        yield f"        {x} = received_indices({label}, {x}, adapter, {x!r})"
        return
    yield f"    given = {x}"
    yield f"    if not ({is_own}):"
    yield f"        {x} = received_indices({label}, {x}, adapter, {x!r})"
    if each.kind == MASK:
        yield f"    {x} = seen_mask({label}, {x!r}, {x}, {first.name}, adapter)"
        return
    yield f"    {x} = seen_indices({label}, {x!r}, {x}, given, {first.name}, adapter)"


def _traced(function: Function, label: str, indent: str) -> Iterator[str]:
    """The call on traced arrays."""
    code = function.stub.__code__
    given = [
        each.name if k < code.co_argcount else f"{each.name}={each.name}" for k, each in enumerate(function.parameters)
    ]
    made = f"registered.{function.name}({', '.join(given)})"
    if function.has_parts:
        yield f"{indent}return all_copied({label}, {made}, out)"
    elif function.lengths is not None:
        yield f"{indent}joined, lengths = {made}"
        yield f'{indent}return copied({label}, "out", joined, out), lengths'
    else:
        yield f'{indent}return copied({label}, "out", {made}, out)'


def _numbers(function: Function, label: str) -> Iterator[str]:
    """The arguments that are no arrays, in Python's own types."""
    data = next((each.name for each in function.arrays if each.kind == ARRAY), None)
    for each in function.parameters:
        x, field = each.name, repr(each.name)
        if each.kind == "Ints":
            yield f"    {x} = integers({label}, {field}, {x})"
        elif each.kind in ("int | Ints", "int | Ints | None"):
            is_given = f"{x} is not None and " if each.kind.endswith("None") else ""
            yield f"    if {is_given}type({x}) is not int:"
            many = f"integers({label}, {field}, {x}, one_or_list)"
            yield f"        {x} = {x}.__index__() if isinstance({x}, number) else {many}"
        elif each.kind == "Ints | None":
            yield f"    if {x} is not None:"
            yield f"        {x} = integers({label}, {field}, {x})"
        elif each.kind == "int":
            yield f"    if type({x}) is not int:"
            yield f"        {x} = integer({label}, {field}, {x})"
        elif each.kind == "int | None":
            yield f"    if {x} is not None:"
            yield f"        {x} = integer({label}, {field}, {x})"
        elif each.kind == "HostInts | None":
            yield f"    {x} = all_parts({label}, {field}, {x})"
        elif each.kind == "Scalar":
            yield f"    {x} = Element.of({label}, {field}, {x}, {data}.dtype)"
        elif each.kind == "Literal":
            yield f"    check_word({label}, {field}, {x}, {each.words!r})"
