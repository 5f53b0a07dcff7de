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
from anydml.arrays.quick import BRIDGES, QUICK
from anydml.fields import ONE_OR_LIST, integer, integers
from anydml.functions import arguments, packing
from anydml.functions.calling import call
from anydml.functions.operations import OPERATIONS, Operation
from anydml.functions.step_source import has_steps, plain_names, step_lines, taken
from anydml.functions.steps import ANSWERED, NAMESPACES, PLANS, Asked, nobody
from anydml.functions.traced import all_copied, copied, fused_functions, registered_for
from anydml.operators.element import Element
from anydml.operators.function import ARRAY, ARRAYS, INDICES, MASK, Function, Parameter

_NAMES: dict[str, Any] = {
    "Asked": Asked,
    "Element": Element,
    "PLANS": PLANS,
    "BRIDGES": BRIDGES,
    "QUICK": QUICK,
    "all_copied": all_copied,
    "all_parts": arguments.all_parts,
    "call": call,
    "check_data": arguments.check_data,
    "check_out_list": arguments.check_out_list,
    "check_outside": arguments.check_outside,
    "check_word": arguments.check_word,
    "copied": copied,
    "fused_functions": fused_functions,
    "integer": integer,
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
    "whole": nobody,
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
    made.__defaults__, made.__kwdefaults__ = stub.__defaults__, stub.__kwdefaults__
    made.__doc__, made.__annotations__, made.__wrapped__ = stub.__doc__, stub.__annotations__, stub
    made.__module__ = "anydml.functions"
    if has_steps(function):
        ANSWERED[operation or OPERATIONS[function.name]] = made, *taken(function)
    found: Callable[..., Any] = made
    return found


def peeking(function: Function, operation: Operation, is_whole: bool = False) -> Callable[..., Any] | None:
    """The same for other libraries' arrays where there is a step for what is given; else it gives None.

    It takes all arguments but `out` by their places. None where the function has no steps.

    Args:
        function: what it does.
        operation: the same for `calling`.
        is_whole: whether only such steps count as compiled code does from the arguments to the results: it sees by
            itself whether anything changes what new arrays are.
    """
    lines = [*step_lines(function, of_numpy=False, is_whole=is_whole)]
    if not lines:
        return None
    first = f"def {function.name}({', '.join([each.name for each in function.parameters])}):"
    made = _compiled(function, operation, f"step of {function.name}", [first, "    out = None", *lines])
    made.__defaults__ = tuple([each.default for each in function.parameters if each.has_default])
    found: Callable[..., Any] = made
    return found


def _compiled(function: Function, operation: Operation, title: str, lines: Iterable[str]) -> Any:
    source = "\n".join(lines) + "\n"
    # Inside of the package, so that errors that name the caller's line look further.
    file = str(Path(__file__).with_name(f"<{title}>"))
    names = {**_NAMES, "FUNCTION": function, "OPERATION": operation}
    exec(compile(source, file, "exec"), names)  # made from the stub's signature alone
    NAMESPACES.setdefault(operation, []).append(names)
    # Tracebacks show its lines.
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    return names[function.name]


def _source(function: Function) -> Iterator[str]:
    label = repr(function.label)
    # Results are of the library and dtype of the first that is data.
    first, *others = function.arrays
    steps = [*step_lines(function)]
    yield from steps
    yield "    adapter = None"
    yield from _first(function, first, label)
    for other in others:
        yield from _other(function, other, first, label)
    yield from _numbers(function, label)
    data = [each.name for each in function.arrays if not each.is_index]
    indices = [each.name for each in function.arrays if each.is_index]
    rest = [each.name for each in function.parameters if not each.is_array and each.kind != "OutOfRange"]
    rest += [f"{name}.dtype" for name in indices]
    asked = f"Asked(asked, {len(plain_names(function))}, adapter and adapter.array)"
    more = f", None, asked and {asked}" if steps else ""
    inputs = first.name if function.is_of_lists else f"({', '.join([*data, *indices])},)"
    if len(data) > 1:
        yield f"    check_data({label}, {data!r}, ({', '.join(data)},))"
    yield f"    arguments = ({''.join(f'{name}, ' for name in rest)})"
    yield f"    inputs = {inputs}"
    for each in function.parameters:
        if each.kind == "OutOfRange":
            yield f"    if type({each.name}) is not str or {each.name} != 'clamp':"
            yield f"        check_outside(FUNCTION, {each.name!r}, {each.name}, inputs, arguments)"
    if indices:
        yield f"    if type({data[0]}) is ndarray and {data[0]}.nbytes > {packing.APART}:"
        yield f"        inputs = packed({label}, OPERATION, inputs, arguments, out)"
    if function.is_of_lists:
        yield "    if not inputs:"
        yield f"        FUNCTION.infer({label}, (), arguments)"
    if function.has_parts:
        yield f"    check_out_list({label}, out)"
        yield f"    return call({label}, OPERATION, inputs, arguments, out, adapter{more})"
        return
    made = f"call({label}, OPERATION, inputs, arguments, None if out is None else (out,), adapter{more})[0]"
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
