"""`len`, `max` and `min` for traced functions: open sizes stay open, where Python's would need integers."""

from __future__ import annotations

import builtins
import inspect
import types
from collections.abc import Callable
from typing import Any

from anydml.tracing.sizes import Size
from anydml.tracing.trace import TracedArray


def _len(each: Any, /) -> Any:
    return each.shape[0] if isinstance(each, TracedArray) and each.ndim else len(each)


def _max(*arguments: Any, **named: Any) -> Any:
    return _extreme(max, arguments, named)


def _min(*arguments: Any, **named: Any) -> Any:
    return _extreme(min, arguments, named)


def _extreme(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the open maximum or minimum of open sizes; if a number is among the arguments, Python compares them."""
    if named or (len(arguments) == 1 and type(arguments[0]) in (str, bytes)):
        return function(*arguments, **named)
    values = [*arguments[0]] if len(arguments) == 1 else [*arguments]
    if len(values) > 1 and all(type(value) is Size for value in values):
        return values[0].scope.extreme(values, is_least=function is min)
    return function(values)


_OPEN = {**vars(builtins), "len": _len, "max": _max, "min": _min}


def opened(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy of a Python function that uses these builtins itself; other callables are returned unchanged."""
    if inspect.ismethod(function):
        return types.MethodType(opened(function.__func__), function.__self__)
    if not isinstance(function, types.FunctionType) or not {"len", "max", "min"} & {*_names(function.__code__)}:
        return function
    names = {**function.__globals__, "__builtins__": _OPEN}
    code, defaults, closure = function.__code__, function.__defaults__, function.__closure__
    found = types.FunctionType(code, names, function.__name__, defaults, closure)
    found.__kwdefaults__ = function.__kwdefaults__
    return found


def _names(code: types.CodeType) -> list[str]:
    """Return the global names of a code object and of functions inside it."""
    inner = [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return [*code.co_names, *(name for each in inner for name in _names(each))]
