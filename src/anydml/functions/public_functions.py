"""The public functions, with the signatures and docstrings of the stubs, and one body for all."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import partial, update_wrapper
from types import FunctionType
from typing import Any

from numpy import ndarray

from anydml import core
from anydml.arrays.native_arrays import are_native, is_native
from anydml.operators.function import Function


def native(*_: Any) -> Any:
    """Decline all calls: a placeholder, which is replaced by the compiled call of each function that has one."""


is_ready = is_native


def _of_two(x: Any, out: Any) -> Any:
    result = native(x, out) if type(x) is ndarray or is_ready(x) else None
    return call_from_python(x, out) if result is None else result


def _of_three(x: Any, a: Any, out: Any) -> Any:
    result = native(x, a, out) if type(x) is ndarray or is_ready(x) else None
    return call_from_python(x, a, out) if result is None else result


def _of_four(x: Any, a: Any, b: Any, out: Any) -> Any:
    result = native(x, a, b, out) if type(x) is ndarray or is_ready(x) else None
    return call_from_python(x, a, b, out) if result is None else result


def _of_five(x: Any, a: Any, b: Any, c: Any, out: Any) -> Any:
    result = native(x, a, b, c, out) if type(x) is ndarray or is_ready(x) else None
    return call_from_python(x, a, b, c, out) if result is None else result


def _of_six(x: Any, a: Any, b: Any, c: Any, d: Any, out: Any) -> Any:
    result = native(x, a, b, c, d, out) if type(x) is ndarray or is_ready(x) else None
    return call_from_python(x, a, b, c, d, out) if result is None else result


_BODIES = {body.__code__.co_argcount: body.__code__ for body in (_of_two, _of_three, _of_four, _of_five, _of_six)}
"""Code by number of arguments, which are passed one by one: that is fastest."""


def public_function(function: Function) -> Callable[..., Any]:
    """Return the public function for a `Function`: a body with the stub's signature."""
    stub: Any = function.stub
    code = stub.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    body = _BODIES[count].replace(
        co_name=stub.__name__,
        co_qualname=stub.__name__,
        co_argcount=code.co_argcount,
        co_kwonlyargcount=code.co_kwonlyargcount,
        co_varnames=(*code.co_varnames[:count], "result"),
    )
    names = {
        "native": core.native(function.name) or native,
        "call_from_python": partial(call_from_python, function),
        "is_ready": are_native if function.is_of_lists else is_native,
        "ndarray": ndarray,
        "__builtins__": builtins,
    }
    new_function: Any = FunctionType(body, names, stub.__name__, stub.__defaults__)
    new_function.__kwdefaults__ = stub.__kwdefaults__
    update_wrapper(new_function, stub).__module__ = "anydml.functions"
    return new_function  # type: ignore[no-any-return]


def call_from_python(function: Function, *values: Any) -> Any:
    """Run a call that the native call declined; the modules for this are imported on first use."""
    from anydml.functions.python_calls import call_from_python as run

    return run(function, *values)
